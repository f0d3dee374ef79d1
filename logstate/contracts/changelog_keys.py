"""The layouts of changelog keys for readers outside the application: the key and its window.

=========  ==========================================
layout     changelog key
=========  ==========================================
plain      key
window     key | 8B start | 4B sequence number
windowed   key | 8B start: a key that is a window
session    key | 8B end | 8B start
sided      8B time | 1B side | key: of outer joins
queued     00 | 8B time | key | 4B sequence number
opaque     as the store lays it out
=========  ==========================================

The layout of a store depends on its kind (`stores.TRAITS`), that of plain keys on their format.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, Final

from logstate.contracts.formats import WINDOWED
from logstate.contracts.stores import traits_of

_START = struct.Struct(">q")
_WINDOW = struct.Struct(">qi")
_SESSION = struct.Struct(">qq")

#: bytes after the key on a topic, in a window store, of a session
START_BYTES = 8
WINDOW_TAIL_BYTES = 12
SESSION_TAIL_BYTES = 16
#: the largest time; ends beyond it are truncated here, as in Java
MAX_TIME_MS = 2**63 - 1

pack_start = _START.pack
unpack_start_from = _START.unpack_from
pack_window_tail = _WINDOW.pack
pack_session_tail = _SESSION.pack
unpack_session_tail_from = _SESSION.unpack_from


def start_of_window(key: bytes) -> int:
    """Return the start in the key of a window store's row or changelog record."""
    return int(_START.unpack_from(key, len(key) - WINDOW_TAIL_BYTES)[0])


def window_tail(key: bytes) -> tuple[int, int]:
    """Return (start, sequence number) of such a key."""
    return _WINDOW.unpack_from(key, len(key) - WINDOW_TAIL_BYTES)


def session_times(key: bytes) -> tuple[int, int]:
    """Return (end, start) in the key of a session."""
    return _SESSION.unpack_from(key, len(key) - SESSION_TAIL_BYTES)


#: bytes after the key, by layout
TAIL_BYTES: Final[Mapping[str, int]] = {
    "window": WINDOW_TAIL_BYTES,
    "windowed": START_BYTES,
    "session": SESSION_TAIL_BYTES,
    "queued": 4,
}
#: bytes before the key
HEAD_BYTES: Final[Mapping[str, int]] = {"sided": 9, "queued": 9}


def layout_of(kind: str, key_format: str, *, of_buffers: bool = False) -> str:
    """Return the layout of a store's changelog, by its kind and the format of its key.

    The layout of a buffer, whose rows hold no values, is only returned with ``of_buffers``.

    >>> layout_of("timestamped_window", "string"), layout_of("key_value", "session_windowed")
    ('window', 'session')
    >>> layout_of("outer_join", "string"), layout_of("outer_join", "string", of_buffers=True)
    ('opaque', 'sided')
    """
    traits = traits_of(kind)
    if traits.holds != "values" and not of_buffers:
        return "opaque"
    layout = traits.key_layout
    return WINDOWED.get(key_format, layout) if layout == "plain" else layout


def inner_key(layout: str, key: bytes) -> bytes:
    """Return the key without its window and other additions."""
    return key[HEAD_BYTES.get(layout, 0) : -TAIL_BYTES.get(layout, 0) or None]


def start_on_topic(key: bytes) -> int:
    """Return the start of a windowed key as topics have it."""
    return int(unpack_start_from(key, len(key) - START_BYTES)[0])


def window_of(layout: str, key: bytes, size_ms: int | None) -> tuple[int, int | None] | None:
    """Return start and end of a key's window; the end is None if unknown; None without a window.

    >>> window_of("window", b"ada" + bytes(12), 10)
    (0, 10)
    """
    if layout == "session":
        end, start = session_times(key)
        return start, end
    if layout not in {"window", "windowed"}:
        return None
    start = start_of_window(key) if layout == "window" else start_on_topic(key)
    return start, None if size_ms is None else start + size_ms


def oldest_shown(entry: Mapping[str, Any], layout: str) -> int | None:
    """Return what to add to the store's stream time for the oldest visible time; None: no limit."""
    retention_ms: int | None = entry.get("retention_ms")
    if retention_ms is None or layout not in {"window", "session"}:
        return None
    # For windows that are emitted when they close, which includes the one exactly at the limit.
    keeps_edge = entry.get("keep_at_retention") and not entry.get("in_memory")
    return -retention_ms + (0 if layout == "window" and keeps_edge else 1)


def history_ms_of(entry: Mapping[str, Any]) -> int | None:
    """Return how far before the stream time a written version of a versioned store may begin."""
    history_ms: int | None = entry.get("history_ms")
    # Manifests of earlier versions only have the retention, which had the same value then.
    return history_ms if history_ms is not None else entry.get("retention_ms")


def expiry_time(layout: str, key: bytes) -> int:
    """Return the time of a window by which it expires, and which advances the stream time."""
    return session_times(key)[0] if layout == "session" else start_of_window(key)


def is_expired(layout: str, key: bytes, oldest: int | None, clock_ms: int) -> bool:
    """Return whether the store hides this window at a stream time, even if it is in the log."""
    if oldest is None:
        return False
    return expiry_time(layout, key) < clock_ms + oldest
