"""Serdes of joins: topics and stores of foreign-key joins, and the store of unmatched rows.

An unmatched row of a left or outer stream join is stored as one byte for the side (1 left,
0 right), then the value as that side's serde writes it.

A foreign-key join sends subscriptions and responses through its two topics, and keeps the former
in a store. Kafka Streams' formats, all integers big-endian; `hash` is the 16-byte hash of the left
row, absent if that row is deleted (the first byte then has its top bit set)::

    subscription      version (1) | instruction | hash? | left key | 4 bytes partition of the left
                      (version 0, written before Kafka 3.4, ends with the key)
    response          version (0) | hash? | right value?
    subscription key  4 bytes length, foreign key | left key

A right value without bytes (an empty string) looks like a missing one in a response: it is read as
None. This is a property of the format, and so of Kafka Streams too.

The keys inside are serialized for separate topics, named after the registration topic with the
suffixes ``-fk`` and ``-pk``, which only matters to schema registries. So all serdes here must be
bound to the resolved registration topic (`CombinedKeySerde.registration_topic`), that of the
response to the response topic.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from enum import IntEnum
from typing import Any, NamedTuple

from logstate.contracts.errors import SerdeError
from logstate.contracts.serde import Deserializer, Serde, Serializer

_INT = struct.Struct(">i")
_NO_HASH = 0x80
_HASH_BYTES = 16
_VERSION_BITS = 0x7F
_SUBSCRIPTION_VERSION = 1
_RESPONSE_VERSION = 0


class Instruction(IntEnum):
    """What the right side does with a subscription."""

    UNSUBSCRIBE = 0
    #: respond with "no row", so that the result is deleted
    UNSUBSCRIBE_AND_ANSWER = 1
    SUBSCRIBE_AND_ANSWER = 2
    #: send no response if there is no right row
    SUBSCRIBE_AND_ANSWER_IF_FOUND = 3


class Subscription(NamedTuple):
    """The interest of a left row in the right row of its foreign key."""

    hash: bytes | None
    instruction: Instruction
    primary_key: Any
    primary_partition: int | None


class SubscriptionResponse(NamedTuple):
    """The right row for a left row; ``primary_partition`` places it and is not serialized."""

    hash: bytes | None
    value: Any
    primary_partition: int | None = None


class SubscriptionSerde(Serde[Subscription]):
    """A serde for subscriptions of left rows with keys of ``primary_key``."""

    def __init__(self, primary_key: Serde[Any]) -> None:
        self.primary_key = primary_key
        self.immutable = primary_key.immutable

    def serializer(self, topic: str, is_key: bool) -> Serializer[Subscription]:
        serialize_key = self.primary_key.serializer(f"{topic}-pk", True)

        def serialize(subscription: Subscription) -> bytes:
            row_hash, instruction, primary_key, partition = subscription
            key = serialize_key(primary_key)
            if partition is None:
                return bytes((_head(0, row_hash), instruction)) + (row_hash or b"") + key
            head = bytes((_head(_SUBSCRIPTION_VERSION, row_hash), instruction))
            return b"".join((head, row_hash or b"", key, _INT.pack(partition)))

        return serialize

    def deserializer(self, topic: str, is_key: bool) -> Deserializer[Subscription]:
        deserialize_key = self.primary_key.deserializer(f"{topic}-pk", True)

        def deserialize(data: bytes) -> Subscription:
            version = _checked_version(data, _SUBSCRIPTION_VERSION, "subscription")
            instruction = Instruction(data[1])
            row_hash, start = _hash_at(data, 2)
            if version == 0:
                return Subscription(row_hash, instruction, deserialize_key(data[start:]), None)
            partition = _INT.unpack_from(data, len(data) - 4)[0]
            return Subscription(row_hash, instruction, deserialize_key(data[start:-4]), partition)

        return deserialize

    def describe(self) -> dict[str, Any]:
        return {
            "format": "subscription",
            "schema": None,
            "primary_key": self.primary_key.describe(),
        }


class SubscriptionResponseSerde(Serde[SubscriptionResponse]):
    """A serde for responses with right values of ``value``."""

    def __init__(self, value: Serde[Any]) -> None:
        self.value = value
        self.immutable = value.immutable

    def serializer(self, topic: str, is_key: bool) -> Serializer[SubscriptionResponse]:
        serialize_value = self.value.serializer(topic, False)

        def serialize(response: SubscriptionResponse) -> bytes:
            row_hash, value, _ = response
            head = bytes((_head(_RESPONSE_VERSION, row_hash),)) + (row_hash or b"")
            return head if value is None else head + serialize_value(value)

        return serialize

    def deserializer(self, topic: str, is_key: bool) -> Deserializer[SubscriptionResponse]:
        deserialize_value = self.value.deserializer(topic, False)

        def deserialize(data: bytes) -> SubscriptionResponse:
            _checked_version(data, _RESPONSE_VERSION, "subscription response")
            row_hash, start = _hash_at(data, 1)
            value = deserialize_value(data[start:]) if len(data) > start else None
            return SubscriptionResponse(row_hash, value)

        return deserialize

    def describe(self) -> dict[str, Any]:
        return {"format": "subscription_response", "schema": None, "value": self.value.describe()}


class CombinedKeySerde(Serde[tuple[Any, Any]]):
    """A serde for ``(foreign key, left key)``, in the order of the subscription store."""

    def __init__(
        self, foreign_key: Serde[Any], primary_key: Serde[Any], *, registration_topic: str
    ) -> None:
        self.foreign_key = foreign_key
        self.primary_key = primary_key
        self.registration_topic = registration_topic
        self.immutable = foreign_key.immutable and primary_key.immutable

    def serializer(self, topic: str, is_key: bool) -> Serializer[tuple[Any, Any]]:
        prefix = self.prefix_serializer(topic)
        serialize_primary = self.primary_key.serializer(f"{topic}-pk", True)

        def serialize(key: tuple[Any, Any]) -> bytes:
            return prefix(key[0]) + serialize_primary(key[1])

        return serialize

    def prefix_serializer(self, topic: str) -> Callable[[Any], bytes]:
        """Return a function that encodes a foreign key as the prefix of its subscriptions' keys."""
        serialize_foreign = self.foreign_key.serializer(f"{topic}-fk", True)

        def serialize(foreign_key: Any) -> bytes:
            data = serialize_foreign(foreign_key)
            return _INT.pack(len(data)) + data

        return serialize

    def deserializer(self, topic: str, is_key: bool) -> Deserializer[tuple[Any, Any]]:
        deserialize_foreign = self.foreign_key.deserializer(f"{topic}-fk", True)
        deserialize_primary = self.primary_key.deserializer(f"{topic}-pk", True)

        def deserialize(data: bytes) -> tuple[Any, Any]:
            end = _INT.size + _INT.unpack_from(data)[0]
            return deserialize_foreign(data[_INT.size : end]), deserialize_primary(data[end:])

        return deserialize

    def describe(self) -> dict[str, Any]:
        return {
            "format": "combined_key",
            "schema": None,
            "foreign_key": self.foreign_key.describe(),
            "primary_key": self.primary_key.describe(),
        }


