"""Joins by time on the real broker: each result comes once, although the process is killed."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from logstate.contracts.records import ProducedRecord, TopicPartition
from logstate.kafka.cluster import KafkaCluster
from tests.broker.committed import read_to_end
from tests.broker.joined_app import topology
from tests.broker.killed_app import application
from tests.broker.priced_app import topology as priced
from tests.broker.raw_topic import create_topic
from tests.campaigns.toolkit.process import start_module
from tests.patience import PATIENCE_S, until

USERS = range(12)
#: of every other user, the later one first
PAID = [user for user in USERS if user % 2]
FIRST = sorted(f"first o{user}+{f'p{user}' if user in PAID else None}" for user in USERS)
NEWEST = sorted(f"newest {payment}+o{user}" for user in PAID for payment in ("second", f"p{user}"))
ON_TIME = sorted([*FIRST, *NEWEST])
#: late for both joins
LATE = sorted(2 * [f"late late-p{user}" for user in PAID])
#: (topic, user, value, time)
Sent = tuple[str, int, str | None, int]


class Shop:
    """The inputs in two partitions each, and the results."""

    def __init__(self, bootstrap: str, prefix: str, *inputs: str) -> None:
        self._prefix = prefix
        for topic in inputs:
            create_topic(bootstrap, f"{prefix}-{topic}", partitions=2)
        create_topic(bootstrap, f"{prefix}-joined", partitions=1)
        self._cluster = KafkaCluster(bootstrap)
        self._reader = self._cluster.log_consumer()
        self._output = TopicPartition(f"{prefix}-joined", 0)
        self._reader.assign({self._output: 0})
        self.results: list[str] = []

    def send(self, records: list[Sent]) -> None:
        producer = self._cluster.plain_producer()
        for topic, user, value, time in records:
            place, data = f"{self._prefix}-{topic}", None if value is None else value.encode()
            key = f"user-{user}".encode()
            producer.produce([ProducedRecord(place, user % 2, key, data, time, None)])
        producer.flush()
        producer.close()

    def read(self) -> None:
        """Read the committed results so far."""
        for records in self._reader.poll(1_000, 0.1).records.values():
            self.results += [(record.value() or b"").decode() for record in records]

    def wait_for(self, count: int) -> None:
        """Read until there are so many results."""

        def are_there() -> bool:
            self.read()
            return len(self.results) >= count

        until(are_there, lambda: f"{self.results}")

    def read_to_end(self) -> None:
        """Read everything that was committed."""
        read_to_end(self._cluster, self._reader, [self._output], self.read)


def orders_and_payments() -> list[Sent]:
    """Ends with heartbeats in each partition, which close every interval."""
    sent: list[Sent] = []
    for user in USERS:
        time = 100 + 100 * user
        sent.append(("orders", user, f"o{user}", time))
        if user in PAID:
            sent += [
                ("payments", user, "second", time + 7),
                ("payments", user, f"p{user}", time + 3),
            ]
    heartbeats: list[Sent] = [
        (topic, user, None, 9_000) for topic in ("payments", "orders") for user in (0, 1)
    ]
    return [*sent, *heartbeats]


@pytest.mark.parametrize("kill_after", [5, len(ON_TIME) + 3])
def test_each_record_is_joined_once_and_late_records_come_once(
    bootstrap: str, unique: Callable[[str], str], tmp_path: Path, kill_after: int
) -> None:
    prefix = unique("joined")
    shop = Shop(bootstrap, prefix, "orders", "payments")
    late: list[Sent] = [("payments", user, f"late-p{user}", 100 + 100 * user) for user in PAID]
    shop.send(orders_and_payments())
    dies_later = kill_after > len(ON_TIME)
    process = start_module("tests.broker.joined_app", bootstrap, prefix, tmp_path, kill_after)
    if dies_later:
        shop.wait_for(len(ON_TIME))
        shop.send(late)
    assert process.wait(PATIENCE_S) == -signal.SIGKILL
    with application(topology, bootstrap, prefix, tmp_path):
        if not dies_later:
            shop.send(late)
        shop.wait_for(len(ON_TIME + LATE))
    shop.read_to_end()
    assert sorted(shop.results) == sorted(ON_TIME + LATE)


#: what each user sends: (value, time)
EVENTS = [
    ("price 1", 100),
    ("trade 1", 110),
    ("trade 2", 145),
    ("trade 3", 139),
    ("price 2", 140),
    ("trade 4", 200),
    ("trade 5", 191),
    ("trade 6", 179),
    ("price 3", 195),
    ("trade 7", 300),
    ("price 4", 9_000),
    ("trade 8", 9_000),
    ("trade 9", 9_021),
]
#: a trade waits until another one is 20 ms newer, and a price is valid for 50 ms
PRICED = [
    "trade 1 at price 1",
    "trade 3 at price 1",
    "trade 2 at price 2",
    "late trade 6",
    "trade 5 at None",
    "trade 4 at price 3",
    "trade 7 at None",
    "trade 8 at price 4",
]


@pytest.mark.parametrize("kill_after", [5, 40, 90])
def test_each_trade_has_the_price_of_its_time_once(
    bootstrap: str, unique: Callable[[str], str], tmp_path: Path, kill_after: int
) -> None:
    prefix = unique("priced")
    shop = Shop(bootstrap, prefix, "events")
    shop.send([("events", user, event, time) for event, time in EVENTS for user in USERS])
    process = start_module("tests.broker.priced_app", bootstrap, prefix, tmp_path, kill_after)
    assert process.wait(PATIENCE_S) == -signal.SIGKILL
    expected = sorted(len(USERS) * PRICED)
    with application(priced, bootstrap, prefix, tmp_path):
        shop.wait_for(len(expected))
    shop.read_to_end()
    assert sorted(shop.results) == expected
