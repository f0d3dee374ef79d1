"""The keys of session rows.

8 bytes segment, then the layout of :mod:`logstate.contracts.windowed_keys`, which is logged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from logstate.changelog.rows.segments import SEGMENT_BYTES
from logstate.contracts.records import Windowed
from logstate.contracts.windowed_keys import SESSION_TAIL_BYTES, session_times


class SessionRowKey(NamedTuple):
    """A row key taken apart; ``key`` is still serialised."""

    end_ms: int
    key: bytes
    start_ms: int


def split_row_key(row_key: bytes) -> SessionRowKey:
    """The parts of a row key."""
    end_ms, start_ms = session_times(row_key)
    return SessionRowKey(end_ms, row_key[SEGMENT_BYTES:-SESSION_TAIL_BYTES], start_ms)


def windowed_decoder(decode_key: Callable[[bytes], Any]) -> Callable[[bytes], Windowed[Any]]:
    """A function from row key to ``Windowed``, whose end is inclusive."""

    def decode(row_key: bytes) -> Windowed[Any]:
        end_ms, start_ms = session_times(row_key)
        return Windowed(decode_key(row_key[SEGMENT_BYTES:-SESSION_TAIL_BYTES]), start_ms, end_ms)

    return decode
