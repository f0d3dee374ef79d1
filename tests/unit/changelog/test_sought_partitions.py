"""A key is looked for in one partition only where its bytes are those that chose the partition."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from logstate.changelog.reading.changelog_source import ChangelogSource
from logstate.changelog.reading.cut import Ends
from logstate.changelog.reading.options import parse_options
from logstate.changelog.reading.table_scan import TableScan
from logstate.contracts.partitioner import partition_of

COUNT = 3
QUEUED = b"\x00" + struct.pack(">q", 1_000) + b"ada" + struct.pack(">i", 1)
STRING = {"format": "string"}
WINDOWED = {"format": "windowed", "inner": STRING, "window_size_ms": 10}


def looked_through(
    kind: str, sought: bytes, key: dict[str, Any] = STRING, **given: str
) -> list[int]:
    """The partitions in which a key is looked for, of a store behind a repartition topic."""
    entry = {"name": "s", "kind": kind, "key": key, "value": STRING, "placed_by": "murmur2"}
    options = {"bootstrap": "nowhere:1", "application": "shop", "store": "s", **given}
    source = ChangelogSource("shop-s-changelog", "id", COUNT, entry)
    scan = TableScan(parse_options(options), source, Ends(dict.fromkeys(range(COUNT), 9)))
    scan.keys = frozenset([sought])
    return scan.partitions()


@pytest.mark.parametrize(
    ("kind", "key"),
    [("key_value", STRING), ("window", STRING), ("outer_join", STRING), ("key_value", WINDOWED)],
)
def test_a_key_that_was_hashed_is_looked_for_where_its_hash_says(
    kind: str, key: dict[str, Any]
) -> None:
    assert looked_through(kind, b"ada", key) == [partition_of(b"ada", COUNT)]


@pytest.mark.parametrize("kind", ["join_buffer", "foreign_key_subscription", "of_a_later_version"])
def test_a_row_whose_whole_key_is_shown_is_looked_for_everywhere(kind: str) -> None:
    assert looked_through(kind, QUEUED) == [0, 1, 2]


def test_a_windowed_key_that_is_read_as_bytes_is_looked_for_everywhere() -> None:
    sought = b"ada" + struct.pack(">q", 1_000)

    assert looked_through("key_value", sought, WINDOWED, keyFormat="bytes") == [0, 1, 2]
