"""A table shows the windows that the store shows, though its log has older ones yet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from logstate.changelog.reading.blocks import Block
from logstate.changelog.reading.tables import StoreTable
from logstate.changelog.spark import latest_cut
from logstate.changelog.spark.kafka_sql import hidden_rows
from logstate.contracts.records import TopicPartition
from tests.spark.changelog_writer import ApplicationLog, int64, window_key

Rows = Callable[..., list[tuple[Any, ...]]]


def test_windows_that_expired_by_the_clock_of_the_cut_are_hidden(
    log: ApplicationLog, rows: Rows
) -> None:
    topic = log.add_store("hourly", "window", window_size_ms=1_000, retention_ms=5_000)
    written = [(window_key("a", start), int64(start)) for start in (4_000, 5_000, 6_000, 10_000)]
    position = log.write(topic, written)
    log.commit(10, {topic: position}, clocks={"store:hourly": 10_000})
    log.commit(10, {topic: 0}, partition=1)
    cut = latest_cut(log.bootstrap, log.application)

    live = [("a", 10_000, 11_000, 10_000), ("a", 6_000, 7_000, 6_000)]
    assert rows("hourly", times="ms") == live
    assert rows("hourly", times="ms", cut=cut) == live
    assert len(rows("hourly", times="ms", includeExpired="true")) == 4


def test_rows_that_expired_by_their_ttl_are_hidden(log: ApplicationLog, rows: Rows) -> None:
    topic = log.add_store("seen", "key_value", ttl_ms=5_000)
    written = [(key, int64(1), time) for key, time in ((b"a", 5_000), (b"b", 5_001), (b"c", 9_999))]
    position = log.write(topic, written)
    log.commit(10, {topic: position}, clocks={"store:seen": 10_000})
    log.commit(10, {topic: 0}, partition=1)

    assert sorted(rows("seen")) == [("b", 1), ("c", 1)]
    assert len(rows("seen", includeExpired="true")) == 3


@pytest.mark.parametrize("clock", [5, 10])
def test_the_oldest_row_with_a_ttl_that_is_shown_is_the_one_that_the_store_shows(
    clock: int,
) -> None:
    entry = {"kind": "key_value", "key": {"format": "string"}, "value": None, "ttl_ms": 5}
    keys = [b"%d" % time for time in range(12)]
    times = pa.array(range(12))
    block = Block(TopicPartition("log", 0), pa.array(keys, pa.binary()), times, times, times)

    shown = StoreTable(entry).shown(block, clock).times.to_pylist()

    assert shown == [time for time in range(12) if time + 5 > clock]
    expected = f"unix_millis(_timestamp) < case _partition when 3 then {clock - 4}L end"
    assert hidden_rows(entry, {3: clock}) == expected


@pytest.mark.parametrize(
    ("kind", "more", "time_at", "hidden_before"),
    [
        ("window", {}, "start", 6),
        ("window", {"keep_at_retention": True}, "start", 5),
        ("window", {"keep_at_retention": True, "in_memory": True}, "start", 6),
        ("session", {}, "end", 6),
        ("session", {"keep_at_retention": True}, "end", 6),
    ],
)
def test_the_oldest_window_that_is_shown_is_the_one_that_the_store_shows(
    kind: str, more: dict[str, Any], time_at: str, hidden_before: int
) -> None:
    entry = {"kind": kind, "key": {"format": "string"}, "value": None, "retention_ms": 5, **more}
    table = StoreTable(entry)
    # The other time of a session, its start, plays no part.
    tail = int64(0) if kind == "session" else bytes(4)

    keys = [b"a" + int64(t) + tail for t in range(12)]
    times = pa.array(range(12))
    block = Block(TopicPartition("log", 0), pa.array(keys, pa.binary()), times, times, times)

    assert table.shown(block, 10).offsets.to_pylist() == list(range(hidden_before, 12)), time_at
