"""JSON, typed and untyped, through msgspec.

``json`` reads any JSON into dicts, lists and scalars. ``json_of(type)`` reads into a struct, a
dataclass, a TypedDict or any other type that msgspec supports, and refuses data that does not fit
the declared type. Unknown fields are ignored, so that writers may add some.

Serializing refuses values that would be read back as something else:

- NaN and the infinities, which JSON does not have (msgspec alone would write null);
- an object that is not an instance of the declared class, such as a dict that was not converted;
- values that the type would refuse when it is read, such as 2.5 in a field that is an ``int``.
  Python does not check the fields of an object, and a row that cannot be read again stays in its
  store even after the function is corrected;
- values that would be read as another value (`logstate.serdes.round_trip`): a text in a field of
  ``bytes``, which is read as base64; an object, a time or a number as a key if the type is plain
  JSON, which has arrays, dicts with text for keys, text, numbers, booleans and None.

For the last two, a struct of scalars is checked field by field (some 10 ns a field); everything
else is decoded again and compared with the given value.

Keys are encoded with dict entries and sets in sorted order, because equal keys must be equal bytes;
values keep their order. For the same reason a key is written as it would be written again after it
was read: 52 in a float field as 52.0, an object of a derived class without the fields that the
declared class does not have.
"""

from __future__ import annotations

import math
from typing import Any, TypeVar, overload

import msgspec

from logstate.contracts.error_text import no_utf8, text_of, type_name
from logstate.contracts.errors import SerdeError
from logstate.contracts.generated_code import make_function
from logstate.contracts.serde import Deserializer, Serde, Serializer
from logstate.serdes.immutability import is_immutable
from logstate.serdes.json_schema import described_type, parts_of
from logstate.serdes.plain_structs import readable_condition
from logstate.serdes.round_trip import (
    TypeDifference,
    are_equal,
    difference,
    is_compared_by_equality,
    unwritable,
)

T = TypeVar("T")


class JsonSerde(Serde[T]):
    """JSON that decodes into ``type_``; ``Any`` means dicts, lists and scalars.

    Raises SerdeError if msgspec cannot decode into the type. Fields that the type does not have
    are skipped: bytes in them that are not text are not detected, and do no harm.
    """

    @overload
    def __init__(self, type_: type[T]) -> None: ...
    @overload
    def __init__(self: JsonSerde[Any], type_: Any = ...) -> None: ...
    def __init__(self, type_: Any = Any) -> None:
        self.type = type_
        self.immutable = is_immutable(type_)
        try:
            self._decoder: msgspec.json.Decoder[T] = msgspec.json.Decoder(type_)
            parts = list(parts_of(msgspec.inspect.type_info(type_)))
            _refuse_unknown_classes(parts)
        except (TypeError, NameError) as error:
            raise SerdeError(
                f"{_name(type_)} cannot be read from JSON: {text_of(error)}."
                " Declare a msgspec.Struct, a "
                "dataclass, a TypedDict or a container of these, all fields annotated with types "
                "that can be imported, or use json for plain dicts."
            ) from error
        self._may_hold_nan = _may_hold_float(parts)
        self._is_compared_by_equality = is_compared_by_equality(parts)

    def serializer(self, topic: str, is_key: bool) -> Serializer[T]:
        encode = self.unchecked_serializer(is_key=is_key)
        condition = readable_condition(self.type)
        if condition is not None:
            with_care = self._reading_back(encode, is_key=is_key)
            return _looking_at_fields(encode, self.type, condition, with_care)
        return self._reading_back(encode, is_key=is_key)

    def unchecked_serializer(self, *, is_key: bool = False) -> Serializer[T]:
        """Return a serializer for values that need no check of the round trip."""
        return msgspec.json.Encoder(order="deterministic" if is_key else None).encode

    def _reading_back(self, encode: Serializer[Any], *, is_key: bool) -> Serializer[Any]:
        """Encode, then check that the bytes are read back as the same value."""
        decode, may_hold_nan = self._decoder.decode, self._may_hold_nan
        cls = self.type if _is_record_class(self.type) else None
        is_told = self._is_compared_by_equality
        declared = "json" if self.type is Any else f"json_of({_name(self.type)})"

        def serialize(value: Any) -> bytes:
            if cls is not None and type(value) is not cls and not isinstance(value, cls):
                raise not_of(cls, value)
            if is_key and value is None:
                raise SerdeError("A key is never None: the JSON null would be a separate row")
            try:
                data = encode(value)
            except (TypeError, UnicodeEncodeError) as error:
                raise not_json(declared, value, error) from None
            # Only null in the bytes can come from NaN, so most values cost one search only. By
            # find(): the operator `in` creates and drops an error first, ten times the search.
            if may_hold_nan and data.find(b"null") >= 0:
                _refuse_nan(value)
            try:
                read = decode(data)
            except Exception as error:  # noqa: BLE001  msgspec's, or what a __post_init__ raises
                raise not_readable(declared, error) from None
            if not is_told or not are_equal(read, value):
                found = difference(value, read)
                if found is not None:
                    raise changed_value_error(declared, found)
            return encode(read) if is_key else data

        return serialize

    def deserializer(self, topic: str, is_key: bool) -> Deserializer[T]:
        return self._decoder.decode

    def describe(self) -> dict[str, Any]:
        if self.type is Any:
            return {"format": "json", "schema": None}
        return described_type(self.type)

    def equality_key(self) -> Any:
        return self.type

    def __repr__(self) -> str:
        return "<serde json>" if self.type is Any else f"<serde json_of({_name(self.type)})>"


