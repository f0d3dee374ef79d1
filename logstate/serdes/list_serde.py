"""Lists in the bytes of Kafka's ``ListSerializer``, so that JVM programs can read them.

A list of numbers or UUIDs has elements of one size: the byte 0, the number of nulls, their indexes,
the number of elements, the elements without the nulls. Every other list has the byte 1, the number
of elements, and each with its length before it; a null has the length -1. All numbers are int32,
big-endian (Kafka's ``ListSerializer``, KIP-466).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar

from logstate.contracts.error_text import type_name
from logstate.contracts.errors import SerdeError
from logstate.contracts.formats import LIST
from logstate.contracts.serde import Deserializer, Serde, Serializer

T = TypeVar("T")

#: sizes of the elements that Kafka writes without a length
_SIZES: Final[Mapping[str, int]] = {
    "int16": 2,
    "int32": 4,
    "int64": 8,
    "float32": 4,
    "float64": 8,
    "uuid": 36,
}
_INT = struct.Struct(">i")
_FIXED, _VARIABLE, _NULL = 0, 1, -1


class ListSerde(Serde[list[T]], Generic[T]):
    """The serde of a list whose elements another serde writes; see ``logstate.serdes.list_of``."""

    def __init__(self, inner: Serde[T]) -> None:
        self.inner = inner
        self._size = _size_of(inner.describe())

    def serializer(self, topic: str, is_key: bool) -> Serializer[list[T]]:
        return list_encoder(self.inner.describe(), self.inner.serializer(topic, is_key))

    def deserializer(self, topic: str, is_key: bool) -> Deserializer[list[T]]:
        read, size = self.inner.deserializer(topic, is_key), self._size

        def deserialize(data: bytes) -> list[Any]:
            return [None if one is None else read(one) for one in _elements(data, size)]

        return deserialize

    def equality_key(self) -> Any:
        inner = self.inner.equality_key()
        return None if inner is None else (LIST, inner)

    def describe(self) -> dict[str, Any]:
        return {"format": LIST, "schema": None, "inner": self.inner.describe()}


def list_encoder(
    inner: Mapping[str, Any], write: Callable[[Any], bytes]
) -> Callable[[Sequence[Any]], bytes]:
    """Return the function that encodes lists; ``inner`` describes what ``write`` writes."""
    encode = _fixed_writer(write) if _size_of(inner) is not None else _variable_writer(write)

    def serialize(value: Sequence[Any]) -> bytes:
        if not isinstance(value, list | tuple):
            raise SerdeError(
                f"The serde of lists takes a list, found {type_name(value)}. Return list(...), or"
                " declare the type that it really has"
            )
        return encode(value)

    return serialize


def _fixed_writer(write: Serializer[Any]) -> Callable[[Sequence[Any]], bytes]:
    def encode(values: Sequence[Any]) -> bytes:
        nulls = [index for index, one in enumerate(values) if one is None]
        head = struct.pack(f">b{len(nulls) + 2}i", _FIXED, len(nulls), *nulls, len(values))
        return head + b"".join(write(one) for one in values if one is not None)

    return encode


def _variable_writer(write: Serializer[Any]) -> Callable[[Sequence[Any]], bytes]:
    null = _INT.pack(_NULL)

    def encode(values: Sequence[Any]) -> bytes:
        parts = [struct.pack(">bi", _VARIABLE, len(values))]
        for one in values:
            if one is None:
                parts.append(null)
            else:
                data = write(one)
                parts += (_INT.pack(len(data)), data)
        return b"".join(parts)

    return encode


def elements_of(data: bytes, inner: Mapping[str, Any]) -> list[bytes | None]:
    """Return the bytes of the elements; ``inner`` describes their serde. Raises SerdeError."""
    return _elements(data, _size_of(inner))


def _size_of(inner: Mapping[str, Any]) -> int | None:
    return _SIZES.get(str(inner.get("format")))


def _elements(data: bytes, size: int | None) -> list[bytes | None]:
    kind, wanted = data[0] if data else None, _VARIABLE if size is None else _FIXED
    if kind != wanted:
        raise _damaged(data, f"it begins with the byte {kind}, not with {wanted}")
    try:
        return _of_lengths(data) if size is None else _of_one_size(data, size)
    except struct.error:
        raise _damaged(data, "it ends too early") from None


def _of_one_size(data: bytes, size: int) -> list[bytes | None]:
    (count,) = _INT.unpack_from(data, 1)
    if not 0 <= count <= len(data) // _INT.size:
        raise _damaged(data, f"it has {count} nulls")
    nulls = set(struct.unpack_from(f">{count}i", data, 5))
    at = 5 + _INT.size * count
    (total,) = _INT.unpack_from(data, at)
    at += _INT.size
    if total < count or at + size * (total - count) != len(data):
        raise _damaged(data, f"it does not have the size of {total} elements")
    if len(nulls) != count or not all(0 <= index < total for index in nulls):
        raise _damaged(data, f"its nulls are at {sorted(nulls)}, and it has {total} elements")
    parts = iter([data[start : start + size] for start in range(at, len(data), size)])
    return [None if index in nulls else next(parts) for index in range(total)]


def _of_lengths(data: bytes) -> list[bytes | None]:
    (total,) = _INT.unpack_from(data, 1)
    if not 0 <= total <= len(data) // _INT.size:
        raise _damaged(data, f"it has {total} elements")
    found: list[bytes | None] = []
    at = 5
    for _ in range(total):
        (size,) = _INT.unpack_from(data, at)
        at += _INT.size
        if size < _NULL or at + size > len(data):
            raise _damaged(data, f"an element has {size} bytes")
        found.append(None if size == _NULL else data[at : at + size])
        at += max(size, 0)
    if at != len(data):
        raise _damaged(data, f"{len(data) - at} bytes follow the last element")
    return found


def _damaged(data: bytes, why: str) -> SerdeError:
    return SerdeError(
        f"{len(data)} byte(s) are not a list in Kafka's format: {why}. Is the topic written with"
        " another serde?"
    )
