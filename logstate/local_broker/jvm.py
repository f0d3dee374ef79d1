"""The processes behind a local broker: its JVM, and the watchdog.

The watchdog is a shell that blocks on a pipe which only the starter holds open. The kernel closes
the pipe when the starter ends, however it ends, and the shell then kills the broker.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from logstate.local_broker.config import log4j_properties, server_properties
from logstate.local_broker.java import Java
from logstate.local_broker.secured import secured_listener

# $1 is the broker, $2 its directory when that is temporary.
_WATCHDOG = """
read -r _
kill -KILL "$1" 2>/dev/null
[ -z "$2" ] && exit
for _ in 1 2 3 4 5; do rm -rf -- "$2" && exit; sleep 0.2; done
"""


@dataclass(frozen=True)
class Launch:
    """Everything that does not change when the same broker is started again."""

    java: Java
    jars: Path
    data: Path
    temporary: bool
    heap: str
    properties: Mapping[str, str]
    detached: bool
    timeout_s: float
    format_options: tuple[str, ...] = ("--standalone",)
    """Which controllers there are at first: this node alone, unless it is one of a cluster."""
    cluster_id: str | None = None
    """That of the cluster; a new one when None."""
    flags: tuple[str, ...] = ()
    """Of the JVM, in addition to its heap."""
    users: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Names and passwords; with any there is a listener for them."""
    has_tls: bool = False
    """Whether there is a listener with TLS: that of the users, if there are any."""

    @property
    def settings(self) -> Path:
        """The ``server.properties`` of the broker."""
        return self.data / "server.properties"

    @property
    def records(self) -> Path:
        """Where the broker keeps its logs; formatted before its first start."""
        return self.data / "kafka"

    @property
    def certificates(self) -> Path | None:
        """The directory of the certificates of the broker and of its authority."""
        return self.data / "tls" if self.has_tls else None

    @property
    def log4j(self) -> Path:
        """The logging configuration of the broker."""
        return self.data / "log4j2.properties"


def write_settings(
    launch: Launch, *, port: int, controller_port: int, secured_port: int | None = None
) -> None:
    """Write the settings of the broker, and of its log."""
    settings = server_properties(
        port=port,
        controller_port=controller_port,
        log_directory=launch.records,
        overrides=launch.properties,
        another=None if secured_port is None else _secured(launch, secured_port),
    )
    launch.settings.touch(mode=0o600)
    launch.settings.chmod(0o600)  # it has the users' passwords, and may be there already
    launch.settings.write_text(settings, encoding="utf-8")
    launch.log4j.write_text(log4j_properties(launch.data), encoding="utf-8")


def start_jvm(launch: Launch) -> subprocess.Popen[bytes]:
    """The broker's process; its settings and its directory are there."""
    # Its libraries unpack themselves into this: one that is killed leaves them where they are.
    unpacked = launch.data / "tmp"
    shutil.rmtree(unpacked, ignore_errors=True)
    unpacked.mkdir()
    flags = (f"-Xmx{launch.heap}", f"-Xms{launch.heap}", f"-Djava.io.tmpdir={unpacked}")
    with (launch.data / "jvm.log").open("ab") as output:
        return subprocess.Popen(
            [
                *java_command(launch, *flags, *launch.flags),
                *("kafka.Kafka", str(launch.settings)),
            ],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=launch.data,
            # Ctrl-C at the terminal is for the program under test, not for its broker.
            start_new_session=True,
        )


def _secured(launch: Launch, port: int) -> dict[str, str]:
    return secured_listener(launch.users, launch.certificates, port)


def watch(pid: int, temporary: Path | None) -> subprocess.Popen[bytes]:
    """Start the watchdog of a broker, and of its directory when that is temporary."""
    return subprocess.Popen(
        ["/bin/sh", "-c", _WATCHDOG, "logstate-watchdog", str(pid), str(temporary or "")],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def unwatch(watchdog: subprocess.Popen[bytes]) -> None:
    """End a watchdog. Only after what it watches was reaped: its number may be another's then."""
    watchdog.kill()
    watchdog.wait()
    if watchdog.stdin is not None:
        watchdog.stdin.close()


def last_words(launch: Launch) -> str:
    """The last lines of what the JVM and the broker wrote."""
    written = [launch.data / name for name in ("jvm.log", "broker.log")]
    texts = [p.read_text(encoding="utf-8", errors="replace") for p in written if p.exists()]
    return "\n".join(filter(None, map(without_frames, texts)))


def java_command(launch: Launch, *flags: str, log4j: Path | None = None) -> list[str]:
    """Java with the broker's jars and a logging configuration, the broker's own by default."""
    logging = f"-Dlog4j2.configurationFile={log4j or launch.log4j}"
    archive = class_archive(launch.java, launch.jars)
    shared = [f"-XX:SharedArchiveFile={archive}"] if archive.exists() else []
    classes = ["-cp", str(launch.jars / "*")]
    return [str(launch.java.executable), *flags, *shared, logging, *classes]


def class_archive(java: Java, jars: Path) -> Path:
    """Return the path of this Java's archive of the broker's classes, if there is one.

    `logstate.local_broker.class_archive` makes it.
    """
    executable = java.executable.resolve()
    made = executable.stat()
    key = f"{executable} {made.st_size} {made.st_mtime_ns}"
    return jars.with_name(f"{jars.name}-{hashlib.sha256(key.encode()).hexdigest()[:8]}.jsa")


def without_frames(log: str) -> str:
    """The last lines of a JVM's log; its stack frames say nothing to a user of the broker."""
    lines = [line for line in log.splitlines() if not line.startswith(("\tat ", "\t... "))]
    return "\n".join(lines[-10:])
