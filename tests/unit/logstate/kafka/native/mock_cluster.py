"""A broker inside librdkafka, for tests of the client that need no real one."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Producer

from logstate.contracts.records import ProducedFields

TOPIC = "orders"


@contextmanager
def mock_cluster(topic: str) -> Iterator[str]:
    """Yield the address of a broker with one topic of four empty partitions.

    The broker creates a topic when a producer asks for it. Consumers do not.
    """
    owner = Producer({"bootstrap.servers": "none", "test.mock.num.brokers": 1, "log_level": 0})
    (broker,) = owner.list_topics(topic, timeout=30).brokers.values()
    yield f"{broker.host}:{broker.port}"
    owner.close()  # type: ignore[attr-defined]  # unknown to the client's stubs


def consumer_settings(address: str) -> Mapping[str, Any]:
    return {
        "bootstrap.servers": address,
        "group.id": "readers",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "error",
        "fetch.wait.max.ms": 10,
    }


def resident_bytes() -> int:
    """Return the memory of this process."""
    with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def rows(count: int, *, value: bytes = b"v", partition: int | None = 0) -> list[ProducedFields]:
    return [(TOPIC, partition, b"%d" % n, value, 1_000 + n, None) for n in range(count)]
