"""Stores as the test driver hands them out: they read as queries do, and write as processors do."""

from __future__ import annotations

from datetime import timedelta

import pytest

from logstate.contracts.stores import VersionedRecord
from logstate.testing import TopologyTestDriver
from logstate.topology import Materialized, StreamsBuilder


def test_a_version_that_ended_says_when_wherever_it_is_read_from() -> None:
    builder = StreamsBuilder()
    prices = Materialized("prices", history=timedelta(hours=1))
    builder.table("prices", key=str, value=int, store=prices)
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_all("prices", [("tea", 3, 10), ("tea", 4, 20)])
        store = driver.store("prices")
        assert store.get("tea", 15) == VersionedRecord(3, 10, 20)
        assert store.get("tea", as_of=25) == store.get("tea") == VersionedRecord(4, 20)
        assert list(store.versions("tea")) == [store.get("tea", 15), store.get("tea")]
        store.put("tea", 9, 30)
        assert store.get("tea", 25) == VersionedRecord(4, 20, 30)


def test_a_row_without_its_time_is_refused_as_in_a_processor() -> None:
    builder = StreamsBuilder()
    builder.stream("in", key=str, value=str).group_by_key().count(store="counts")
    with TopologyTestDriver(builder.build()) as driver:
        with pytest.raises(TypeError, match="Store 'counts' was given a row without a timestamp"):
            driver.store("counts").put("ada", 5)
        assert driver.store("counts").get("ada") is None
