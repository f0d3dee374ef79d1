"""The directory of a new broker: formatted once on a machine, copied from then on.

Formatting needs a JVM, which is a third of the cost of a start. Its result depends only on
the jars and on the settings, except ports and paths: all brokers of a kind may have the same one,
except for the id of their cluster.

Invariants:
    - A copy is made only for a node that is alone: those of a cluster know each other by their ids.
    - A folder with the final name is complete: it is filled under another name first.
    - Settings with which no directory was formatted yet are checked by the formatter, which refuses
      wrong ones.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import re
import secrets
import shutil
import subprocess
import uuid
from pathlib import Path

from logstate.contracts.errors import BrokerError
from logstate.local_broker.jvm import Launch, java_command, without_frames

#: settings of one's own make another one each; the oldest are dropped
_KEPT_MAX = 32
_ABOUT = "meta.properties"
_PORT = re.compile(r":\d+")
_CLUSTER = re.compile(r"^cluster\.id=.*$", re.MULTILINE)


def format_directory(launch: Launch) -> None:
    """Make the directory that a broker begins with, by its settings, where there is none.

    Raises:
        BrokerError: it cannot be formatted, usually because a property is wrong.
    """
    if (launch.records / _ABOUT).exists():
        return
    if launch.cluster_id is not None:
        _format(launch)
        return
    kept = _template_path(launch)
    if not _copy_template(kept, launch.records):
        _format(launch)
        _save_template(launch.records, kept)


def random_id() -> str:
    """An id as Kafka makes them: 16 random bytes in URL-safe base64."""
    made = "-"
    while made.startswith("-"):  # it would read as an option
        made = base64.urlsafe_b64encode(secrets.token_bytes(16)).rstrip(b"=").decode()
    return made


def _template_path(launch: Launch) -> Path:
    """Return the path of the formatted directory for these settings, if there is one."""
    text = launch.settings.read_text(encoding="utf-8").replace(str(launch.data), "")
    identity = f"{launch.format_options}\n{_PORT.sub('', text)}"
    key = hashlib.sha256(identity.encode()).hexdigest()[:16]
    return launch.jars.with_name(f"{launch.jars.name}-formatted") / key


def _copy_template(kept: Path, directory: Path) -> bool:
    """Copy the directory if there is one; another process may delete it meanwhile."""
    part = directory.with_name(f".{directory.name}-{uuid.uuid4().hex}")
    try:
        shutil.copytree(kept, part)
        about = part / _ABOUT
        text = about.read_text(encoding="utf-8")
        about.write_text(_CLUSTER.sub(f"cluster.id={random_id()}", text), encoding="utf-8")
        part.rename(directory)
    except OSError:
        shutil.rmtree(part, ignore_errors=True)
        return False
    return True


def _save_template(directory: Path, kept: Path) -> None:
    """Keep a copy for the next broker; a start does not fail if the disk is full."""
    part = kept.with_name(f".{kept.name}-{uuid.uuid4().hex}")
    with contextlib.suppress(OSError):
        shutil.copytree(directory, part)
        shutil.rmtree(kept, ignore_errors=True)  # which was not whole
        part.rename(kept)
    shutil.rmtree(part, ignore_errors=True)
    with contextlib.suppress(OSError):
        by_age = sorted(kept.parent.iterdir(), key=lambda one: one.stat().st_mtime)
        for old in by_age[:-_KEPT_MAX]:
            shutil.rmtree(old, ignore_errors=True)


def _format(launch: Launch) -> None:
    cluster_id = launch.cluster_id or random_id()
    answer = subprocess.run(
        [
            *java_command(launch, "-XX:TieredStopAtLevel=1"),
            *("kafka.tools.StorageTool", "format", *launch.format_options),
            *("-t", cluster_id, "-c", str(launch.settings)),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    if answer.returncode != 0:
        raise BrokerError(
            f"The broker's directory {launch.data} cannot be formatted. Likely a bad server "
            f"property. It said:\n{without_frames(answer.stdout + answer.stderr)}"
        )
