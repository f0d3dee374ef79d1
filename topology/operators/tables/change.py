"""The bytes of a table's change on its way through a repartition topic (KIP-904).

::

    new alone        new | 01
    old alone        old | 00
    both             varint(len(new)) | new | old | 02

The varint is zigzag encoded, as everywhere in Kafka. A change is the pair ``(new, old)``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from logstate.contracts.errors import SerdeError

Change: TypeAlias = "tuple[Any, Any]"


def change_serializer(serialize: Callable[[Any], bytes]) -> Callable[[Change], bytes]:
    """Return an encoder of changes around the encoder of their values."""

    def serialize_change(change: Change) -> bytes:
        new, old = change
        if old is None:
            if new is None:
                raise SerdeError("A change without new and old value cannot be written.")
            return serialize(new) + b"\x01"
        if new is None:
            return serialize(old) + b"\x00"
        new_bytes = serialize(new)
        return b"".join((_varint(len(new_bytes)), new_bytes, serialize(old), b"\x02"))

    return serialize_change


def change_deserializer(deserialize: Callable[[bytes], Any]) -> Callable[[bytes], Change]:
    """Return a decoder of changes around the decoder of their values."""

    def deserialize_change(data: bytes) -> Change:
        flag = data[-1] if data else -1
        if flag == 1:
            return deserialize(data[:-1]), None
        if flag == 0:
            return None, deserialize(data[:-1])
        if flag != 2:
            raise SerdeError(f"Not a change of a table: the last byte is {flag}, expected 0..2.")
        length, start = _read_varint(data)
        return deserialize(data[start : start + length]), deserialize(data[start + length : -1])

    return deserialize_change


def _varint(number: int) -> bytes:
    rest = number << 1
    encoded = bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


def _read_varint(data: bytes) -> tuple[int, int]:
    number = shift = position = 0
    while True:
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number >> 1, position
        shift += 7
