"""Keys of a store that distinguishes records of one key by an id: 4 bytes length, key | id.

The key is encoded as elsewhere, so that code that moves rows finds its bytes, which determine the
partition. The id is encoded for a separate topic name with the suffix ``-id``, which only matters
to schema registries.
"""

from __future__ import annotations

import struct
from typing import Any

from logstate.contracts.formats import KEY_AND_ID
from logstate.contracts.serde import Deserializer, Serde, Serializer

_LENGTH = struct.Struct(">i")


class KeyAndIdSerde(Serde[tuple[Any, Any]]):
    """``(key, id)``.

    >>> from logstate import serdes
    >>> KeyAndIdSerde(serdes.string, serdes.string).serializer("t", True)(("ada", "7")).hex()
    '0000000361646137'
    """

    def __init__(self, key: Serde[Any], id_: Serde[Any]) -> None:
        self.key = key
        self.id = id_
        self.immutable = key.immutable and id_.immutable

    def serializer(self, topic: str, is_key: bool) -> Serializer[tuple[Any, Any]]:
        write_key = self.key.serializer(topic, is_key)
        write_id = self.id.serializer(f"{topic}-id", is_key)
        pack = _LENGTH.pack

        def serialize(pair: tuple[Any, Any]) -> bytes:
            key = write_key(pair[0])
            return pack(len(key)) + key + write_id(pair[1])

        return serialize

    def deserializer(self, topic: str, is_key: bool) -> Deserializer[tuple[Any, Any]]:
        read_key = self.key.deserializer(topic, is_key)
        read_id = self.id.deserializer(f"{topic}-id", is_key)
        begin = _LENGTH.size

        def deserialize(data: bytes) -> tuple[Any, Any]:
            end = begin + _LENGTH.unpack_from(data)[0]
            return read_key(data[begin:end]), read_id(data[end:])

        return deserialize

    def describe(self) -> dict[str, Any]:
        return {
            "format": KEY_AND_ID,
            "schema": None,
            "key": self.key.describe(),
            "id": self.id.describe(),
        }
