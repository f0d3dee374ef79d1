"""A running application whose stores the kill campaigns copy, and the rows that a copy must have.

Three stores of one task count the same orders: ``spend`` is the sum of a user's orders, ``twice``
the double of it, so the two agree at each cut, and ``visits`` is how many there were. An order of
0 deletes the user's rows of the first two.
"""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import logstate
from logstate.app.application import Application
from logstate.contracts.clients import NewTopic
from logstate.contracts.errors import RestoreError
from logstate.contracts.records import ProducedRecord, TopicPartition
from logstate.contracts.topic_names import changelog_topic
from logstate.kafka.cluster import KafkaCluster
from logstate.kafka.log_reader import log_bounds, read_partition
from logstate.serdes import float64
from logstate.topology import Materialized, StreamsBuilder, Topology
from tests.markers import are_written
from tests.patience import until

PARTITIONS = 2
#: users are numbers, so Spark tells their rows apart by ``_key``: 0.0 and -0.0 are two of them
USERS = (-0.0, 0.0, *(n / 2 for n in range(1, 60)))
_DELETED_ONE_IN = 8
STORE = "spend"


class SpendStore:
    """The application, the orders that it has received, and what its changelog has."""

    def __init__(self, bootstrap: str, application: str, seed: int) -> None:
        self.bootstrap, self.application = bootstrap, application
        self._cluster = KafkaCluster(bootstrap)
        self._topic = f"{application}-orders"
        admin = self._cluster.admin()
        admin.create_topics([NewTopic(self._topic, PARTITIONS, 1, {})])
        admin.close()
        self._producer = self._cluster.plain_producer()
        self._random = random.Random(seed)
        self._ordered = 0
        self._app: Application | None = None

    @contextmanager
    def running(self, state_dir: Path) -> Iterator[SpendStore]:
        """Run the application until the block ends."""
        self._app = Application(
            self._topology(),
            application_id=self.application,
            bootstrap=self.bootstrap,
            state_dir=state_dir,
            commit_interval=timedelta(milliseconds=50),
        )
        try:
            with self._app as app:
                app.wait_until_running(timedelta(seconds=180))
                yield self
            until(lambda: are_written(self.bootstrap, app.transactional_id))
        finally:
            self._producer.close()

    def order(self, count: int) -> None:
        """Send orders of random users; the application counts them when it gets to them."""
        serializer, now_ms = float64.serializer(self._topic, True), int(time.time() * 1000)
        for _ in range(count):
            user = self._random.choice(USERS)
            is_deletion = self._random.randrange(_DELETED_ONE_IN) == 0
            amount = 0 if is_deletion else self._random.randrange(1, 100)
            key = serializer(user)
            value = amount.to_bytes(8, "big", signed=True)
            self._producer.produce([ProducedRecord(self._topic, None, key, value, now_ms)])
        self._producer.flush()
        self._ordered += count

    def settle(self) -> None:
        """Wait until all orders are counted and committed."""
        until(self._has_counted_all)

    def rows(self) -> list[Any]:
        """The rows of the store as a copy has them: key, value, partition and offset."""
        options = {"bootstrap": self.bootstrap, "include_meta": True}
        table = logstate.read(self.application, STORE, **options).to_arrow()
        columns = ("key", "value", "_partition", "_offset")
        return in_order([row[name] for name in columns] for row in table.to_pylist())

    def changes(self) -> list[Any]:
        """Each committed change of the store: key, its number among those of the key, value."""
        deserializer = float64.deserializer("", True)
        numbers: dict[bytes, int] = {}
        found = []
        for record in self._records(STORE):
            key, value = record.key(), record.value()
            numbers[key] = numbers.get(key, 0) + 1
            amount = None if value is None else int.from_bytes(value, "big", signed=True)
            found.append([deserializer(key), numbers[key], amount])
        return in_order(found)

    def _has_counted_all(self) -> bool:
        try:
            visits = logstate.read(self.application, "visits", bootstrap=self.bootstrap)
            return sum(visits.to_arrow()["value"].to_pylist()) == self._ordered
        except RestoreError:  # no commit yet
            return False

    def _records(self, store: str) -> Iterator[Any]:
        topic = changelog_topic(self.application, store)
        config = {"bootstrap.servers": self.bootstrap}
        logs = [TopicPartition(topic, n) for n in range(PARTITIONS)]
        for log, bounds in log_bounds(config, logs).items():
            span = {"start": bounds.start, "end": bounds.stable_end}
            for records in read_partition(config, log, **span):
                yield from records

    def _topology(self) -> Topology:
        builder = StreamsBuilder()
        orders = builder.stream(self._topic, key=float, value=int)
        by_user = orders.group_by_key()
        by_user.aggregate(lambda: 0, _sum, value=int, store=Materialized(STORE, deletes=True))
        by_user.aggregate(
            lambda: 0, _double_sum, value=int, store=Materialized("twice", deletes=True)
        )
        by_user.count(store="visits")
        return builder.build()


def in_order(rows: Any) -> list[Any]:
    """Sort rows by their JSON, which tells -0.0 from 0.0."""
    return sorted(rows, key=json.dumps)


def differing(found: list[Any], wanted: list[Any]) -> list[Any]:
    """The rows that are in one of two lists only, or more often than in the other.

    >>> differing([["a", 1, 5], ["a", 1, 5]], [["a", 1, 5], ["b", 1, 5]])
    [['a', 1, 5], ['b', 1, 5]]
    """
    counts = Counter(map(json.dumps, found))
    counts.subtract(map(json.dumps, wanted))
    return [json.loads(row) for row, count in counts.items() for _ in range(abs(count))]


def _sum(_user: float, amount: int, known: int) -> int | None:
    return known + amount if amount else None


def _double_sum(_user: float, amount: int, known: int) -> int | None:
    return known + 2 * amount if amount else None
