"""Which records of a changelog ``logstate get`` shows for a key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from logstate.cli.shared.stored_logs import hidden_rows, newest_of_key
from logstate.topics.displayed_records import log_of_entry


@dataclass
class Record:
    """A record of a versioned store's changelog."""

    name: bytes
    time_ms: int

    def key(self) -> bytes:
        return self.name

    def timestamp(self) -> tuple[int, int]:
        return 1, self.time_ms


def times_of(*records: Record) -> list[int]:
    """When the versions of b are valid from that are shown of these records."""
    entry = {"kind": "versioned", "key": {"format": "string"}, "value": None, "history_ms": 10}
    log = log_of_entry("prices", entry, "prices-changelog", 1)
    given: list[Any] = list(records)
    found = newest_of_key(given, log, lambda key: key == b"b")
    return [record.timestamp()[1] for record in found.values()]


def test_a_version_that_the_store_refused_is_not_shown() -> None:
    too_late, in_time = Record(b"b", 89), Record(b"b", 90)

    assert times_of(Record(b"a", 100), too_late) == []
    assert times_of(Record(b"a", 100), in_time, too_late) == [90]


def test_a_version_of_the_past_that_came_late_is_not_the_newest() -> None:
    assert times_of(Record(b"b", 100), Record(b"b", 95)) == [100]


def test_a_row_that_has_expired_is_not_shown() -> None:
    entry = {"kind": "key_value", "key": {"format": "string"}, "value": None, "ttl_ms": 10}
    log = log_of_entry("seen", entry, "seen-changelog", 1)
    expired, live, at_zero = (Record(b"b", time_ms) for time_ms in (90, 91, -1))

    is_hidden: Any = hidden_rows(log, 100)
    assert [is_hidden(record) for record in (expired, live, at_zero)] == [True, False, True]
    of_unknown_time: Any = hidden_rows(log, None)
    assert not of_unknown_time(expired)
