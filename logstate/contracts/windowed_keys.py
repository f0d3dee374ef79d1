"""The suffixes of windowed keys after the serialized key, for the engine, serdes and Spark.

All integers are big-endian and signed, and these are the bytes that Kafka Streams writes::

    on a topic, of a window         key | 8 bytes start
    in a window store and its log   key | 8 bytes start | 4 bytes sequence number
    of a session, everywhere        key | 8 bytes end | 8 bytes start

A window's end is not written: it is start + size. The sequence number is 0 except in stores that
keep duplicates. A session's end comes first, because sessions are looked up by their end.
"""

from __future__ import annotations

import struct

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
