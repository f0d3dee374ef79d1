"""Keys of the rows of a top-n: 4 bytes length, group | score with all bits inverted | value |
4 bytes length of the score.

Scores are written so that their bytes have the order of their values, so the rows of a group are
in the order of falling scores, and for one score in the order of the values' bytes.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

from logstate.contracts.serde import Deserializer, Serde, Serializer

_LENGTH = struct.Struct(">i")
_INVERTED = bytes(255 - byte for byte in range(256))


class Ranked(NamedTuple):
    """A value in the ranking of its group."""

    score: Any
    value: Any
    #: the bytes of a value that was read, which an earlier version of its type may have written
    data: bytes | None = None


class RankSerde(Serde[Ranked]):
    """The key of a ranked value, behind its group.

    >>> from logstate import serdes
    >>> write = RankSerde(serdes.ordered(int), serdes.string).serializer("t", True)
    >>> ranked = [Ranked(1, "b"), Ranked(2, "a"), Ranked(1, "a"), Ranked(-7, "c")]
    >>> [one[:2] for one in sorted(ranked, key=write)]
    [(2, 'a'), (1, 'a'), (1, 'b'), (-7, 'c')]
    """

    #: keys with and without ``data`` may have the same bytes, so rows are found by bytes only
    immutable = False

    def __init__(self, score: Serde[Any], value: Serde[Any]) -> None:
        self.score, self.value = score, value

    def serializer(self, topic: str, is_key: bool) -> Serializer[Ranked]:
        write_score = self.score.serializer(topic, is_key)
        write_value = self.value.serializer(topic, False)
        pack = _LENGTH.pack

        def serialize(ranked: Ranked) -> bytes:
            score, data = write_score(ranked.score), ranked.data
            if data is None:
                data = write_value(ranked.value)
            return score.translate(_INVERTED) + data + pack(len(score))

        return serialize

    def deserializer(self, topic: str, is_key: bool) -> Deserializer[Ranked]:
        read_score = self.score.deserializer(topic, is_key)
        read_value = self.value.deserializer(topic, False)
        size = _LENGTH.size

        def deserialize(data: bytes) -> Ranked:
            end = _LENGTH.unpack_from(data, len(data) - size)[0]
            value = data[end:-size]
            return Ranked(read_score(data[:end].translate(_INVERTED)), read_value(value), value)

        return deserialize

    def describe(self) -> dict[str, Any]:
        return {
            "format": "rank",
            "schema": None,
            "score": self.score.describe(),
            "value": self.value.describe(),
        }


def group_prefix(key: bytes) -> bytes:
    """Return the bytes with which the rows of a group begin.

    >>> group_prefix(b"ada").hex()
    '00000003616461'
    """
    return _LENGTH.pack(len(key)) + key
