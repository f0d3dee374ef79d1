"""The value of a buffered update: the bytes Kafka Streams logs for a suppress buffer (version 3).

Layout, all integers big-endian; lengths are 4 bytes, -1 is null::

    8 bytes timestamp | 8 bytes offset | length, topic | 4 bytes partition | header block
    length, prior value | length, old value (-2: equals the prior value) | length, new value
    8 bytes buffer time

The first line is where the update came from, the second what it says: ``old`` and ``new`` are
those of the LAST update of the key, ``prior`` is the old value of the first one since the key came
into the buffer, which is what downstream still believes. The buffer time is not part of the update:
it orders evictions.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from logstate.changelog.rows.row_codec import decode_headers, encode_headers
from logstate.contracts.records import Headers

_PLACE = struct.Struct(">qq")
_LENGTH = struct.Struct(">i")
_TIME = struct.Struct(">q")
_NULL = _LENGTH.pack(-1)
_SAME_AS_PRIOR = _LENGTH.pack(-2)


class BufferedUpdate(NamedTuple):
    """An update as it waits; values are serialised."""

    prior: bytes | None
    old: bytes | None
    new: bytes | None
    timestamp: int
    offset: int
    topic: str | None
    partition: int
    headers: Headers

    def size_bytes(self, key: bytes) -> int:
        """Return the size that Kafka Streams counts against ``max_bytes``."""
        size = 8 + len(key) + 8 + 8 + len(self.topic or "") + 4
        size += len(self.prior or b"") + len(self.new or b"")
        if self.old != self.prior:
            size += len(self.old or b"")
        return size + sum(len(name) + len(value or b"") for name, value in self.headers or ())


def encode_update(update: BufferedUpdate, buffer_time: int) -> bytes:
    """The logged value; it is the row of the local store as well."""
    topic = (update.topic or "").encode()
    old = _nullable(update.old)
    if update.old is not None and update.old == update.prior:
        old = _SAME_AS_PRIOR
    return b"".join(
        (
            _PLACE.pack(update.timestamp, update.offset),
            _LENGTH.pack(len(topic)),
            topic,
            _LENGTH.pack(update.partition),
            encode_headers(update.headers),
            _nullable(update.prior),
            old,
            _nullable(update.new),
            _TIME.pack(buffer_time),
        )
    )


def decode_update(data: bytes) -> BufferedUpdate:
    """The inverse of :func:`encode_update`, but for the buffer time.

    >>> update = BufferedUpdate(None, None, b"1", 5, 0, "in", 0, None)
    >>> decode_update(encode_update(update, 10)) == update
    True
    """
    timestamp, offset = _PLACE.unpack_from(data)
    topic, at = _read(data, _PLACE.size)
    (partition,) = _LENGTH.unpack_from(data, at)
    headers, at = decode_headers(data, at + 4)
    prior, at = _read(data, at)
    if data[at : at + 4] == _SAME_AS_PRIOR:
        old, at = prior, at + 4
    else:
        old, at = _read(data, at)
    new, _ = _read(data, at)
    # A punctuator's update has no topic; the format has no null there.
    name = topic.decode() if topic else None
    return BufferedUpdate(prior, old, new, timestamp, offset, name, partition, headers)


def buffer_time_of(data: bytes) -> int:
    """The buffer time at the end of a logged value."""
    return int(_TIME.unpack_from(data, len(data) - 8)[0])


def _nullable(value: bytes | None) -> bytes:
    return _NULL if value is None else _LENGTH.pack(len(value)) + value


def _read(data: bytes, at: int) -> tuple[bytes | None, int]:
    (length,) = _LENGTH.unpack_from(data, at)
    at += 4
    if length < 0:
        return None, at
    return data[at : at + length], at + length
