"""Snapshots of an application under load whose instances are killed, and what is in them."""

from __future__ import annotations

import json
import random
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from threading import Event, Thread
from typing import Any

import logstate
from logstate.changelog.cuts.named_cut import NamedCut
from logstate.changelog.cuts.named_cuts import create_cut
from logstate.contracts.clients import NewTopic
from logstate.contracts.records import ProducedRecord
from logstate.kafka.cluster import KafkaCluster
from tests.campaigns.snapshots.counting import STORES
from tests.campaigns.toolkit.process import kill, start_module
from tests.patience import PATIENCE_S

PARTITIONS = 4
_BATCH = 200
_WAIT = timedelta(seconds=90)


class Scenario:
    """An application, its input and its instances."""

    def __init__(self, bootstrap: str, name: str, path: Path) -> None:
        self.bootstrap, self.name, self.path = bootstrap, name, path
        self._instances: dict[int, subprocess.Popen[bytes]] = {}
        self.sent = 0
        cluster = KafkaCluster(bootstrap)
        admin = cluster.admin()
        admin.create_topics([NewTopic(f"{name}-records", PARTITIONS, 1, {})])
        admin.close()
        self._producer = cluster.plain_producer()

    def send(self, count: int, rng: random.Random) -> None:
        """Records of some keys and values."""
        drawn = ((f"key-{rng.randrange(200)}", rng.randrange(1_000)) for _ in range(count))
        topic, now_ms = f"{self.name}-records", int(time.time() * 1000)
        self._producer.produce(
            [
                ProducedRecord(topic, None, key.encode(), value.to_bytes(8), now_ms)
                for key, value in drawn
            ]
        )
        self._producer.flush()
        self.sent += count

    @contextmanager
    def load(self, per_s: int, seed: int) -> Iterator[None]:
        """So many records a second, as well as it can."""
        is_over, rng = Event(), random.Random(seed)

        def run() -> None:
            while not is_over.wait(_BATCH / per_s):
                self.send(_BATCH, rng)

        sender = Thread(target=run)
        sender.start()
        try:
            yield
        finally:
            is_over.set()
            sender.join(PATIENCE_S)

    @contextmanager
    def kills(self, numbers: range, every_s: float, seed: int) -> Iterator[list[int]]:
        """An instance dies now and then, and begins again at once."""
        is_over, rng, killed = Event(), random.Random(seed), list[int]()

        def run() -> None:
            while not is_over.wait(every_s * rng.uniform(0.5, 1.5)):
                number = rng.choice(numbers)
                self.kill(number)
                killed.append(number)
                self.start(number)

        killer = Thread(target=run)
        killer.start()
        try:
            yield killed
        finally:
            is_over.set()
            killer.join(PATIENCE_S)

    def start(self, number: int, *, workers: int = 1) -> None:
        """Begin an instance, again after a kill."""
        self._instances[number] = start_module(
            "tests.campaigns.snapshots.counting",
            *(self.bootstrap, self.name, self.path / f"instance-{number}"),
            *("--workers", workers),
            log=self.path / f"instance-{number}.log",
            stdout=None,
        )

    def kill(self, number: int) -> None:
        """At once, wherever it is."""
        kill(self._instances.pop(number))

    def close(self) -> None:
        """Kill all that run."""
        for number in list(self._instances):
            self.kill(number)
        self._producer.close()

    def snapshot(self, name: str) -> NamedCut:
        """Of all instances, from outside."""
        return create_cut(self.bootstrap, self.name, name, across_repartitions=_WAIT)

    def sums(self, name: str) -> dict[str, int]:
        """Of each store, read by the name of a snapshot."""
        found = {}
        for store in STORES:
            table = logstate.read(self.name, store, bootstrap=self.bootstrap, cut=name)
            found[store] = sum(table.to_arrow()["value"].to_pylist())
        return found

    def held_ms(self) -> list[float]:
        """How long tasks stood still, in ascending order."""
        return sorted(line["held_ms"] for line in self._lines() if "held_ms" in line)

    def commit_ms(self) -> dict[str, float]:
        """The mean of all commits that were told of, and a bound of all."""
        told = {line["life"]: line["commits"] for line in self._lines() if line.get("commits")}
        series = [one["series"][0] for one in told.values() if one["series"]]
        count, total_s = sum(s["count"] for s in series), sum(s["sum"] for s in series)
        bounds_s = [min(float(le) for le, n in s["buckets"] if n == s["count"]) for s in series]
        return {
            "mean": round(1_000 * total_s / max(1, count), 1),
            "at_most": 1_000 * max(bounds_s, default=0.0),
        }

    def _lines(self) -> Iterator[dict[str, Any]]:
        """What instances wrote down; the last line of a life may be half."""
        for path in self.path.glob("*.held"):
            for line in path.read_text().splitlines():
                with suppress(ValueError):
                    yield json.loads(line)


def check(scenario: Scenario, made: NamedCut) -> int:
    """How many records a snapshot holds. Raises AssertionError unless all stores agree on it."""
    inputs = made.cut.inputs[f"{scenario.name}-records"]
    counted = sum(inputs.values())
    assert scenario.sums(made.name) == dict.fromkeys(STORES, counted), made.name
    assert all(n == 0 for topic in made.cut.in_flight.values() for n in topic.values())
    return counted
