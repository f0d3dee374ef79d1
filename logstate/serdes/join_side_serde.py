"""Values of the store in which the unmatched rows of a left or outer stream join wait.

One byte for the side (1 left, 0 right), then the value as that side's serde writes it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from logstate.contracts.serde import Deserializer, Serde, Serializer


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
