"""Pydantic models (version 2) as JSON: the model validates what is read and what is written.

Pydantic itself is not imported: a model has all methods that are needed. The names in the JSON are
those that the model reads (``serialization_alias`` must be one of them), without computed fields:
in values in the model's order, in keys sorted by name, because equal keys must be equal bytes.

As everywhere in JSON, serializing refuses NaN and the infinities if the model would write them as
null, objects of another class, and values that the model would not read again, or would read as
another value (a text in a field that is an int): fields can be set to anything unless
``validate_assignment`` is on, and ``model_construct`` checks nothing. Private attributes and fields
that the model excludes are not checked.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, TypeVar

import msgspec

from logstate.contracts.errors import SerdeError
from logstate.contracts.serde import Deserializer, Serde, Serializer
from logstate.serdes.json_schema import (
    ATTRIBUTES,
    MEANING,
    MEMBERS,
    OMITTED,
    meaning_apart,
    members_of,
    note_meaning,
)
from logstate.serdes.json_serde import (
    changed_value_error,
    holds_nan,
    no_nan,
    not_json,
    not_of,
    not_readable,
)
from logstate.serdes.round_trip import difference

M = TypeVar("M")


def is_pydantic_model(type_: Any) -> bool:
    """Return whether a type is a model of pydantic 2; its dataclasses are dataclasses."""
    return isinstance(type_, type) and hasattr(type_, "model_validate_json")


class PydanticSerde(Serde[M]):
    """JSON that ``model`` validates. Costs several times what a ``msgspec.Struct`` costs.

    Raises SerdeError for a model that would not read what it writes.
    """

    def __init__(self, model: type[M]) -> None:
        self.model: Any = model
        for name, alias in _unread_names(self.model):
            raise SerdeError(
                f"{self.model.__name__} writes its field {name!r} as {alias!r} and does not read"
                " that: rows would not come back. Give it one alias for both, or allow both names"
                " (AliasChoices, or populate_by_name in model_config)."
            )

    def serializer(self, topic: str, is_key: bool) -> Serializer[M]:
        model = self.model
        to_json = model.__pydantic_serializer__.to_json
        validate = model.__pydantic_validator__.validate_json
        in_order = msgspec.json.Encoder(order="deterministic").encode

        def serialize(value: Any) -> bytes:
            if type(value) is not model and not isinstance(value, model):
                raise not_of(model, value)
            # Without warnings: decoding refuses the values that do not fit, two lines below.
            try:
                data: bytes = to_json(value, by_alias=True, round_trip=True, warnings=False)
            except Exception as error:
                raise not_json(model.__name__, value, error) from error
            if data.find(b"null") >= 0 and holds_nan(value.model_dump(round_trip=True)):
                raise no_nan()
            try:
                read = validate(data)
            except ValueError as error:  # pydantic's text quotes the value: keep field and reason
                raise not_readable(model.__name__, _without_values(error)) from None
            found = difference(value, read)
            if found is not None:
                raise changed_value_error(model.__name__, found)
            if not is_key:
                return data
            # As it would be written again after reading: 52 in a float field becomes 52.0.
            data = to_json(read, by_alias=True, round_trip=True, warnings=False)
            return in_order(msgspec.json.decode(data))

        return serialize

    def deserializer(self, topic: str, is_key: bool) -> Deserializer[M]:
        validate: Deserializer[M] = self.model.__pydantic_validator__.validate_json
        return validate

    def describe(self) -> dict[str, Any]:
        try:
            schema = self.model.model_json_schema(
                mode="serialization", schema_generator=_meaning_generator()
            )
        except RuntimeError:  # pydantic's, for a field that only functions read and write
            return {"format": "json", "schema": None}
        for one in (schema, *schema.get("$defs", {}).values()):
            fields = one.get("properties", {})
            computed = {name for name, field in fields.items() if field.get("readOnly")}
            if computed:
                one["properties"] = {n: f for n, f in fields.items() if n not in computed}
                one["required"] = [n for n in one.get("required", ()) if n not in computed]
        schema, meaning = meaning_apart(schema)
        return {"format": "json", "schema": schema, MEANING: meaning}

    def equality_key(self) -> Any:
        return self.model

    def __repr__(self) -> str:
        return f"<serde json of {self.model.__name__}>"


@lru_cache(maxsize=1)
def _meaning_generator() -> Any:
    """Return pydantic's generator of JSON schemas, extended to record what the bytes mean."""
    from pydantic.json_schema import GenerateJsonSchema

    class WithMeaning(GenerateJsonSchema):
        def enum_schema(self, schema: Any) -> dict[str, Any]:
            made = super().enum_schema(schema)
            note_meaning(made, **{MEMBERS: members_of(schema["cls"])})
            return made

        def literal_schema(self, schema: Any) -> dict[str, Any]:
            made = super().literal_schema(schema)
            named = [one for one in schema["expected"] if isinstance(one, enum.Enum)]
            members = [
                pair
                for cls in dict.fromkeys(type(one) for one in named)
                for pair in members_of(cls)
                if cls.__members__[pair[1]] in named
            ]
            note_meaning(made, **{MEMBERS: members})
            return made

        def model_schema(self, schema: Any) -> dict[str, Any]:
            made = super().model_schema(schema)
            written = {
                name: field.serialization_alias or name
                for name, field in schema["cls"].model_fields.items()
            }
            omitted = [
                written[name]
                for name, field in schema["cls"].model_fields.items()
                if getattr(field, "exclude_if", None) is not None
            ]
            attributes = {alias: name for name, alias in written.items() if alias != name}
            note_meaning(made, **{ATTRIBUTES: attributes, OMITTED: omitted})
            return made

    return WithMeaning


def _without_values(error: Any) -> ValueError:
    """Return the misfits field by field; pydantic's own text contains the values."""
    found = error.errors(include_url=False, include_input=False, include_context=False)
    fields = (f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in found)
    return ValueError("; ".join(fields))


def _unread_names(model: Any) -> Iterator[tuple[str, str]]:
    """Yield fields that are written under a name that is not read."""
    config = model.model_config
    reads_names = config.get("populate_by_name") or config.get("validate_by_name")
    for name, field in model.model_fields.items():
        written = field.serialization_alias or name
        read = _read_names(field.validation_alias, name)
        if written not in read and not (reads_names and written == name):
            yield name, written


def _read_names(alias: Any, name: str) -> list[str]:
    if alias is None:
        return [name]
    if isinstance(alias, str):
        return [alias]
    choices = getattr(alias, "choices", [alias])  # AliasChoices, or one AliasPath
    paths = [getattr(one, "path", [one]) for one in choices]
    return [path[0] for path in paths if len(path) == 1]
