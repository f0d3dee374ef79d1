"""Rows of records that wait to be sorted.

Keys: 8 bytes timestamp | 8 bytes number of arrival | 1 byte: 00 without a key, 01 with one | key.
So the order of the bytes is the order in which records are sent.

Values: 1 byte flags (1: has a value, 2: has a topic) | 4 bytes partition | 8 bytes offset |
2 bytes length of the topic | topic | value. Timestamp and headers are those of the row.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

from logstate.contracts.formats import WAITING_RECORD
from logstate.contracts.serde import Deserializer, Serde, Serializer

_HEAD = struct.Struct(">qq?")
_PLACE = struct.Struct(">BiqH")
_HAS_VALUE, _HAS_TOPIC = 1, 2


class WaitingKey(NamedTuple):
    """The key of a row: when a record is sent."""

    timestamp: int
    #: of its arrival in the task
    number: int
    key: Any


class WaitingRecord(NamedTuple):
    """The value of a record, and the place that it came from."""

    value: Any
    #: None: a schedule forwarded it
    topic: str | None
    partition: int
    offset: int


class WaitingKeySerde(Serde[WaitingKey]):
    """The bytes of keys."""

    def __init__(self, inner: Serde[Any]) -> None:
        self.inner = inner
        self.immutable = inner.immutable

    def serializer(self, topic: str, is_key: bool) -> Serializer[WaitingKey]:
        inner, pack = self.inner.serializer(topic, is_key), _HEAD.pack

        def serialize(row_key: WaitingKey) -> bytes:
            timestamp, number, key = row_key
            if key is None:
                return pack(timestamp, number, False)
            return pack(timestamp, number, True) + inner(key)

        return serialize

    def deserializer(self, topic: str, is_key: bool) -> Deserializer[WaitingKey]:
        inner, size = self.inner.deserializer(topic, is_key), _HEAD.size

        def deserialize(data: bytes) -> WaitingKey:
            timestamp, number, has_key = _HEAD.unpack_from(data)
            return WaitingKey(timestamp, number, inner(data[size:]) if has_key else None)

        return deserialize

    def describe(self) -> dict[str, Any]:
        return {"format": WAITING_RECORD, "schema": None, "inner": self.inner.describe()}


class WaitingRecordSerde(Serde[WaitingRecord]):
    """The bytes of values."""

    def __init__(self, inner: Serde[Any]) -> None:
        self.inner = inner
        self.immutable = inner.immutable

    def serializer(self, topic: str, is_key: bool) -> Serializer[WaitingRecord]:
        inner, pack = self.inner.serializer(topic, is_key), _PLACE.pack

        def serialize(row: WaitingRecord) -> bytes:
            value, source, partition, offset = row
            name = b"" if source is None else source.encode()
            has = (value is not None and _HAS_VALUE) | (source is not None and _HAS_TOPIC)
            head = pack(has, partition, offset, len(name)) + name
            return head if value is None else head + inner(value)

        return serialize

    def deserializer(self, topic: str, is_key: bool) -> Deserializer[WaitingRecord]:
        inner, size = self.inner.deserializer(topic, is_key), _PLACE.size

        def deserialize(data: bytes) -> WaitingRecord:
            has, partition, offset, length = _PLACE.unpack_from(data)
            end = size + length
            source = data[size:end].decode() if has & _HAS_TOPIC else None
            value = inner(data[end:]) if has & _HAS_VALUE else None
            return WaitingRecord(value, source, partition, offset)

        return deserialize

    def describe(self) -> dict[str, Any]:
        return {"format": WAITING_RECORD, "schema": None, "inner": self.inner.describe()}
