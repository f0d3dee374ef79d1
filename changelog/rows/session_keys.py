"""The keys of session rows.

Layout: 8 bytes segment | serialised key | 8 bytes session end | 8 bytes session start. Behind the
segment these are the bytes Kafka Streams keeps and logs: the end comes first, because sessions are
looked for by their end.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, NamedTuple

from logstate.contracts.records import Windowed

_TAIL = struct.Struct(">qq")
SEGMENT_BYTES = 8
TAIL_BYTES = 16

pack_tail = _TAIL.pack


class SessionRowKey(NamedTuple):
    """A row key taken apart; ``key`` is still serialised."""

    end_ms: int
    key: bytes
    start_ms: int


def split_row_key(row_key: bytes) -> SessionRowKey:
    """The parts of a row key."""
    end_ms, start_ms = _TAIL.unpack_from(row_key, len(row_key) - TAIL_BYTES)
    return SessionRowKey(end_ms, row_key[SEGMENT_BYTES:-TAIL_BYTES], start_ms)


def times_of(row_key: bytes) -> tuple[int, int]:
    """(end, start) of the session in a row key or changelog key."""
    return _TAIL.unpack_from(row_key, len(row_key) - TAIL_BYTES)


def windowed_decoder(decode_key: Callable[[bytes], Any]) -> Callable[[bytes], Windowed[Any]]:
    """A function from row key to ``Windowed``, whose end is inclusive."""

    def decode(row_key: bytes) -> Windowed[Any]:
        end_ms, start_ms = times_of(row_key)
        return Windowed(decode_key(row_key[SEGMENT_BYTES:-TAIL_BYTES]), start_ms, end_ms)

    return decode
