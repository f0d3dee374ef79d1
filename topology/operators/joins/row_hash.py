"""The hash by which a foreign-key join compares left rows, equal at every read of a row.

The hash is sent with a subscription and returned with each response, perhaps days and restarts
later, and must equal that of the row as it is read then. It cannot be computed from the object that
an operator forwards: an int in the place of a float is read as a float, and the next process
encodes a set in another order. So both ends read the row from where it is stored:

- a table with a store: the hash of the stored bytes, which are neither decoded nor encoded;
- a table that is computed from others when it is read: the hash of the computed row, encoded;
- below ``suppress``, which still returns the previous value while it forwards a row: the hash of
  the forwarded row. It was decoded from the buffer, so it equals the row as read.

Kafka Streams hashes the forwarded object, encoded (KAFKA-15303). If encoding a decoded row gives
its bytes, that is the same hash; responses to subscriptions with such a hash are accepted, too.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import mmh3

from logstate.contracts.processing import TaskContext
from logstate.contracts.serde import Serde
from logstate.topology.graph.nodes import TableNode

#: the seed of Kafka Streams
SEED = 104729

_HASH = struct.Struct(">QQ")


def hash_128(data: bytes) -> bytes:
    """Return Murmur3 as 16 bytes: the variant with two 64-bit halves, both big-endian.

    A Kafka Streams instance computes the same hash, so each library can answer the other's
    subscriptions.

    >>> hash_128(b"").hex(), hash_128(b"x|l2").hex()
    ('9d2764a018e329428c3cf3b035938518', '3b309d49dd6f18e456e9c27f0aee7337')
    """
    return _HASH.pack(*mmh3.hash64(data, SEED, True, signed=False))


class RowHashes:
    """The hashes of the rows of ``left`` in one task."""

    def __init__(
        self, left: TableNode, value: Serde[Any], registration_topic: str, task: TaskContext
    ) -> None:
        topic = task.topic_name(registration_topic, is_internal=True)
        self._getter = left.value_getter(task)
        self._serialize: Callable[[Any], bytes] = value.serializer(f"{topic}-vh", False)

    def of_update(self, key: Any, new: Any, *, is_latest: bool) -> tuple[Any, bytes]:
        """Return the row of an update as it will be read from now on, and its hash."""
        latest, _, latest_bytes, lags, _ = self._getter
        row = latest(key) if is_latest and not lags else None
        if row is None:
            return new, hash_128(self._serialize(new))
        value = row[0]
        data = None if latest_bytes is None else latest_bytes(key)
        return value, hash_128(self._serialize(value) if data is None else data)

    def is_current(self, key: Any, value: Any, row_hash: bytes | None) -> bool:
        """Whether a response is for the current row with this ``value``; None: no row."""
        if value is None or row_hash is None:
            return value is None and row_hash is None
        latest_bytes = self._getter.latest_bytes
        data = None if latest_bytes is None else latest_bytes(key)
        if data is not None and hash_128(data) == row_hash:
            return True
        encoded = self._serialize(value)
        return encoded != data and hash_128(encoded) == row_hash
