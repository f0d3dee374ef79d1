"""Keys whose bytes have the order of their values: numbers, texts, times, and tuples of them.

A store is ordered by the bytes of its keys, so ``range`` and ``prefix_scan`` over such keys return
rows by value. The bytes are for this library only; no Java serializer writes them.

=============  ======================================================================
part           bytes
=============  ======================================================================
str, bytes     UTF-8, or the bytes; ``00`` is written as ``00 FF``; then ``00 01``
int            8 bytes, big-endian, with the sign bit inverted
float          8 bytes of IEEE 754; negative numbers inverted, others with the sign bit
bool           1 byte
datetime       microseconds since 1970 in UTC, as an int
date           days since the year 1, as an int
UUID           its 16 bytes
=============  ======================================================================

A tuple is the parts one after the other. No part's bytes begin with those of another value of that
part, so the first parts of a tuple are a prefix of its bytes.
"""

from __future__ import annotations

import struct
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final, NamedTuple, TypeVar
from uuid import UUID

import msgspec

from logstate.contracts.error_text import type_name
from logstate.contracts.errors import UNDECODABLE, SerdeError
from logstate.contracts.formats import ORDERED
from logstate.contracts.serde import Deserializer, Serde, Serializer

T = TypeVar("T")

_END: Final = b"\x00\x01"
_NUL: Final = b"\x00\xff"
_UNSIGNED = struct.Struct(">Q")
_SIGN: Final = 1 << 63
_ALL: Final = (1 << 64) - 1
_DOUBLE = struct.Struct(">d")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


class _KeyPart(NamedTuple):
    """How one part is written and read."""

    type_: type[Any]
    write: Callable[[Any], bytes]
    #: the value at a position, and the position after it
    read: Callable[[bytes, int], tuple[Any, int]]


def _refused(expected: str, found: Any) -> SerdeError:
    return SerdeError(f"an ordered key has {expected} here, found {type_name(found)}")


def _write_text(value: Any) -> bytes:
    if not isinstance(value, str):
        raise _refused("str", value)
    return value.encode().replace(b"\x00", _NUL) + _END


def _write_bytes(value: Any) -> bytes:
    if not isinstance(value, bytes):
        raise _refused("bytes", value)
    return value.replace(b"\x00", _NUL) + _END


def _read_bytes(data: bytes, at: int) -> tuple[bytes, int]:
    # Every 00 of the content is followed by FF, so the first 00 01 is the end.
    end = data.find(_END, at)
    if end < 0:
        raise SerdeError(f"an ordered key has no end of the text or bytes that begin at byte {at}")
    return data[at:end].replace(_NUL, b"\x00"), end + len(_END)


def _read_text(data: bytes, at: int) -> tuple[str, int]:
    found, end = _read_bytes(data, at)
    return found.decode(), end


def _write_int(value: Any) -> bytes:
    if isinstance(value, bool) or not isinstance(value, int):
        raise _refused("int", value)
    try:
        return _UNSIGNED.pack(value + _SIGN)
    except struct.error:
        raise SerdeError(
            "an ordered key takes numbers of 64 bits, and the value needs more"
        ) from None


def _read_int(data: bytes, at: int) -> tuple[int, int]:
    return _fixed(data, at) - _SIGN, at + 8


def _fixed(data: bytes, at: int) -> int:
    try:
        found: int = _UNSIGNED.unpack_from(data, at)[0]
    except struct.error:
        raise SerdeError(f"an ordered key ends within the 8 bytes from byte {at}") from None
    return found


def _write_float(value: Any) -> bytes:
    if isinstance(value, bool) or not isinstance(value, int | float) or float(value) != value:
        # NaN is unequal to itself, and has no place in an order.
        raise _refused("float other than NaN", value)
    bits = _UNSIGNED.unpack(_DOUBLE.pack(value))[0]
    return _UNSIGNED.pack(bits ^ _ALL if bits & _SIGN else bits | _SIGN)


def _read_float(data: bytes, at: int) -> tuple[float, int]:
    bits = _fixed(data, at)
    bits = bits ^ _SIGN if bits & _SIGN else bits ^ _ALL
    return _DOUBLE.unpack(_UNSIGNED.pack(bits))[0], at + 8


