"""The broker that the other tests of this tier are given."""

from __future__ import annotations

from collections.abc import Callable

from logstate.local_broker.probe import broker_count
from tests.broker.raw_topic import create_topic, read_all, write
from tests.patience import until


def test_the_broker_of_the_run_stores_records(bootstrap: str, unique: Callable[[str], str]) -> None:
    until(lambda: broker_count(bootstrap) >= 1)
    topic = unique("bootstrap")

    create_topic(bootstrap, topic)
    write(bootstrap, topic, [b"1", b"2"])

    assert read_all(bootstrap, topic) == [b"1", b"2"]
