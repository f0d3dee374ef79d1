"""The layouts of changelog keys: the key and its window.

===========  ========================================
layout       changelog key
===========  ========================================
PLAIN        key
WINDOW       key | 8B start | 4B sequence number
WINDOW_KEY   key | 8B start: a key that is a window
SESSION      key | 8B end | 8B start
ELEMENT      key | 00 01 | element: in the key, ``00``
             is written as ``00 FF``
===========  ========================================

An element is a position of a list, a key of a map, or a value of a set. No key with its end mark is
the beginning of another one, so the elements of a key are the rows of one prefix, and keys keep the
order of their bytes.

The layout of a store depends on its kind (`changelog.stores.store_kind`), that of plain keys on
their format.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

_START = struct.Struct(">q")
_WINDOW = struct.Struct(">qi")
_SESSION = struct.Struct(">qq")

#: bytes after the key on a topic, in a window store, of a session
START_BYTES = 8
WINDOW_TAIL_BYTES = 12
SESSION_TAIL_BYTES = 16
#: behind a key that an element follows, and what stands for a zero byte of the key
_KEY_END: Final = b"\x00\x01"
_ZERO: Final = b"\x00\xff"
#: the largest time; ends beyond it are truncated here, as in Java
MAX_TIME_MS = 2**63 - 1

pack_start = _START.pack
unpack_start_from = _START.unpack_from
pack_window_tail = _WINDOW.pack
pack_session_tail = _SESSION.pack
unpack_session_tail_from = _SESSION.unpack_from


def window_tail(key: bytes) -> tuple[int, int]:
    """Return (start, sequence number) in the key of a window store's row or changelog record."""
    return _WINDOW.unpack_from(key, len(key) - WINDOW_TAIL_BYTES)


def session_times(key: bytes) -> tuple[int, int]:
    """Return (end, start) in the key of a session."""
    return _SESSION.unpack_from(key, len(key) - SESSION_TAIL_BYTES)


def ended_key(key: bytes) -> bytes:
    r"""Return a key with its end mark: what the keys of its elements begin with.

    >>> ended_key(b"a\x00b")
    b'a\x00\xffb\x00\x01'
    """
    return key.replace(b"\x00", _ZERO) + _KEY_END


def split_element(data: bytes) -> tuple[bytes, bytes]:
    r"""Return the key and the element in the key of an element.

    Raises ValueError for bytes without an end mark.

    >>> split_element(ended_key(b"a\x00b") + b"7")
    (b'a\x00b', b'7')
    """
    end = data.find(_KEY_END)  # a zero byte of the key has FF behind it
    if end < 0:
        raise ValueError("the bytes have no end mark of a key, which an element would follow")
    return data[:end].replace(_ZERO, b"\x00"), data[end + len(_KEY_END) :]


@dataclass(frozen=True, eq=False)
class KeyLayout:
    """Where a changelog key has the key, and which times it has besides.

    Positions are those of 8-byte times in ms; negative ones count from the end.
    """

    head_bytes: int = 0
    """Before the key."""
    tail_bytes: int = 0
    """Behind the key."""
    start_at: int | None = None
    """Of the start of a window; None: keys have no windows."""
    end_at: int | None = None
    """Of its end; None: the end is not stored, but follows from the start."""
    record_time_at: int | None = None
    """Of the time of a record that waits."""
    sequence_at: int | None = None
    """Of a number of 4 bytes, by which the rows of a key and a window differ."""

    has_element: bool = False
    """The key has an end mark, and an element follows."""

    @property
    def is_whole(self) -> bool:
        """Whether keys have no additions."""
        return not (self.head_bytes or self.tail_bytes or self.has_element)

    def inner_key(self, key: bytes) -> bytes:
        """Return the key without its window and other additions."""
        if self.has_element:
            return split_element(key)[0]
        return key[self.head_bytes : -self.tail_bytes or None]

    def element_of(self, key: bytes) -> bytes | None:
        """Return the element behind the key; None for keys without one.

        >>> ELEMENT.element_of(ended_key(b"ada") + b"7")
        b'7'
        """
        return split_element(key)[1] if self.has_element else None

    def window_of(self, key: bytes, size_ms: int | None) -> tuple[int, int | None] | None:
        """Return start and end of the window; the end is None if unknown; None without a window.

        >>> WINDOW.window_of(b"ada" + bytes(12), 10)
        (0, 10)
        """
        if self.start_at is None:
            return None
        start = _time_at(key, self.start_at)
        if self.end_at is not None:
            return start, _time_at(key, self.end_at)
        return start, None if size_ms is None else start + size_ms

    def expiry_time(self, key: bytes) -> int:
        """Return the time by which a window expires, and which advances the stream time."""
        at = self.start_at if self.end_at is None else self.end_at
        assert at is not None, "keys of this layout have no windows"
        return _time_at(key, at)

    def tail_of(self, start_ms: int, end_ms: int) -> bytes:
        """Return the bytes behind a key.

        >>> WINDOW.tail_of(7, 9) == pack_window_tail(7, 0)
        True
        """
        tail = bytearray(self.tail_bytes)
        for at, time_ms in ((self.start_at, start_ms), (self.end_at, end_ms)):
            if at is not None:
                _START.pack_into(tail, at, time_ms)
        return bytes(tail)


def _time_at(key: bytes, at: int) -> int:
    return int(_START.unpack_from(key, at)[0])


PLAIN: Final = KeyLayout()
WINDOW: Final = KeyLayout(tail_bytes=WINDOW_TAIL_BYTES, start_at=-12, sequence_at=-4)
WINDOW_KEY: Final = KeyLayout(tail_bytes=START_BYTES, start_at=-8)
SESSION: Final = KeyLayout(tail_bytes=SESSION_TAIL_BYTES, start_at=-8, end_at=-16)
ELEMENT: Final = KeyLayout(has_element=True)

#: keys with a window behind them: format to the layout that they have on a topic
WINDOWED: Final[Mapping[str, KeyLayout]] = {"windowed": WINDOW_KEY, "session_windowed": SESSION}


def history_ms_of(entry: Mapping[str, Any]) -> int | None:
    """Return how far before the stream time a written version of a versioned store may begin."""
    history_ms: int | None = entry.get("history_ms")
    # Manifests of earlier versions only have the retention, which had the same value then.
    return history_ms if history_ms is not None else entry.get("retention_ms")