def _write_bool(value: Any) -> bytes:
    if not isinstance(value, bool):
        raise _refused("bool", value)
    return b"\x01" if value else b"\x00"


def _read_bool(data: bytes, at: int) -> tuple[bool, int]:
    found = data[at : at + 1]
    if found not in (b"\x00", b"\x01"):
        raise SerdeError(f"an ordered key has no 0 or 1 at byte {at}")
    return found == b"\x01", at + 1


def _write_time(value: Any) -> bytes:
    if not isinstance(value, datetime) or value.utcoffset() is None:
        raise _refused("datetime with a time zone", value)
    return _write_int((value - _EPOCH) // _MICROSECOND)


def _read_time(data: bytes, at: int) -> tuple[datetime, int]:
    number, end = _read_int(data, at)
    return _EPOCH + number * _MICROSECOND, end


def _write_date(value: Any) -> bytes:
    if not isinstance(value, date) or isinstance(value, datetime):
        raise _refused("date", value)
    return _write_int(value.toordinal())


def _read_date(data: bytes, at: int) -> tuple[date, int]:
    number, end = _read_int(data, at)
    return date.fromordinal(number), end


def _write_uuid(value: Any) -> bytes:
    if not isinstance(value, UUID):
        raise _refused("UUID", value)
    return value.bytes


def _read_uuid(data: bytes, at: int) -> tuple[UUID, int]:
    if len(data) < at + 16:
        raise SerdeError(f"an ordered key ends within the 16 bytes from byte {at}")
    return UUID(bytes=data[at : at + 16]), at + 16


#: by the name in descriptions
PARTS: Final[Mapping[str, _KeyPart]] = {
    "string": _KeyPart(str, _write_text, _read_text),
    "bytes": _KeyPart(bytes, _write_bytes, _read_bytes),
    "int64": _KeyPart(int, _write_int, _read_int),
    "float64": _KeyPart(float, _write_float, _read_float),
    "boolean": _KeyPart(bool, _write_bool, _read_bool),
    "timestamp": _KeyPart(datetime, _write_time, _read_time),
    "date": _KeyPart(date, _write_date, _read_date),
    "uuid": _KeyPart(UUID, _write_uuid, _read_uuid),
}
#: a value of each as data for JSON
_EXAMPLES: Final[Mapping[str, Any]] = {
    "string": "ada",
    "bytes": "AP8=",
    "int64": 42,
    "float64": 2.5,
    "boolean": True,
    "timestamp": "2026-01-31T12:00:00Z",
    "date": "2026-01-31",
    "uuid": "12345678-1234-5678-1234-567812345678",
}
_NAMES: Final = {part.type_: name for name, part in PARTS.items()}


class OrderedSerde(Serde[T]):
    """Made by :func:`ordered`; a part that has no order by bytes raises SerdeError."""

    immutable = True

    def __init__(
        self, names: Sequence[str], type_: type[Any] | None, fields: Sequence[str] = ()
    ) -> None:
        #: the type of the objects: that of the only part, a named tuple, or None for plain tuples
        self.type = type_
        self.names, self.fields = tuple(names), tuple(fields)
        self._parts = [PARTS[name] for name in names]
        #: whether keys are one part and no tuple
        self.is_single = len(names) == 1 and type_ is self._parts[0].type_

    def serializer(self, topic: str, is_key: bool) -> Serializer[T]:
        if self.is_single:
            return self._parts[0].write
        writes = [part.write for part in self._parts]

        def serialize(key: Any) -> bytes:
            if not isinstance(key, tuple) or len(key) != len(writes):
                raise SerdeError(
                    f"the keys are {self.shape()}, found {type_name(key)}"
                    f"{f' of {len(key)} parts' if isinstance(key, tuple) else ''}"
                )
            return b"".join([write(part) for write, part in zip(writes, key, strict=True)])

        return serialize

    def deserializer(self, topic: str, is_key: bool) -> Deserializer[T]:
        reads = [part.read for part in self._parts]
        make = None if self.is_single else self.of_parts

        def deserialize(data: bytes) -> Any:
            at, found = 0, []
            for read in reads:
                value, at = read(data, at)
                found.append(value)
            if at != len(data):
                raise SerdeError(f"an ordered key has {len(data) - at} bytes after its last part")
            return found[0] if make is None else make(found)

        return deserialize

    def prefix_bytes(self, prefix: Any) -> bytes:
        """Return the bytes that every key begins with whose first parts are these.

        Raises SerdeError unless ``prefix`` is a tuple of at most as many parts, each of its type.
        """
        if self.is_single or not isinstance(prefix, tuple) or len(prefix) > len(self._parts):
            raise SerdeError(f"a prefix is a tuple of the first parts of {self.shape()}")
        pairs = zip(self._parts, prefix, strict=False)
        return b"".join([part.write(value) for part, value in pairs])

    @property
    def types(self) -> tuple[type[Any], ...]:
        """The types of the parts."""
        return tuple(part.type_ for part in self._parts)

    def of_parts(self, parts: Iterable[Any]) -> Any:
        """Return a key of several parts: a plain or a named tuple."""
        return tuple(parts) if self.type is None else self.type(*parts)

    def shape(self) -> str:
        """Return the parts as they are declared: ``(str, int)``."""
        types = [part.type_.__name__ for part in self._parts]
        return types[0] if self.is_single else f"({', '.join(types)})"

    def of_data(self, data: Any) -> T:
        """Return the key that JSON data means: an array of the parts, times and UUIDs as text.

        Raises SerdeError.
        """
        types = self.types
        wanted: Any = types[0] if self.is_single else tuple[types]  # type: ignore[valid-type]
        try:
            found = msgspec.convert(data, wanted)
        except UNDECODABLE as error:
            raise SerdeError(f"the keys are {self.shape()}: {error}") from error
        return typing.cast("T", found if self.is_single else self.of_parts(found))

    def data_of_text(self, text: str) -> Any:
        """Return what :meth:`of_data` takes for a text that a user typed.

        A JSON array of the parts; a key of one part is typed without quotes. Raises SerdeError.
        """
        if self.is_single and self.names[0] not in ("int64", "float64", "boolean"):
            return text
        try:
            return msgspec.json.decode(text)
        except UNDECODABLE as error:
            example = msgspec.json.encode([_EXAMPLES[name] for name in self.names]).decode()
            raise SerdeError(
                f"the keys are {self.shape()}: give "
                + (f"{_EXAMPLES[self.names[0]]}" if self.is_single else f"JSON, such as {example}")
            ) from error

    def of_text(self, text: str) -> T:
        """Return the key that a user typed. Raises SerdeError."""
        return self.of_data(self.data_of_text(text))

    def describe(self) -> dict[str, Any]:
        described: dict[str, Any] = {"format": ORDERED, "schema": None, "parts": list(self.names)}
        if self.is_single:
            described["is_single"] = True
        if self.fields:
            described["fields"] = list(self.fields)
        return described

    def equality_key(self) -> Any:
        return self.names, self.type


def described_ordered(description: Mapping[str, Any]) -> OrderedSerde[Any]:
    """Return the serde that a description means, with plain tuples for named ones."""
    names = description["parts"]
    type_ = PARTS[names[0]].type_ if description.get("is_single") else None
    return OrderedSerde(names, type_)


def ordered_of(types: Sequence[Any]) -> OrderedSerde[Any]:
    """Return the serde of ``ordered(*types)``."""
    if len(types) == 1 and typing.get_origin(types[0]) is tuple:
        return OrderedSerde([_name_of(one) for one in typing.get_args(types[0])], None)
    if len(types) == 1 and hasattr(types[0], "_fields"):
        hints = typing.get_type_hints(types[0])
        fields: tuple[str, ...] = types[0]._fields
        return OrderedSerde([_name_of(hints.get(one)) for one in fields], types[0], fields)
    names = [_name_of(one) for one in types]
    if not names:
        raise SerdeError("ordered() takes the types of the parts, such as ordered(str, int)")
    return OrderedSerde(names, types[0] if len(names) == 1 else None)


def _name_of(type_: Any) -> str:
    name = _NAMES.get(type_) if isinstance(type_, type) else None
    if name is None:
        known = ", ".join(one.__name__ for one in _NAMES)
        raise SerdeError(
            f"ordered() got {type_!r}, whose values have no order by bytes. It takes {known}, a"
            " tuple type or a NamedTuple of these"
        )
    return name
