"""What a replay reads: one record that is there, and topics by a pattern."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import pytest

from logstate import StreamsBuilder, TopologyTestDriver
from logstate.cli.engine import replayed_task
from logstate.cli.engine.replayed_task import ReplayedTask, _rows_with_keys
from logstate.cli.shared.stored_logs import Stored
from logstate.contracts.errors import ConfigError
from logstate.contracts.records import TopicPartition
from logstate.kafka.log_reader import LogBounds, LogTopic
from logstate.testing import FakeCluster
from tests.unit.topology.processor.collection_topology import PUTS, STORES, topology

ORDERS = TopicPartition("orders", 1)


class AtItsEnd(ReplayedTask):
    """A task that has processed what there is."""

    def __init__(self) -> None:
        self.inputs = (ORDERS,)
        self.positions = {ORDERS: 50}
        self._settings = {}
        self._bounds = {ORDERS: LogBounds(0, 50, 50)}


def test_an_offset_without_a_record_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """As that of a transaction's end, of an aborted record, or of one that compaction removed."""
    monkeypatch.setattr(replayed_task, "read_log", lambda *_, **__: iter(()))

    with pytest.raises(ConfigError, match="no committed record has this offset"):
        AtItsEnd().run(only=(ORDERS, 41))
    assert AtItsEnd().run() == (0, None)


def test_a_pattern_means_the_topics_that_a_start_would_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = FakeCluster({"orders-eu": 2, "orders-us": 2, "returns": 1})
    builder = StreamsBuilder()
    stream = builder.stream(re.compile("orders-.*"), key=str, value=str)
    stream.group_by_key().count(store="counts")

    def described(_: Any, names: Iterable[str]) -> dict[str, LogTopic]:
        return {name: LogTopic("id", len(cluster.topic(name).logs)) for name in names}

    monkeypatch.setattr(replayed_task, "log_topics", described)
    stored = Stored("shop", {"stores": {}, "inputs": ["orders-eu", "orders-us"]}, {})

    plan = replayed_task._plan({}, cluster, builder.build(), stored, {})

    assert plan.subscription == ["orders-eu", "orders-us"]


def test_rows_of_a_failed_record_are_those_of_its_key_in_every_kind_of_store() -> None:
    with TopologyTestDriver(topology()) as driver:
        for key, value in PUTS:
            driver.pipe("in", key, value)
        found = {
            spec.name: [
                (shown, value)
                for shown, value, key in _rows_with_keys(spec, driver.store(spec.name))
                if key == "bob"
            ]
            for spec in STORES
        }
    assert found == {
        "orders": [(("bob", 0), 5)],
        "prices": [(("bob", 5), 2.5)],
        "tags": [(("bob", "t5"), True)],
        "visits": [("bob", 1)],
    }
