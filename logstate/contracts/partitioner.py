"""The partition of a key: murmur2, as in every JVM producer and Kafka Streams.

librdkafka hashes with the same function with ``partitioner=murmur2_random``; this one is for keys
that are placed by a part of their bytes, and for finding the owner of a key of a store.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from logstate.contracts.errors import StoreUnavailableError
from logstate.contracts.stores import StoreSpec

_WORD = struct.Struct("<I")
_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Return the signed 32-bit hash.

    >>> murmur2(b"21")
    -973932308
    """
    length = len(data)
    h = _SEED ^ length
    whole = length & ~3
    for (k,) in _WORD.iter_unpack(data[:whole]):
        k = k * _M & _MASK
        k ^= k >> 24
        h = h * _M & _MASK ^ k * _M & _MASK
    if rest := data[whole:]:
        h = (h ^ int.from_bytes(rest, "little")) * _M & _MASK
    h ^= h >> 13
    h = h * _M & _MASK
    h ^= h >> 15
    return h - (1 << 32) if h & 0x80000000 else h


def partition_of(key: bytes, partitions: int) -> int:
    """Return the partition of a key, 0 .. partitions - 1."""
    if partitions == 1:
        return 0
    return (murmur2(key) & 0x7FFFFFFF) % partitions


@dataclass(frozen=True)
class StorePlace:
    """A queryable store, its sub-topology, and the encoding of its keys."""

    spec: StoreSpec
    sub_topology: int
    is_global: bool
    encode_key: Callable[[Any], bytes]
    #: the application itself writes each key to the partition of its hash
    is_placed: bool = True
    #: its tasks read topics that match a pattern, so there may be more of them later
    reads_patterns: bool = False

    @property
    def name(self) -> str:
        """The name of the store."""
        return self.spec.name


def place_of(places: Mapping[str, StorePlace], store: str) -> StorePlace:
    """Return the place of a store; raise StoreUnavailableError for an unknown name."""
    found = places.get(store)
    if found is None:
        raise StoreUnavailableError(
            f"there is no store {store!r}; the topology has {sorted(places)}"
        )
    return found
