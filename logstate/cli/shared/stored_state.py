"""What an application has stored, as commands look at it: its manifest, its local state."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from logstate.admin.reset import At, Target, internal_topics
from logstate.changelog.directory import StateDirectory
from logstate.contracts.clients import Admin, Cluster, run_steps
from logstate.contracts.clock import SystemClock
from logstate.contracts.compatibility import MigrationOptions
from logstate.contracts.errors import ConfigError
from logstate.contracts.topic_names import conflicting_topics
from logstate.kafka.cluster import KafkaCluster
from logstate.kafka.log_reader import check_answered
from logstate.topics.manifest_changes import Manifest
from logstate.topics.manifest_log import ManifestLog, decoded

T = TypeVar("T")


def with_manifest(
    application_id: str,
    bootstrap: str,
    command_config: Path | None,
    use: Callable[[Admin, Manifest | None], T],
) -> T:
    """What ``use`` makes of the manifest that was written last, None where there is none."""
    cluster = cluster_of(bootstrap, command_config)
    admin = cluster.admin()
    try:
        return use(admin, manifest_of(application_id, cluster, admin))
    finally:
        admin.close()


def manifest_of(application_id: str, cluster: Cluster, admin: Admin) -> Manifest | None:
    """The manifest that was written last, None where there is none; raises RestoreError."""
    log = ManifestLog(application_id, cluster, admin, SystemClock())
    try:
        found = run_steps(log.new_manifests(lambda: False))
        return decoded(found[-1], application_id) if found else None
    finally:
        run_steps(log.close())


def topics_of_namesakes(
    application_id: str,
    admin: Admin,
    topics: Iterable[str],
    manifest_of: Callable[[str], Manifest | None],
) -> dict[str, str]:
    """Those of ``topics`` that another application keeps its state in -> the id of that one.

    ``shop-eu-total-changelog`` may belong to ``shop`` or to ``shop-eu``. ``manifest_of`` reads the
    manifest of an application, and is asked only about ids that such a topic can have.
    """
    wanted = set(topics)
    found: dict[str, str] = {}
    for other in sorted(conflicting_topics(application_id, admin.topic_names())):
        if any(topic.startswith(f"{other}-") for topic in wanted):
            stored = manifest_of(other)
            own = set() if stored is None else internal_topics(other, stored)
            found.update(dict.fromkeys(own & wanted, other))
    return found


def cluster_of(bootstrap: str, command_config: Path | None) -> KafkaCluster:
    """Clients with the settings of a file of ``name=value`` lines, where somebody answers."""
    settings = client_settings(command_config)
    check_answered({"bootstrap.servers": bootstrap, **settings})
    return KafkaCluster(bootstrap, settings, client_id="logstate")


def client_settings(path: Path | None) -> dict[str, str]:
    """What a file of ``name=value`` lines says, but for the address, which is ``--bootstrap``."""
    if path is None:
        return {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise ConfigError(f"--command-config {path} cannot be read: {error.strerror}") from error
    told = (line.strip() for line in lines)
    named = dict(pair(line) for line in told if line and not line.startswith("#"))
    return {name: value for name, value in named.items() if name != "bootstrap.servers"}


def registry_settings(url: str | None) -> dict[str, str]:
    """Of a schema registry; nothing where the application's own is meant."""
    return {} if url is None else {"url": url}


def pair(text: str) -> tuple[str, str]:
    """``name=value``; an error shows neither, for the value may be a secret."""
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise ConfigError("write NAME=VALUE; what was given has no '=', or no name before it")
    return name.strip(), value.strip()


def decisions(renamed: Iterable[str] | None, forget: Iterable[str] | None) -> MigrationOptions:
    """What options of a command say about stored names."""
    return MigrationOptions(dict(map(pair, renamed or ())), frozenset(forget or ()))


def target(text: str) -> Target:
    """Where inputs begin: ``earliest``, ``latest``, an offset, or a time (local without a zone)."""
    if text == "earliest":
        return "earliest"
    if text == "latest":
        return "latest"
    if text.isdecimal():
        return int(text)
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(
            f"--to {text!r} is neither 'earliest' nor 'latest', an offset, or a time such as"
            " 2026-01-31T12:00"
        ) from None
    return At(int(moment.timestamp() * 1000))


def task_directories(state_dir: Path | None, application_id: str) -> list[str]:
    """Directories of tasks, as many as there are.

    Raises ConfigError where one was named that the application has never used.
    """
    if state_dir is None:
        return []
    if not (state_dir / application_id).is_dir():
        raise ConfigError(
            f"--state-dir {state_dir}: there is no directory {application_id!r} in it, so the local"
            f" state of application {application_id!r} is elsewhere, or on another machine. Give"
            " the state_dir of its Application, or leave --state-dir out: state that is left is"
            " found stale by the next start. Nothing was changed"
        )
    with StateDirectory(state_dir, application_id) as directory:
        return [str(directory.path / str(task)) for task in directory.tasks()]


def delete_local_state(state_dir: Path | None, application_id: str) -> None:
    """Delete them. Raises StateDirectoryError where an instance uses them."""
    if state_dir is None or not (state_dir / application_id).is_dir():
        return
    with StateDirectory(state_dir, application_id) as directory:
        directory.delete_tasks()