class JsonContainerSerde(JsonSerde[T]):
    """Plain JSON that writes objects only, or arrays only: the meaning of ``dict`` and ``list``.

    It reads any JSON, like plain JSON, because others may write to the topic, too.
    """

    def __init__(self, container: type[T]) -> None:
        super().__init__(Any)
        self._container = container

    def equality_key(self) -> Any:
        return self._container

    def serializer(self, topic: str, is_key: bool) -> Serializer[T]:
        encode = super().serializer(topic, is_key)
        declared, opening = self._container.__name__, b"{" if self._container is dict else b"["
        first = opening[0]

        def serialize(value: T) -> bytes:
            data = encode(value)
            if data[0] != first and not data.lstrip().startswith(opening):
                raise SerdeError(
                    f"Found {type(value).__name__} where the declared type is {declared}: it would"
                    f" be read back as something else. Return a {declared} from the function that"
                    " made the value, or declare serdes.json for any JSON."
                )
            return data

        return serialize


@overload
def json_of(type_: type[T]) -> JsonSerde[T]: ...
@overload
def json_of(type_: Any) -> JsonSerde[Any]: ...
def json_of(type_: Any) -> JsonSerde[Any]:
    """Return a serde for JSON that decodes into ``type_``.

    >>> import msgspec
    >>> class Click(msgspec.Struct, frozen=True):
    ...     page: str
    ...     at: int = 0
    >>> clicks = json_of(Click)
    >>> clicks.deserializer("clicks", False)(b'{"page":"home","campaign":"spring"}')
    Click(page='home', at=0)
    >>> clicks.serializer("clicks", False)(Click("cart", 3))
    b'{"page":"cart","at":3}'
    """
    return JsonSerde(type_)


_LOOKING_AT_FIELDS = """\
def bind(encode, cls, serialize_with_care):
    def serialize(value):
        if (
            type(value) is cls
            and {condition}
        ):
            try:
                return encode(value)
            except UnicodeEncodeError:  # a lone surrogate
                pass
        return serialize_with_care(value)
    return serialize
"""


def _looking_at_fields(
    encode: Serializer[Any], cls: type, condition: str, with_care: Serializer[Any]
) -> Serializer[Any]:
    """Check the fields of a struct of scalars, which costs a quarter of decoding it."""
    source = _LOOKING_AT_FIELDS.format(condition=condition.replace("\n", "\n            "))
    bind = make_function("bind", source, f"serializer of {cls.__qualname__}")
    serialize: Serializer[Any] = bind(encode, cls, with_care)
    return serialize


