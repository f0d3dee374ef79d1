"""The brokers of a run, and the faults that are done to them: one behind a proxy, or three."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from logstate.local_broker.broker import LocalBroker
from logstate.local_broker.cluster import LocalCluster
from tests.campaigns.chaos.proxy import Proxy
from tests.campaigns.chaos.schedule import WEIGHTS, Event

_GROUPS = {
    "group.consumer.session.timeout.ms": "2000",
    "group.consumer.heartbeat.interval.ms": "300",
    "group.consumer.min.heartbeat.interval.ms": "200",
}
#: a node that was killed is away for longer than its session (3 s): what it led is led by others
_AWAY_S = 3.5
#: leaders move back to where they were placed, as soon as they are in sync
_LEADERS = {
    "auto.leader.rebalance.enable": "true",
    "leader.imbalance.check.interval.seconds": "2",
    "leader.imbalance.per.broker.percentage": "0",
}
_SETTLES_S = 3.0

Pause = Callable[[float], None]


class Brokers(Protocol):
    """What a run needs of its brokers."""

    #: where clients find them
    bootstrap: str
    #: of the topics of the run
    replicas: int
    #: of the faults, those that can be done to them, with their share
    weights: dict[str, int]

    def harm(self, event: Event, pause: Pause) -> str:
        """Do a fault, and undo it; returns what was hit."""

    def told(self) -> str:
        """A figure for the end."""

    def close(self) -> None:
        """End them."""


class OneBroker:
    """One, behind a proxy that refuses, stalls and resets connections."""

    replicas = 1

    def __init__(self, path: Path, rng: random.Random) -> None:
        self.weights = {kind: share for kind, share in WEIGHTS.items() if kind != "broker_restart"}
        self._rng = rng
        self._proxy = Proxy()
        self.bootstrap = self._proxy.address
        properties = {**_GROUPS, "advertised.listeners": f"PLAINTEXT://{self.bootstrap}"}
        try:
            self._broker = LocalBroker.start(
                data=path / "broker", heap="512m", properties=properties
            )
        except BaseException:
            self._proxy.close()
            raise
        self._proxy.upstream_port = int(self._broker.bootstrap.rpartition(":")[2])

    def harm(self, event: Event, pause: Pause) -> str:
        proxy = self._proxy
        if event.kind == "broker_kill":
            self._broker.kill()
            pause(event.lasts_s)
            self._broker.restart()
        elif event.kind == "network_partly_reset":
            proxy.reset_some(0.5, self._rng)
        else:
            if event.kind == "network_refused":
                proxy.refuse()
            else:
                proxy.stall()
            pause(event.lasts_s)
            proxy.heal()
        return ""

    def told(self) -> str:
        return f"connections {self._proxy.connections_total}"

    def close(self) -> None:
        self._broker.stop()
        self._proxy.close()


class ThreeBrokers:
    """Three replicas of everything, of which two have to be in sync: leaders move.

    One node at a time is away. When it is back it leads again what it led at first: else the one
    that is killed next may lead nothing.
    """

    replicas = 3

    def __init__(self, rng: random.Random) -> None:
        others = {kind: share for kind, share in WEIGHTS.items() if kind[:7] != "network"}
        self.weights = {**others, "broker_kill": 16, "broker_restart": 8}
        self._rng = rng
        self._cluster = LocalCluster.start(properties={**_GROUPS, **_LEADERS})
        self.bootstrap = self._cluster.bootstrap
        self._down = 0

    def harm(self, event: Event, pause: Pause) -> str:
        number = self._rng.randrange(len(self._cluster.nodes))
        node = self._cluster.nodes[number]
        if event.kind == "broker_kill":
            node.kill()
            pause(_AWAY_S + event.lasts_s)
        node.restart()  # one that runs is shut down in order first
        self._cluster.wait_until_whole()
        self._down += 1
        pause(_SETTLES_S)
        return f"node {number + 1}"

    def told(self) -> str:
        return f"brokers down {self._down} times"

    def close(self) -> None:
        self._cluster.stop()
