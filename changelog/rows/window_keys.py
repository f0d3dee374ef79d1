"""The keys of window rows.

8 bytes segment, then the layout of :mod:`logstate.contracts.windowed_keys`, which is logged.

Keys have any length, so between two windows of the key "a" there may be rows of longer keys that
start with "a": a scan for one key re-checks length and key of each row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from logstate.changelog.rows.segments import SEGMENT_BYTES
from logstate.contracts.records import Windowed
from logstate.contracts.windowed_keys import (
    MAX_TIME_MS,
    WINDOW_TAIL_BYTES,
    start_of_window,
    window_tail,
)


class WindowRowKey(NamedTuple):
    """A row key taken apart; ``key`` is still serialised."""

    start_ms: int
    key: bytes
    sequence: int


def split_row_key(row_key: bytes) -> WindowRowKey:
    """The parts of a row key."""
    start_ms, sequence = window_tail(row_key)
    return WindowRowKey(start_ms, row_key[SEGMENT_BYTES:-WINDOW_TAIL_BYTES], sequence)


def windowed_decoder(decode_key: Callable[[bytes], Any], size_ms: int) -> Callable[[bytes], Any]:
    """A function from row key to ``Windowed``."""

    def decode(row_key: bytes) -> Windowed[Any]:
        start_ms = start_of_window(row_key)
        key = decode_key(row_key[SEGMENT_BYTES:-WINDOW_TAIL_BYTES])
        return Windowed(key, start_ms, min(start_ms + size_ms, MAX_TIME_MS))

    return decode
