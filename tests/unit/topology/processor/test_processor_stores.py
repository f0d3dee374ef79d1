"""Declarations of stores for processors."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial

import pytest

from logstate.contracts.errors import LogstateError
from logstate.contracts.records import Record
from logstate.contracts.stores import StoreSpec
from logstate.testing import MockProcessorContext, TopologyTestDriver
from logstate.topics.cleanup_policies import changelog_config
from logstate.topology import (
    Processor,
    StreamsBuilder,
    key_value_store,
    lru_store,
    session_store,
    timestamped_key_value_store,
    versioned_store,
    window_store,
)

HOUR = timedelta(hours=1)
DECLARATIONS: dict[str, Callable[..., StoreSpec]] = {
    "key_value": key_value_store,
    "key_value_lru": partial(lru_store, capacity=3),
    "timestamped_key_value": timestamped_key_value_store,
    "window": partial(window_store, size=HOUR, retention=HOUR),
    "session": partial(session_store, retention=HOUR),
    "versioned": partial(versioned_store, history=HOUR),
}


@pytest.mark.parametrize("kind", DECLARATIONS)
def test_settings_of_the_changelog_win_over_those_of_the_kind(kind: str) -> None:
    settings = {"segment.bytes": "1048576", "compression.type": "zstd"}
    spec = DECLARATIONS[kind]("rows", str, int, changelog_config=settings)
    assert spec.kind == kind
    found = changelog_config(spec)
    assert found | settings == found
    assert "compact" in found["cleanup.policy"]


@pytest.mark.parametrize("kind", DECLARATIONS)
def test_a_store_may_do_without_a_changelog(kind: str) -> None:
    assert DECLARATIONS[kind]("rows", str, int).is_logged
    assert not DECLARATIONS[kind]("rows", str, int, logged=False).is_logged


def test_a_store_is_found_by_its_declaration() -> None:
    totals = key_value_store("totals", key=str, value=int)

    class Total(Processor[str, int, str, int]):
        def process(self, record: Record[str, int]) -> None:
            store = self.context.store(totals)
            assert store is self.context.store("totals")
            store.put(record.key, (store.get(record.key) or 0) + record.value)

    builder = StreamsBuilder()
    builder.stream("in", value=int).process(Total, stores=totals, key=str, value=int).to("out")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe("in", "ada", 3)
        driver.pipe("in", "ada", 4)
        assert driver.store(totals).get("ada") == 7
        assert list(driver.store("totals").all()) == [("ada", 7)]
    mock = MockProcessorContext(stores=[totals])
    mock.store(totals).put("bob", 1)
    assert mock.store("totals").get("bob") == 1


def test_a_declaration_of_a_store_that_is_not_connected_is_refused() -> None:
    other = key_value_store("other", key=str, value=int)

    class Reads(Processor[str, int, str, int]):
        def process(self, record: Record[str, int]) -> None:
            self.context.store(other).get(record.key)

    builder = StreamsBuilder()
    builder.stream("in", value=int).process(Reads, key=str, value=int).to("out")
    refused = pytest.raises(LogstateError, match="store 'other', to which it is not connected")
    with TopologyTestDriver(builder.build()) as driver, refused:
        driver.pipe("in", "ada", 3)


def test_a_record_gets_another_key_or_value_and_keeps_the_rest() -> None:
    record = Record("ada", 3, 10, [("h", b"x")])
    assert record.with_value("three") == Record("ada", "three", 10, [("h", b"x")])
    assert record.with_key(7) == Record(7, 3, 10, [("h", b"x")])
