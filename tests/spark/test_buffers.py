"""What waits in buffers of suppress operators and outer joins, as a table."""

from __future__ import annotations

import struct
from typing import Any

import pyarrow as pa

from logstate.changelog.reading.blocks import Block
from logstate.changelog.reading.tables import StoreTable, record_batch
from logstate.changelog.rows.suppress_values import BufferedUpdate, encode_update
from logstate.changelog.stores.outer_join_buffer import _appended
from logstate.contracts.records import TopicPartition
from logstate.serdes import int64, string
from logstate.serdes.join_serdes import SidedValue, SideSerde
from tests.spark.changelog_writer import INT64, STRING
from tests.spark.changelog_writer import int64 as number


def rows_of(entry: dict[str, Any], *records: tuple[bytes, bytes | None]) -> list[dict[str, Any]]:
    table = StoreTable(entry, are_times_integers=True)
    zeros = pa.array([0] * len(records))
    keys, values = (pa.array(each, pa.binary()) for each in zip(*records, strict=True))
    block = Block(TopicPartition("log", 0), keys, values, zeros, zeros)
    columns = table.batch_columns(with_tombstones=False, with_meta=False)
    found: list[dict[str, Any]] = record_batch(columns, block).to_pylist()
    return found


def update(new: bytes | None, time: int) -> bytes:
    waiting = BufferedUpdate(number(1), number(1), new, time, 7, "in", 0, [("h", b"x")])
    return encode_update(waiting, time)


def test_a_suppress_buffer_shows_the_value_that_waits() -> None:
    entry = {"kind": "suppress_buffer", "key": STRING, "value": INT64}

    found = rows_of(entry, (b"ada", update(number(5), 1_000)), (b"bob", update(None, 2_000)))

    assert found == [
        {"key": "ada", "value": 5, "buffer_time": 1_000},
        {"key": "bob", "value": None, "buffer_time": 2_000},
    ]


def test_a_suppress_buffer_of_windows_has_their_columns() -> None:
    key = {"format": "windowed", "inner": STRING, "window_size_ms": 500}
    entry = {"kind": "suppress_buffer", "key": key, "value": INT64}

    (row,) = rows_of(entry, (b"ada" + struct.pack(">q", 1_000), update(number(5), 1_400)))

    assert row == {
        "key": "ada",
        "window_start": 1_000,
        "window_end": 1_500,
        "value": 5,
        "buffer_time": 1_400,
    }


def test_an_outer_join_shows_what_waits_of_either_side() -> None:
    serde = SideSerde(string, int64)
    write = serde.serializer("t", False)
    left = _appended(_appended(None, write(SidedValue(True, "a"))), write(SidedValue(True, "b")))
    right = _appended(None, write(SidedValue(False, 3)))
    entry = {"kind": "outer_join", "key": STRING, "value": serde.describe()}

    found = rows_of(
        entry,
        (struct.pack(">qB", 1_000, 1) + b"ada", left),
        (struct.pack(">qB", 2_000, 0) + b"bob", right),
    )

    assert found == [
        {"key": "ada", "record_time": 1_000, "left": ["a", "b"], "right": None},
        {"key": "bob", "record_time": 2_000, "left": None, "right": [3]},
    ]
