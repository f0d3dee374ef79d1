"""Keys of changelogs as whoever reads them from outside sees them: the key, and its window. Pure.

=========  ==========================================
layout     changelog key
=========  ==========================================
plain      key
window     key | 8B start | 4B sequence number
windowed   key | 8B start: a window that was read as a key
session    key | 8B end | 8B start
sided      8B time | 1B side | key: of outer joins
queued     00 | 8B time | key | 4B sequence number
opaque     as the store lays it out
=========  ==========================================

The layout of a store is that of its kind (`stores.TRAITS`), and of plain keys that of their format.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from logstate.contracts.formats import WINDOWED
from logstate.contracts.stores import traits_of
from logstate.contracts.windowed_keys import (
    SESSION_TAIL_BYTES,
    START_BYTES,
    WINDOW_TAIL_BYTES,
    session_times,
    start_of_window,
    unpack_start_from,
)

#: what follows the key, by layout
TAIL_BYTES: Final[Mapping[str, int]] = {
    "window": WINDOW_TAIL_BYTES,
    "windowed": START_BYTES,
    "session": SESSION_TAIL_BYTES,
    "queued": 4,
}
#: what is in front of the key
HEAD_BYTES: Final[Mapping[str, int]] = {"sided": 9, "queued": 9}


def layout_of(kind: str, key_format: str, *, of_buffers: bool = False) -> str:
    """The layout of a store's changelog, by its kind and the format of its key.

    That of a buffer, whose rows hold no values, is told with ``of_buffers`` only.

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
    """The key without its window, and whatever else is around it."""
    return key[HEAD_BYTES.get(layout, 0) : -TAIL_BYTES.get(layout, 0) or None]


def start_on_topic(key: bytes) -> int:
    """The start in a windowed key as topics have it."""
    return int(unpack_start_from(key, len(key) - START_BYTES)[0])


def window_of(layout: str, key: bytes, size_ms: int | None) -> tuple[int, int | None] | None:
    """Start and end of the window of a key; the end None where nobody knows it, None without one.

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
    """Added to the store's clock it gives the oldest time that is shown; None: all are."""
    retention_ms: int | None = entry.get("retention_ms")
    if retention_ms is None or layout not in {"window", "session"}:
        return None
    # Those of windows that are sent when they close, which includes the one at the very edge.
    keeps_edge = entry.get("keep_at_retention") and not entry.get("in_memory")
    return -retention_ms + (0 if layout == "window" and keeps_edge else 1)


def history_ms_of(entry: Mapping[str, Any]) -> int | None:
    """Of a versioned store: how far before its clock a version may begin when it is written."""
    history_ms: int | None = entry.get("history_ms")
    # Manifests of earlier versions have only the other one, which was the same then.
    return history_ms if history_ms is not None else entry.get("retention_ms")


def expiry_time(layout: str, key: bytes) -> int:
    """The time of a window by which it expires, and which moves the clock of its store."""
    return session_times(key)[0] if layout == "session" else start_of_window(key)


def is_expired(layout: str, key: bytes, oldest: int | None, clock_ms: int) -> bool:
    """Whether the store hides this window at a stream time, though its log may have it yet."""
    if oldest is None:
        return False
    return expiry_time(layout, key) < clock_ms + oldest
