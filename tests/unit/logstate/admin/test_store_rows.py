"""Rows from outside as records of a changelog."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from logstate.admin.store_rows import LoggedRow, StoreRows
from logstate.contracts.changelog_keys import pack_session_tail, pack_start, pack_window_tail
from logstate.contracts.errors import ConfigError, SerdeError
from logstate.contracts.partitioner import partition_of

STRING, INT64 = {"format": "string"}, {"format": "int64"}
SEVEN = (7).to_bytes(8, "big")
ADA = partition_of(b"ada", 5)


def rows_of(kind: str, **more: Any) -> StoreRows:
    entry = {"kind": kind, "key": STRING, "value": INT64, "partitions": 5}
    return StoreRows.of("s", {**entry, "changelog_topic": "a-s-changelog", **more})


def test_a_row_lies_where_the_records_of_its_key_arrive() -> None:
    row = {"key": "ada", "value": 7, "window_start": 10, "window_end": 20}
    plain = {"key": "ada", "value": 7, "_timestamp": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)}
    windowed = {"format": "windowed", "inner": STRING}

    assert rows_of("timestamped_key_value").logged(plain) == [LoggedRow(ADA, b"ada", SEVEN, 1000)]
    assert rows_of("timestamped_window").logged(row) == [
        LoggedRow(ADA, b"ada" + pack_window_tail(10, 0), SEVEN, 10)
    ]
    assert rows_of("session").logged(row) == [
        LoggedRow(ADA, b"ada" + pack_session_tail(20, 10), SEVEN, 20)
    ]
    assert rows_of("key_value", key=windowed).logged(row) == [
        LoggedRow(ADA, b"ada" + pack_start(10), SEVEN, 10)
    ]


def test_a_null_value_deletes_and_a_version_that_ended_ends() -> None:
    ended = {"key": "ada", "value": 7, "valid_from": 10, "valid_to": 20}

    assert rows_of("key_value").logged({"key": "ada", "value": None}) == [
        LoggedRow(ADA, b"ada", None, 0)
    ]
    assert rows_of("versioned").logged(ended) == [
        LoggedRow(ADA, b"ada", SEVEN, 10),
        LoggedRow(ADA, b"ada", None, 20),
    ]


def test_stores_that_only_their_operators_know_are_refused() -> None:
    with pytest.raises(ConfigError, match="is a suppress_buffer store"):
        rows_of("suppress_buffer")
    with pytest.raises(ConfigError, match="of an operator that keeps more"):
        rows_of("window", retain_duplicates=True)
    with pytest.raises(ConfigError, match="is not logged"):
        rows_of("key_value", changelog_topic=None)
    with pytest.raises(ConfigError, match="produce its rows to that topic"):
        rows_of("key_value", source_topics=["a-s-changelog"])


def test_columns_are_those_that_a_reader_of_the_store_sees() -> None:
    with pytest.raises(ConfigError, match="'window_start' is missing"):
        rows_of("window").check_columns({"key", "value"})
    with pytest.raises(ConfigError, match="'name' is not one of them"):
        rows_of("key_value").check_columns({"key", "value", "name"})


@pytest.mark.parametrize(
    ("kind", "row", "problem"),
    [
        ("versioned", {"valid_from": datetime(1950, 1, 1, tzinfo=UTC)}, "valid_from is -63"),
        ("versioned", {"valid_from": 1, "valid_to": -2}, "valid_to is -2 ms"),
        ("window", {"window_start": -1}, "window_start is -1 ms"),
        ("timestamped_key_value", {"_timestamp": -1}, "_timestamp is -1 ms"),
        ("session", {"window_start": 5000, "window_end": 1000}, "before its start at 5000 ms"),
        ("window", {"window_start": 10, "window_end": 99}, "from 10 to 99 ms"),
    ],
)
def test_what_the_store_would_refuse_is_refused_with_its_row(
    kind: str, row: dict[str, Any], problem: str
) -> None:
    with pytest.raises(SerdeError, match=rf"the row .*'ada'.* store 's'.*{problem}"):
        rows_of(kind, window_size_ms=10).logged({"key": "ada", "value": 7, **row})


def test_a_window_of_an_unknown_size_may_end_anywhere() -> None:
    row = {"key": "ada", "value": 7, "window_start": 10, "window_end": 99}

    assert rows_of("window").logged(row)[0].key == b"ada" + pack_window_tail(10, 0)
