"""To which partition a row of a changelog belongs: by murmur2 of its key, without its window. Pure.

Instances find a row where the records of its key arrive. Producers of the JVM, Kafka Streams and
this library place these by murmur2 of the serialised key; of a window by the key inside it. What a
store lays around the key in its changelog is taken off first.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any

from logstate.contracts.changelog_keys import HEAD_BYTES, TAIL_BYTES, layout_of
from logstate.contracts.formats import KEY_AND_ID, WINDOWED
from logstate.contracts.partitioner import partition_of

_LENGTH = struct.Struct(">i")
_SUBSCRIPTION_WITH_PARTITION = 1
_VERSION_BITS = 0x7F


def key_part(kind: str, key_format: str) -> Callable[[bytes], bytes]:
    """What of a changelog key decides about its partition.

    >>> key_part("timestamped_window", "string")(b"ada" + bytes(12))
    b'ada'
    """
    if kind == "foreign_key_subscription" or key_format == KEY_AND_ID:
        return _first_part
    layout = layout_of(kind, key_format, of_buffers=True)
    head, tail = HEAD_BYTES.get(layout, 0), TAIL_BYTES.get(layout, 0)
    if key_format in WINDOWED and layout not in WINDOWED.values():
        tail += TAIL_BYTES[WINDOWED[key_format]]
    if not (head or tail):
        return lambda key: key
    end = -tail or None
    return lambda key: key[head:end]


def _first_part(key: bytes) -> bytes:
    """The first of two keys, which has its length in front."""
    (length,) = _LENGTH.unpack_from(key)
    return key[_LENGTH.size : _LENGTH.size + length]


def with_place_of_left(
    key: bytes, value: bytes | None, left_part: Callable[[bytes], bytes], partitions: int
) -> bytes | None:
    """A subscription of a foreign-key join whose left rows have so many partitions now.

    Answers go to the partition that it names.
    """
    if value is None or value[0] & _VERSION_BITS != _SUBSCRIPTION_WITH_PARTITION:
        return value
    (length,) = _LENGTH.unpack_from(key)
    left = left_part(key[_LENGTH.size + length :])
    return value[: -_LENGTH.size] + _LENGTH.pack(partition_of(left, partitions))


def format_of(entry: Mapping[str, Any]) -> str:
    """The format of the key in a store's entry of the manifest."""
    return str((entry.get("key") or {}).get("format", ""))
