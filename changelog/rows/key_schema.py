"""The differences between window and session stores: keys, visibility and retention.

A row key is ``segment | key | tail``, and the tail is two numbers. The first is the row's *time*:
it gives the segment, hides the row and lets it expire. Behind the segment it is the layout of
:mod:`logstate.contracts.changelog_keys`, which is logged::

    window     start, sequence number (0 but in stores that keep duplicates)
    session    end, start
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from logstate.changelog.rows.row_codec import RowCodec
from logstate.changelog.rows.segments import SEGMENT_BYTES, pack_segment
from logstate.changelog.rows.serialization_errors import key_serialization_error
from logstate.contracts.changelog_keys import (
    MAX_TIME_MS,
    SESSION_TAIL_BYTES,
    START_BYTES,
    WINDOW_TAIL_BYTES,
    pack_session_tail,
    pack_window_tail,
    session_times,
    window_tail,
)
from logstate.contracts.records import Windowed
from logstate.contracts.stores import StoreSpec


class KeySchema(NamedTuple):
    """The keys of one store, and the rules that hang on their kind."""

    pack_tail: Callable[[int, int], bytes]
    #: both numbers of the tail of a row's key or a logged one
    times_of: Callable[[bytes], tuple[int, int]]
    tail_bytes: int
    #: how much of the tail stands before the key where rows lie by time first
    times_bytes: int
    #: the user's key, from a key and the two numbers
    windowed: Callable[[Any, int, int], Windowed[Any]]
    #: 1, or -1: of rows with one time and key the last comes first in memory, as in Kafka Streams
    memory_sign: int
    #: rows lie by part of a segment, and nothing asks for a row that the retention hides
    has_parts: bool
    #: a row exactly as old as the retention is shown
    keeps_edge: bool
    #: a put of None that is read back from the log moves the clock
    counts_none: bool

    def key_of(self, row_key: bytes) -> bytes:
        """The serialised key in a row's key."""
        return row_key[SEGMENT_BYTES : -self.tail_bytes]

    def memory_order(self, pair: tuple[bytes, bytes]) -> tuple[int, bytes, int]:
        """Return the sort key of rows in memory: time, key, second number."""
        first, second = self.times_of(pair[0])
        return first, self.key_of(pair[0]), self.memory_sign * second


# A put of None is a deletion, but where duplicates are kept it is nothing at all; Kafka Streams'
# memory store of windows lets it move the clock even then, that of sessions never.


def session_schema(spec: StoreSpec) -> KeySchema:
    """The schema of a session store."""
    return KeySchema(
        pack_session_tail,
        session_times,
        SESSION_TAIL_BYTES,
        SESSION_TAIL_BYTES,
        lambda key, end_ms, start_ms: tuple.__new__(Windowed, (key, start_ms, end_ms)),
        -1,
        has_parts=not spec.keep_at_retention,  # final results are read beyond the retention
        keeps_edge=False,
        counts_none=not spec.in_memory,
    )


def window_schema(spec: StoreSpec) -> KeySchema:
    """The schema of a window store."""
    size_ms, window_end = spec.window_size_ms or 0, spec.window_end

    def window(key: Any, start_ms: int, _sequence: int) -> Windowed[Any]:
        end_ms = (
            min(start_ms + size_ms, MAX_TIME_MS) if window_end is None else window_end(start_ms)
        )
        return Windowed(key, start_ms, end_ms)

    return KeySchema(
        pack_window_tail,
        window_tail,
        WINDOW_TAIL_BYTES,
        START_BYTES,
        window,
        1,
        has_parts=True,
        keeps_edge=spec.keep_at_retention and not spec.in_memory,
        counts_none=spec.in_memory or not spec.retain_duplicates,
    )


def bound_row_key(
    codec: RowCodec, schema: KeySchema, part_ms: int
) -> Callable[[Any, int, int], bytes]:
    """Return the row key of a key and two numbers; the result of the last call is cached.

    Several threads may call it at once: the cached result is replaced as a whole.
    """
    pack_tail, encode_key, store = schema.pack_tail, codec.encode_key, codec.store
    last: tuple[int | None, int, bytes, bytes] = None, 0, b"", b""

    def row_key(key: Any, first: int, second: int) -> bytes:
        nonlocal last
        last_first, last_second, segment, tail = last
        if first != last_first or second != last_second:
            segment, tail = pack_segment(first // part_ms), pack_tail(first, second)
            last = first, second, segment, tail
        try:
            return segment + encode_key(key) + tail
        except Exception as error:  # noqa: BLE001  serdes raise anything
            raise key_serialization_error(store, key, error) from error.__cause__

    return row_key
