"""Faust's records and codecs as serdes: the bytes that a Faust agent reads and writes.

A ``faust.Record`` is JSON by default, with the name of its class next to its fields. Codecs that
use pickle are refused: anyone who can write to a topic could run code here.

Faust writes values that it cannot read back: a time as a string that stays a string when it is
read, a dict with numbers for keys, a record with its own codec where another is requested. A row
would then differ before and after its commit, so each written value is read again and compared
here, as with every serde of ours. The bytes are Faust's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

import faust
from faust.serializers import codecs
from faust.serializers.registry import Registry

from logstate.contracts.errors import SerdeError
from logstate.contracts.serde import Deserializer, Serde, Serializer
from logstate.serdes.json_schema import json_schema
from logstate.serdes.round_trip import difference

T = TypeVar("T")
R = TypeVar("R", bound=faust.Record)

#: the registry of an agent without an app
_REGISTRY = Registry(key_serializer="json", value_serializer="json")


class FaustSerde(Serde[T]):
    """Values of a Faust type through a Faust codec, such as ``json``, ``raw`` or ``yaml|binary``.

    Raises SerdeError for pickle and for codecs that Faust does not know. The callables raise
    SerdeError for objects of another class and for values that would not be read back unchanged,
    and Faust's errors for bytes that do not decode.
    """

    def __init__(self, type_: type[T] | None, serializer: str) -> None:
        self.type = type_
        self.name = serializer
        refuse_pickle(serializer)
        try:
            codecs.get_codec(serializer)
        except Exception as error:
            known = ", ".join(name for name in sorted(codecs.codecs) if "pickle" not in name)
            raise SerdeError(
                f"Faust knows no codec {serializer!r}. The names are {known}, joined by | where one"
                " follows the other; faust.serializers.codecs.register() adds one."
            ) from error

    def serializer(self, topic: str, is_key: bool) -> Serializer[T]:
        dumps, type_, name = _REGISTRY.dumps_value, self.type, self.name
        read = self.deserializer(topic, is_key)

        def serialize(value: T) -> bytes:
            if type_ is not None and not isinstance(value, type_):
                raise SerdeError(
                    f"Found {type(value).__name__} where the serde of {type_.__name__} takes "
                    f"{type_.__name__}. Return one from the function that made the value."
                )
            data = cast(bytes, dumps(cast(Any, type_), cast(Any, value), serializer=name))
            try:
                found = difference(value, read(data))
            except Exception as error:
                raise _changed_value_error(
                    self, f"reading it raises {type(error).__name__}"
                ) from error
            if found is not None:
                raise _changed_value_error(self, str(found))
            return data

        return serialize

    def deserializer(self, topic: str, is_key: bool) -> Deserializer[T]:
        loads, type_, name = _REGISTRY.loads_value, cast(Any, self.type), self.name

        def deserialize(data: bytes) -> T:
            return cast(T, loads(type_, data, serializer=name))

        return deserialize

    def describe(self) -> dict[str, Any]:
        schema = record_schema(self.type) if is_record(self.type) else None
        if self.name == "json":
            return {"format": "json", "schema": schema}
        return {"format": "faust", "codec": self.name, "schema": schema}

    def equality_key(self) -> Any:
        return self.type, self.name

    def __repr__(self) -> str:
        shown = "anything" if self.type is None else self.type.__name__
        return f"<serde faust {self.name} of {shown}>"


def _changed_value_error(serde: FaustSerde[Any], what: str) -> SerdeError:
    return SerdeError(
        f"The value would not be read back unchanged with {serde!r}: {what}. It is refused before"
        " it is written, because later this could not be detected. Faust reads a time, a Decimal, a"
        " UUID or an enum as JSON text, unless the class of the record says isodates=True,"
        " coerce=True or coercions=; convert other types that JSON does not have in the"
        " function that returns the value (str(...), list(...))"
    )


def record_of(model: type[R]) -> FaustSerde[R]:
    """The serde of a ``faust.Record``: with the codec that its class names, or JSON.

    >>> class Click(faust.Record, namespace="doc.Click"):
    ...     user: str
    ...     ms: int = 0
    >>> clicks = record_of(Click)
    >>> data = clicks.serializer("clicks", False)(Click(user="ada", ms=3))
    >>> clicks.deserializer("clicks", False)(data)
    <Click: user='ada', ms=3>
    """
    if not is_record(model):
        raise SerdeError(f"{model!r} is not a faust.Record. Give the class; for others use codec()")
    return FaustSerde(model, str(model._options.serializer or "json"))


def codec(name: str, type_: type[T] | None = None) -> FaustSerde[T]:
    """A Faust codec by its name; ``type_`` is what ``key_type=`` or ``value_type=`` is in Faust."""
    return FaustSerde(type_, name)


def is_record(type_: Any) -> bool:
    """Whether a type is a ``faust.Record``."""
    return isinstance(type_, type) and issubclass(type_, faust.Record)


def refuse_pickle(serializer: Any) -> None:
    """Raises SerdeError for a codec that would run code from the bytes."""
    if "pickle" in str(serializer) or codecs.uses_unsafe_pickle(serializer):
        raise SerdeError(
            f"The codec {serializer!r} unpickles: anyone who can write to the topic could run code"
            " in this process. Write the topic again with another codec, from Faust."
        )


def record_schema(model: Any) -> Mapping[str, Any]:
    """The JSON schema of a record's fields; of any shape where its type cannot say more."""
    properties: dict[str, Any] = {}
    for name, type_ in model._options.fields.items():
        properties[name] = _schema_of(type_)
        if name in model._options.defaults:
            default = model._options.defaults[name]
            if isinstance(default, str | int | float | bool | None):
                properties[name]["default"] = default
    required = [name for name in properties if name not in model._options.optionalset]
    return {
        "title": model.__name__,
        "type": "object",
        "properties": properties,
        "required": required,
    }


def _schema_of(type_: Any) -> dict[str, Any]:
    if is_record(type_):
        return dict(record_schema(type_))
    try:
        schema = json_schema(type_).schema
    except TypeError:
        return {}
    # Definitions would have to stand at the root: what needs them is JSON of any shape here.
    return {} if "$ref" in str(schema) else schema
