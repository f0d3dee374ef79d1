"""Records as commands show them, those among them that are not what their topic says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from logstate.cli.shared.printing import in_words
from logstate.topics.displayed_records import DisplayedRecord, RecordReader, log_of_entry


@dataclass
class Record:
    """A record as a client gives it."""

    name: bytes | None

    def topic(self) -> str:
        return "log"

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return 7

    def timestamp(self) -> tuple[int, int]:
        return 1, 5

    def key(self) -> bytes | None:
        return self.name

    def value(self) -> bytes:
        return b"x"


def shown(kind: str, key: bytes | None) -> DisplayedRecord:
    """A record with this key in the changelog of a store of this kind."""
    entry = {"kind": kind, "key": {"format": "string"}, "value": None, "window_size_ms": 10}
    log = log_of_entry("counts", entry, "log", 1)
    record: Any = Record(key)
    return RecordReader(log, log.key, log.value).shown(record)


@pytest.mark.parametrize("kind", ["window", "session"])
@pytest.mark.parametrize("key", [b"", b"ada"])
def test_a_key_that_is_too_short_for_its_window_is_shown_as_it_is(kind: str, key: bytes) -> None:
    found = shown(kind, key)

    assert (found.key, found.window) == (key.decode(), None)
    assert found.formats[0].startswith("windowed, not readable: ")


def test_a_key_with_a_window_is_shown_with_it() -> None:
    assert shown("window", b"ada" + bytes(12))[4:7] == ("ada", "x", (0, 10))
    assert shown("window", None).key is None


def test_a_number_that_json_does_not_have_is_shown_as_what_it_is() -> None:
    assert [in_words(one) for one in (float("nan"), float("inf"), 1.5, 2, None)] == [
        *("nan", "inf", "1.5"),
        *("2", "null"),
    ]