def not_of(cls: type, value: object) -> SerdeError:
    """Return the error for a value of another class than the declared one."""
    return SerdeError(
        f"Found {type_name(value)} where the serde json_of({cls.__name__}) takes "
        f"{cls.__name__}. Return {cls.__name__}(...) from the function that made the "
        "value, or declare the type it really returns."
    )


def not_json(serde: str, value: Any, error: Exception) -> SerdeError:
    """Return the error for a value that JSON cannot hold, such as an object of another library."""
    found = unwritable(value)
    if found is None:
        return SerdeError(f"The value cannot be written with {serde}: {text_of(error)}")
    where, part = found
    if type(part) is str:
        what = f"a text has {no_utf8(part)}"
    else:
        what = f"{type_name(part)} is not a type of JSON"
        plain = "tolist()" if getattr(part, "shape", None) else "item()"
        of_numpy = type(part).__module__ == "numpy"
        remedy = f"value.{plain}" if of_numpy else "int(...), str(...), dict(...)"
        what += f". Make it a plain one in the function that returns it ({remedy})"
        what += ", or declare a type that has it"
    return SerdeError(f"The value cannot be written with {serde}: at `{where}`, {what}")


def not_readable(serde: str, error: Exception) -> SerdeError:
    """Return the error for a value whose bytes its own serde would refuse to read."""
    return SerdeError(
        f"The value could not be read again with {serde}: {text_of(error)}."
        " It is refused before it is "
        "written, because every later read would fail. A field or item does not have its declared "
        "type: correct the function that made it (int(...), round(...)), or declare the type that "
        "it really has"
    )


def changed_value_error(serde: str, found: TypeDifference) -> SerdeError:
    """Return the error for a value whose bytes would be read as another one."""
    return SerdeError(
        f"The value would not be read back unchanged with {serde}: {found}. It is refused before"
        " it is written, because the change could not be detected later. Make the value of its"
        " declared type in the function that returns it (str.encode, list(...), isoformat()), or"
        " declare the type that it really has"
    )


def _refuse_nan(value: Any) -> None:
    if holds_nan(msgspec.to_builtins(value)):
        raise no_nan()


def no_nan() -> SerdeError:
    """Return the error for a value that JSON cannot express."""
    return SerdeError(
        "The value holds NaN or an infinity, which JSON cannot express: it would be read "
        "back as null. Use None for a missing number, or the avro or float64 serde."
    )


def holds_nan(value: Any) -> bool:
    """Check what ``to_builtins`` returned; runs for every value with a null, hence ``type()``."""
    kind = type(value)
    if kind is float:
        return not math.isfinite(value)
    if kind is dict:
        for key, item in value.items():
            kind = type(item)
            if kind is not str and kind is not int and holds_nan(item):
                return True
            if type(key) is float and not math.isfinite(key):
                return True
    elif kind is list or kind is tuple:
        return any(holds_nan(item) for item in value)
    return False


def _is_record_class(type_: Any) -> bool:
    """Return whether instances only come from calling the class, so that a dict is a mistake."""
    if not isinstance(type_, type):
        return False
    fields_of = ("__dataclass_fields__", "__attrs_attrs__")
    return issubclass(type_, msgspec.Struct) or any(hasattr(type_, name) for name in fields_of)


def _may_hold_float(parts: list[Any]) -> bool:
    """Return whether a float can be anywhere inside a type; True if that is not known."""
    floats = (msgspec.inspect.FloatType, msgspec.inspect.AnyType, msgspec.inspect.RawType)
    return any(isinstance(part, floats) for part in parts)


def _refuse_unknown_classes(parts: list[Any]) -> None:
    for part in parts:
        if isinstance(part, msgspec.inspect.CustomType):
            raise TypeError(f"{_name(part.cls)} is not a type that JSON can be converted into")


def _name(type_: Any) -> str:
    return type_.__name__ if isinstance(type_, type) else str(type_)


json: Serde[Any] = JsonSerde(Any)
json_object: Serde[Any] = JsonContainerSerde(dict)
json_array: Serde[Any] = JsonContainerSerde(list)
