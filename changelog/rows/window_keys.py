"""The keys of window rows.

Layout: 8 bytes segment | serialised key | 8 bytes window start | 4 bytes sequence number. Behind
the segment these are the bytes Kafka Streams keeps and logs. The sequence number is 0 but in stores
that keep duplicates. The end is not stored: it is start + size.

Keys have any length, so between two windows of the key "a" there may be rows of longer keys that
start with "a": a scan for one key re-checks length and key of each row.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, NamedTuple

from logstate.contracts.records import Windowed

_START = struct.Struct(">q")
_TAIL = struct.Struct(">qi")
SEGMENT_BYTES = 8
TAIL_BYTES = 12
MAX_TIME_MS = 2**63 - 1

pack_start = _START.pack
pack_tail = _TAIL.pack


class WindowRowKey(NamedTuple):
    """A row key taken apart; ``key`` is still serialised."""

    start_ms: int
    key: bytes
    sequence: int


def split_row_key(row_key: bytes) -> WindowRowKey:
    """The parts of a row key."""
    start_ms, sequence = _TAIL.unpack_from(row_key, len(row_key) - TAIL_BYTES)
    return WindowRowKey(start_ms, row_key[SEGMENT_BYTES:-TAIL_BYTES], sequence)


def start_of(row_key: bytes) -> int:
    """The window start in a row key or changelog key."""
    return int(_START.unpack_from(row_key, len(row_key) - TAIL_BYTES)[0])


def unpack_tail(row_key: bytes) -> tuple[int, int]:
    """(start, sequence number) of a row key or changelog key."""
    return _TAIL.unpack_from(row_key, len(row_key) - TAIL_BYTES)


def sequence_of(log_key: bytes) -> int:
    """The sequence number in a row key or changelog key."""
    return int(_TAIL.unpack_from(log_key, len(log_key) - TAIL_BYTES)[1])


def windowed_decoder(decode_key: Callable[[bytes], Any], size_ms: int) -> Callable[[bytes], Any]:
    """A function from row key to ``Windowed``."""

    def decode(row_key: bytes) -> Windowed[Any]:
        start_ms = start_of(row_key)
        key = decode_key(row_key[SEGMENT_BYTES:-TAIL_BYTES])
        return Windowed(key, start_ms, min(start_ms + size_ms, MAX_TIME_MS))

    return decode
