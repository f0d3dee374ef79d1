"""Access what an application has stored, for commands: its manifest and its local state."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from logstate.contracts.clients import Admin, Cluster
from logstate.contracts.compatibility import MigrationOptions
from logstate.contracts.errors import ConfigError

if TYPE_CHECKING:
    from logstate.admin.reset import Target
    from logstate.kafka.cluster import KafkaCluster
    from logstate.topics.manifest_changes import Manifest

T = TypeVar("T")


def with_manifest(
    application_id: str,
    bootstrap: str,
    command_config: Path | None,
    use: Callable[[Admin, Manifest | None], T],
) -> T:
    """Call ``use`` with the manifest that was written last, or None if there is none."""
    cluster = cluster_of(bootstrap, command_config)
    admin = cluster.admin()
    try:
        return use(admin, manifest_of(application_id, cluster, admin))
    finally:
        admin.close()


def manifest_of(application_id: str, cluster: Cluster, admin: Admin) -> Manifest | None:
    """Return the manifest that was written last, or None; raises RestoreError."""
    from logstate.contracts.clock import SystemClock
    from logstate.topics.manifest_log import newest_manifest

    return newest_manifest(application_id, cluster, admin, SystemClock())


def topics_of_other_applications(
    application_id: str,
    admin: Admin,
    topics: Iterable[str],
    manifest_of: Callable[[str], Manifest | None],
) -> dict[str, str]:
    """Return those of ``topics`` in which another application keeps its state -> its id.

    ``shop-eu-total-changelog`` may belong to ``shop`` or to ``shop-eu``. ``manifest_of`` reads the
    manifest of an application, and is called only for ids that such a topic can have.
    """
    from logstate.admin.reset import internal_topics
    from logstate.contracts.topic_names import conflicting_topics

    wanted = set(topics)
    found: dict[str, str] = {}
    for other in sorted(conflicting_topics(application_id, admin.topic_names())):
        if any(topic.startswith(f"{other}-") for topic in wanted):
            stored = manifest_of(other)
            own = set() if stored is None else internal_topics(other, stored)
            found.update(dict.fromkeys(own & wanted, other))
    return found


def cluster_of(bootstrap: str, command_config: Path | None) -> KafkaCluster:
    """Return clients with the settings of a ``name=value`` file; raises if no broker answers."""
    from logstate.kafka.cluster import KafkaCluster
    from logstate.kafka.log_reader import check_answered

    settings = client_settings(command_config)
    check_answered({"bootstrap.servers": bootstrap, **settings})
    return KafkaCluster(bootstrap, settings, client_id="logstate")


def client_settings(path: Path | None) -> dict[str, str]:
    """Return the settings of a ``name=value`` file, except the address (``--bootstrap``)."""
    if path is None:
        return {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise ConfigError(f"--command-config {path} cannot be read: {error.strerror}") from error
    stripped = (line.strip() for line in lines)
    named = dict(pair(line) for line in stripped if line and not line.startswith("#"))
    return {name: value for name, value in named.items() if name != "bootstrap.servers"}


def registry_settings(url: str | None) -> dict[str, str]:
    """Return the settings of a schema registry; empty for the application's own."""
    return {} if url is None else {"url": url}


def pair(text: str) -> tuple[str, str]:
    """Parse ``name=value``; an error shows neither, because the value may be a secret."""
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise ConfigError("expected NAME=VALUE, but it has no '=' or no name before it")
    return name.strip(), value.strip()


def decisions(renamed: Iterable[str] | None, forget: Iterable[str] | None) -> MigrationOptions:
    """Return the options of a command about stored names."""
    return MigrationOptions(dict(map(pair, renamed or ())), frozenset(forget or ()))


def target(text: str) -> Target:
    """Parse where inputs begin: ``earliest``, ``latest``, an offset, or a time (default: local)."""
    from logstate.admin.reset import At

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
            f"--to {text!r} is not 'earliest', 'latest', an offset, or a time such as"
            " 2026-01-31T12:00"
        ) from None
    return At(int(moment.timestamp() * 1000))


def task_directories(state_dir: Path | None, application_id: str) -> list[str]:
    """Return the directories of the tasks.

    Raises ConfigError for a state directory that the application has never used.
    """
    from logstate.changelog.directory import StateDirectory

    if state_dir is None:
        return []
    if not (state_dir / application_id).is_dir():
        raise ConfigError(
            f"--state-dir {state_dir} has no directory {application_id!r}, so the local state of"
            f" application {application_id!r} is in another directory, or on another machine. Give"
            " the state_dir of its Application, or leave --state-dir out: the next start detects"
            " stale state. Nothing was changed"
        )
    with StateDirectory(state_dir, application_id) as directory:
        return [str(directory.path / str(task)) for task in directory.tasks()]


def delete_local_state(state_dir: Path | None, application_id: str) -> None:
    """Delete them. Raises StateDirectoryError if an instance uses them."""
    from logstate.changelog.directory import StateDirectory

    if state_dir is None or not (state_dir / application_id).is_dir():
        return
    with StateDirectory(state_dir, application_id) as directory:
        directory.delete_tasks()