class SidedValue(NamedTuple):
    """A value and the side of the join that it came from."""

    is_left: bool
    value: Any


class SideSerde(Serde[SidedValue]):
    """One serde for the values of both sides."""

    def __init__(self, left: Serde[Any], right: Serde[Any]) -> None:
        self.left = left
        self.right = right
        self.immutable = left.immutable and right.immutable

    def serializer(self, topic: str, is_key: bool) -> Serializer[SidedValue]:
        left = self.left.serializer(topic, is_key)
        right = self.right.serializer(topic, is_key)

        def serialize(sided: SidedValue) -> bytes:
            is_left, value = sided
            return b"\x01" + left(value) if is_left else b"\x00" + right(value)

        return serialize

    def deserializer(self, topic: str, is_key: bool) -> Deserializer[SidedValue]:
        left = self.left.deserializer(topic, is_key)
        right = self.right.deserializer(topic, is_key)

        def deserialize(data: bytes) -> SidedValue:
            is_left = data[0] == 1
            return SidedValue(is_left, left(data[1:]) if is_left else right(data[1:]))

        return deserialize

    def describe(self) -> dict[str, Any]:
        return {
            "format": "sided",
            "schema": None,
            "left": self.left.describe(),
            "right": self.right.describe(),
        }


def _head(version: int, row_hash: bytes | None) -> int:
    return version | _NO_HASH if row_hash is None else version


def _hash_at(data: bytes, start: int) -> tuple[bytes | None, int]:
    """Return the hash, if there is one, and the position of the rest."""
    if data[0] & _NO_HASH:
        return None, start
    return data[start : start + _HASH_BYTES], start + _HASH_BYTES


def _checked_version(data: bytes, newest: int, what: str) -> int:
    version = data[0] & _VERSION_BITS
    if version > newest:
        raise SerdeError(
            f"a {what} has version {version}; versions up to {newest} can be read. A newer"
            " application instance probably wrote it: finish the upgrade of all instances"
        )
    return version
