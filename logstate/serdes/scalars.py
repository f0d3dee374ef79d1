"""Serdes of scalars, with the bytes of the Java serializers of the same name.

So JVM programs can read them: ``int64`` is Java's Long, ``int32`` its Integer, ``int16`` its Short,
``float64`` its Double and ``float32`` its Float (all big-endian), ``string`` is UTF-8, ``boolean``
is one byte, ``uuid`` is the text of 36 characters, ``void`` is null. ``uuid_bytes``, which Java's
serializers lack, is 16 bytes.

Speed, on one core of a small machine: ``string`` 25 ns each way, ``int64`` 35 ns to encode and
70 ns to decode.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping
from numbers import Integral, Real
from typing import Any, TypeVar
from uuid import UUID

from logstate.contracts.error_text import type_name
from logstate.contracts.errors import SerdeError
from logstate.contracts.formats import SCALARS
from logstate.contracts.serde import Deserializer, Serde, Serializer

T = TypeVar("T")
_UUID_CHARACTERS, _UUID_BYTES = 36, 16


class ScalarSerde(Serde[T]):
    """A serde whose callables do not depend on the topic."""

    immutable = True

    def __init__(self, name: str, serialize: Serializer[T], deserialize: Deserializer[T]) -> None:
        self.name = name
        self._serialize = serialize
        self._deserialize = deserialize

    def serializer(self, topic: str, is_key: bool) -> Serializer[T]:
        return self._serialize

    def deserializer(self, topic: str, is_key: bool) -> Deserializer[T]:
        return self._deserialize

    def equality_key(self) -> Any:
        return self.name, self._serialize, self._deserialize

    def describe(self) -> dict[str, Any]:
        return {"format": self.name, "schema": None}


def _number(name: str) -> tuple[Serializer[Any], Deserializer[Any]]:
    codec = struct.Struct(SCALARS[name].layout)
    pack, unpack = codec.pack, codec.unpack
    exact, is_same = SCALARS[name].type_, _IS_NUMBER[SCALARS[name].type_]
    bits = 8 * codec.size

    def serialize(value: Any) -> bytes:
        if type(value) is not exact and not is_same(value):
            raise SerdeError(
                f"The {name} serde takes {exact.__name__}, found {type_name(value)}: it would"
                f" not be read back unchanged. Return {exact.__name__}(...), or declare the type"
                " that it really has"
            )
        try:
            return pack(value)
        except (struct.error, OverflowError):
            wider = "int (64 bits), " if bits < 64 else ""
            raise SerdeError(
                f"The {name} serde takes numbers of {bits} bits, and the value needs more. Declare"
                f" {wider}str or json, or keep the number smaller"
            ) from None

    def deserialize(data: bytes) -> Any:
        return unpack(data)[0]

    return serialize, deserialize


def _float32_bytes(value: Any) -> bytes:
    """Encode a float of 32 bits; refuse one that it does not hold exactly."""
    data = _write_single(value)
    if _SINGLE.unpack(data)[0] == value or value != value:  # noqa: PLR0124  NaN
        return data
    raise SerdeError(
        f"The float32 serde takes numbers that 32 bits hold exactly, found {value!r}: it would be"
        " read back as another number. Round it first: struct.unpack('f', struct.pack('f', x))[0],"
        " or declare float (64 bits)"
    )


def _is_whole(value: Any) -> bool:
    """Accept whole numbers of other libraries, which are read back equal; True would become 1."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def _is_real(value: Any) -> bool:
    """Accept a float of another library, or a whole number that a float holds exactly."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    try:
        return float(value) == value or math.isnan(value)
    except OverflowError:
        return False


_IS_NUMBER: Mapping[type[Any], Callable[[Any], bool]] = {int: _is_whole, float: _is_real}


def _serialize_boolean(value: bool) -> bytes:
    if value is True:
        return b"\x01"
    if value is False:
        return b"\x00"
    raise SerdeError(
        f"The boolean serde takes True or False, found {type_name(value)}. Return bool(...), or"
        " declare the type that it really has"
    )


def _deserialize_boolean(data: bytes) -> bool:
    if data == b"\x01":
        return True
    if data == b"\x00":
        return False
    raise SerdeError(f"A boolean is the byte 0 or the byte 1, found {len(data)} other byte(s).")


_SINGLE = struct.Struct(SCALARS["float32"].layout)
_write_single, _read_single = _number("float32")


def _identifier(name: str, encode: Callable[[UUID], bytes]) -> Serializer[UUID]:
    def serialize(value: UUID) -> bytes:
        if not isinstance(value, UUID):
            raise SerdeError(
                f"The {name} serde takes UUID, found {type_name(value)}. Return uuid.UUID(...), or"
                " declare the type that it really has"
            )
        return encode(value)

    return serialize


def _read_identifier(data: bytes) -> UUID:
    if len(data) != _UUID_CHARACTERS:
        raise SerdeError(f"A uuid is a text of 36 characters, found {len(data)} byte(s).")
    return UUID(data.decode())


def _read_identifier_bytes(data: bytes) -> UUID:
    if len(data) != _UUID_BYTES:
        raise SerdeError(f"A uuid_bytes is 16 bytes, found {len(data)}.")
    return UUID(bytes=data)


string: Serde[str] = ScalarSerde("string", str.encode, bytes.decode)
#: Like Java's String: invalid UTF-8 is read as U+FFFD, and a lone surrogate is written as ``?``.
#: What was replaced is lost, and two different keys may become equal.
string_replacing: Serde[str] = ScalarSerde(
    "string", lambda text: text.encode(errors="replace"), lambda data: data.decode(errors="replace")
)
int64: Serde[int] = ScalarSerde("int64", *_number("int64"))
int32: Serde[int] = ScalarSerde("int32", *_number("int32"))
#: like Java's Short
int16: Serde[int] = ScalarSerde("int16", *_number("int16"))
float64: Serde[float] = ScalarSerde("float64", *_number("float64"))
#: Like Java's Float. A number that 32 bits do not hold exactly is refused: round it first.
float32: Serde[float] = ScalarSerde("float32", _float32_bytes, _read_single)
# bytes.__bytes__ rather than bytes: bytes(3) would be three zero bytes instead of an error.
bytes_: Serde[bytes] = ScalarSerde("bytes", bytes.__bytes__, bytes.__bytes__)
boolean: Serde[bool] = ScalarSerde("boolean", _serialize_boolean, _deserialize_boolean)
#: like Java's UUID: the text of 36 characters, in lower case
uuid: Serde[UUID] = ScalarSerde(
    "uuid", _identifier("uuid", lambda value: str(value).encode()), _read_identifier
)
#: 16 bytes, in the order of the text
uuid_bytes: Serde[UUID] = ScalarSerde(
    "uuid_bytes", _identifier("uuid_bytes", lambda value: value.bytes), _read_identifier_bytes
)


def _refuse_value(value: object) -> bytes:
    raise SerdeError(
        f"The void serde takes only None, found {type_name(value)}. Return None, or declare the"
        " type that it really has"
    )


def _refuse_data(data: bytes) -> None:
    raise SerdeError(f"A void is null, found {len(data)} byte(s): the topic has another serde.")


#: like Java's Void: only null, for topics without keys or without values
void: Serde[None] = ScalarSerde("void", _refuse_value, _refuse_data)

#: by name of the format
SCALAR_SERDES: Mapping[str, Serde[Any]] = {
    one.describe()["format"]: one
    for one in (
        *(string, int64, int32, int16, float64, float32),
        *(bytes_, boolean, uuid, uuid_bytes),
    )
}
