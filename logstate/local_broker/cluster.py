"""Three brokers on this machine that are one cluster: what happens when one of them dies.

How it works: each node is a broker and a controller, in a directory ``node-1`` to ``node-3`` of its
own. All are started before any is waited for, because a controller alone has no majority. Topics
have three replicas of which two have to be in sync, so that one node may be away.

Invariants:
    - Each node keeps its ports and its directory over ``kill`` and ``restart``.
    - What dies with the process that started it, or outlives it, is each node by itself, as with
      `LocalBroker`.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from logstate.contracts.errors import BrokerError, ErrorCollector, check
from logstate.contracts.setting_rules import seconds
from logstate.local_broker.broker import (
    LocalBroker,
    data_directory,
    new_authority,
    on_free_ports,
)
from logstate.local_broker.config import REPLICATED
from logstate.local_broker.formatted import random_id
from logstate.local_broker.jars import broker_jars
from logstate.local_broker.java import find_java
from logstate.local_broker.jvm import Launch
from logstate.local_broker.ports import LOOPBACK, PortReservation, reserve_port
from logstate.local_broker.probe import broker_count
from logstate.local_broker.secured import check_users

NODES = 3
#: three JVMs share the machine: started with half the work, at the cost of throughput
_FLAGS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


class LocalCluster:
    """Three running brokers. Build it with `LocalCluster.start`; it is also a context manager.

    Example::

        with LocalCluster.start() as cluster:
            run_against(cluster.bootstrap)
            cluster.nodes[0].kill()
            cluster.nodes[0].restart()
    """

    def __init__(self, nodes: list[LocalBroker], home: Path, timeout_s: float) -> None:
        self.nodes = nodes
        """By node id, from 1: each has ``kill``, ``restart`` and ``pid``."""
        self._home = home
        self._timeout_s = timeout_s

    @classmethod
    def start(
        cls,
        *,
        heap: str = "320m",
        properties: Mapping[str, str] | None = None,
        users: Mapping[str, str] | None = None,
        tls: bool = False,
        detached: bool = False,
        timeout_s: float = 240.0,
    ) -> LocalCluster:
        """Start three brokers in a temporary directory, and return when each knows all three.

        Args:
            heap: the heap of each JVM, as in ``-Xmx``.
            properties: server properties of every node that win over the defaults.
            users: as of `LocalBroker.start`.
            tls: the same; the nodes have one authority.
            detached: let them outlive this process; ``logstate broker stop --all`` ends them.
            timeout_s: how long they may take to serve, the fetching of the jars not counted.

        Raises:
            ConfigError: as `LocalBroker.start`.
            BrokerError: the jars cannot be fetched, or a broker does not start.
        """
        check(seconds("timeout_s", timeout_s))
        check_users(users or {})
        return on_free_ports(
            lambda: cls._start_once(heap, properties, users, tls, detached, timeout_s)
        )

    @classmethod
    def _start_once(
        cls,
        heap: str,
        properties: Mapping[str, str] | None,
        users: Mapping[str, str] | None,
        tls: bool,
        detached: bool,
        timeout_s: float,
    ) -> LocalCluster:
        authority = new_authority() if tls else None
        java, jars, home = find_java(), broker_jars(), data_directory(None)
        ports = [(reserve_port(), reserve_port()) for _ in range(NODES)]
        settings = {**_cluster_settings(ports), **(properties or {})}
        options, cluster_id = _controllers(ports), random_id()
        nodes = []
        for number, (port, controller) in enumerate(ports, 1):
            launch = Launch(
                java=java,
                jars=jars,
                data=data_directory(home / f"node-{number}"),
                temporary=True,
                heap=heap,
                properties={**settings, "node.id": str(number)},
                detached=detached,
                timeout_s=timeout_s,
                format_options=options,
                cluster_id=cluster_id,
                flags=_FLAGS,
                users=dict(users or {}),
                has_tls=tls,
            )
            if authority is not None:
                authority.write(launch.data / "tls")
            nodes.append(LocalBroker(launch, port, controller))
        cluster = cls(nodes, home, timeout_s)
        with cluster._stopped_on_failure():
            for node in nodes:
                node.begin()
            for node in nodes:
                node.await_serving()
            cluster.wait_until_whole()
        return cluster

    @property
    def bootstrap(self) -> str:
        """``host:port,host:port,host:port`` for clients."""
        return ",".join(node.bootstrap for node in self.nodes)

    @property
    def bootstrap_of_users(self) -> str:
        """The addresses of the second listeners; raises BrokerError without them."""
        return ",".join(node.bootstrap_of_users for node in self.nodes)

    def client_settings(self, user: str | None = None) -> dict[str, str]:
        """Return the settings of a client of the second listeners, see `LocalBroker`."""
        first = self.nodes[0].client_settings(user)
        return {**first, "bootstrap.servers": self.bootstrap_of_users}

    def wait_until_whole(self) -> None:
        """Return when each node knows all three; raises BrokerError after ``timeout_s``."""
        deadline = time.monotonic() + self._timeout_s
        while (known := min(broker_count(node.bootstrap) for node in self.nodes)) < NODES:
            if time.monotonic() > deadline:
                raise BrokerError(
                    f"Of the cluster {self.bootstrap} a node knows {known} of {NODES} brokers after"
                    f" {self._timeout_s:g} s. Likely one was killed and not restarted, or the"
                    f" machine is too busy; {self._home} has their logs."
                )
            time.sleep(0.05)

    def stop(self) -> None:
        """End the three brokers; their data are removed. A second call does nothing."""
        closing = ErrorCollector()
        for node in self.nodes:
            closing.call(node.stop)
        shutil.rmtree(self._home, ignore_errors=True)
        closing.finish()

    @contextmanager
    def _stopped_on_failure(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.stop()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


def _cluster_settings(ports: list[tuple[PortReservation, PortReservation]]) -> dict[str, str]:
    controllers = ",".join(f"{LOOPBACK}:{controller.port}" for _port, controller in ports)
    return {**REPLICATED, "controller.quorum.bootstrap.servers": controllers}


def _controllers(ports: list[tuple[PortReservation, PortReservation]]) -> tuple[str, ...]:
    """Return the controllers of the first quorum, with which every directory is formatted."""
    named = (
        f"{number}@{LOOPBACK}:{controller.port}:{random_id()}"
        for number, (_port, controller) in enumerate(ports, 1)
    )
    return "--initial-controllers", ",".join(named)
