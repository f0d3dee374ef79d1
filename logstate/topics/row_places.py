"""Compute the partition of a changelog row: murmur2 of its key.

Instances look for a row where the records of its key arrive. Producers of the JVM, Kafka Streams
and this library place these by murmur2 of the serialized key, which includes a window in some
topics and not in others (:mod:`logstate.topics.placement`). Windows that are not hashed, and other
parts that a store adds to the key in its changelog, are removed first.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any

from logstate.changelog.stores.store_kind import StoreKind
from logstate.contracts.changelog_keys import WINDOWED, KeyLayout
from logstate.contracts.formats import HEAD_BYTES, KEY_AND_ID
from logstate.contracts.partitioner import partition_of

_LENGTH = struct.Struct(">i")
_SUBSCRIPTION_WITH_PARTITION = 1
_VERSION_BITS = 0x7F


def key_part(
    kind: StoreKind, key: Mapping[str, Any] | None, hashed_windows: int = 0
) -> Callable[[bytes], bytes]:
    """Return a function that extracts the hashed part of a changelog key.

    ``key`` is the description of the store's keys; the innermost ``hashed_windows`` are kept.

    >>> from logstate.changelog.stores.window import WINDOWS
    >>> key_part(WINDOWS, {"format": "string"})(b"ada" + bytes(12))
    b'ada'
    """
    if kind.is_keyed_by_pair or (key or {}).get("format") == KEY_AND_ID:
        return _first_part
    before = HEAD_BYTES.get((key or {}).get("format", ""))
    if before is not None:
        return lambda key: key[before:]
    windows, layout = windows_of_rows(kind, key), kind.key_layout
    head = layout.head_bytes
    tail = sum(one.tail_bytes for one in windows[: max(0, len(windows) - hashed_windows)])
    if layout.start_at is None:  # otherwise it is one of the windows
        tail += layout.tail_bytes
    end = -tail or None
    if layout.has_element:
        return lambda key: layout.inner_key(key)[:end]
    if not (head or tail):
        return lambda key: key
    return lambda key: key[head:end]


def windows_of(key: Mapping[str, Any] | None) -> list[KeyLayout]:
    """Return the layouts of the windows in keys of a description, the outermost first."""
    found = []
    while key and key.get("format") in WINDOWED:
        found.append(WINDOWED[key["format"]])
        key = key.get("inner")
    return found


def windows_of_rows(kind: StoreKind, key: Mapping[str, Any] | None) -> list[KeyLayout]:
    """Return the same for a store's changelog, whose layout may add a window around the key."""
    layout = kind.key_layout
    return [*([] if layout.start_at is None else [layout]), *windows_of(key)]


def _first_part(key: bytes) -> bytes:
    """Return the first of two keys, which has its length as prefix."""
    (length,) = _LENGTH.unpack_from(key)
    return key[_LENGTH.size : _LENGTH.size + length]


def with_place_of_left(
    key: bytes, value: bytes | None, left_part: Callable[[bytes], bytes], partitions: int
) -> bytes | None:
    """Return a foreign-key join's subscription for a new partition count of its left rows.

    Responses go to the partition that it names.
    """
    if value is None or value[0] & _VERSION_BITS != _SUBSCRIPTION_WITH_PARTITION:
        return value
    (length,) = _LENGTH.unpack_from(key)
    left = left_part(key[_LENGTH.size + length :])
    return value[: -_LENGTH.size] + _LENGTH.pack(partition_of(left, partitions))
