"""Pydantic models (version 2) as JSON: what a model validates is what is read and written.

Pydantic itself is not imported: a model brings along all that is needed. Written are the names
that the model reads (``serialization_alias`` must be one of them), without computed fields: in
values in the model's order, in keys sorted by name, because equal keys must be equal bytes.

Refused are, as everywhere in JSON, NaN and the infinities where the model would write them as null,
objects of other classes than the declared one, and what the model would not read again, or would
read as another value (a text in a field that is an int): fields can be set to anything unless
``validate_assignment`` is on, and ``model_construct`` checks nothing. Not looked at are private
attributes and fields that the model excludes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec

from logstate.contracts.errors import SerdeError
from logstate.contracts.serde import Deserializer, Serde, Serializer
from logstate.serdes.json_serde import holds_nan, no_nan, not_of, not_readable, not_the_same
from logstate.serdes.sameness import difference

M = TypeVar("M")


def is_pydantic_model(type_: Any) -> bool:
    """Whether a type is a model of pydantic 2; its dataclasses are dataclasses."""
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
            # Without its warnings: what does not fit is refused by the reading, two lines below.
            data: bytes = to_json(value, by_alias=True, round_trip=True, warnings=False)
            if data.find(b"null") >= 0 and holds_nan(value.model_dump(round_trip=True)):
                raise no_nan()
            try:
                read = validate(data)
            except ValueError as error:  # pydantic's, which quotes the value: only where and what
                raise not_readable(model.__name__, _without_values(error)) from None
            found = difference(value, read)
            if found is not None:
                raise not_the_same(model.__name__, found)
            if not is_key:
                return data
            # As it will be written again once it was read: 52 in a float field is 52.0 then.
            data = to_json(read, by_alias=True, round_trip=True, warnings=False)
            return in_order(msgspec.json.decode(data))

        return serialize

    def deserializer(self, topic: str, is_key: bool) -> Deserializer[M]:
        validate: Deserializer[M] = self.model.__pydantic_validator__.validate_json
        return validate

    def describe(self) -> dict[str, Any]:
        try:
            schema = self.model.model_json_schema(mode="serialization")
        except RuntimeError:  # pydantic's, of a field that it reads and writes by functions alone
            return {"format": "json", "schema": None}
        for one in (schema, *schema.get("$defs", {}).values()):
            fields = one.get("properties", {})
            computed = {name for name, field in fields.items() if field.get("readOnly")}
            if computed:
                one["properties"] = {n: f for n, f in fields.items() if n not in computed}
                one["required"] = [n for n in one.get("required", ()) if n not in computed]
        return {"format": "json", "schema": schema}

    def same_by(self) -> Any:
        return self.model

    def __repr__(self) -> str:
        return f"<serde json of {self.model.__name__}>"


def _without_values(error: Any) -> ValueError:
    """What does not fit, field by field; pydantic's own text has the values in it."""
    found = error.errors(include_url=False, include_input=False, include_context=False)
    fields = (f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in found)
    return ValueError("; ".join(fields))


def _unread_names(model: Any) -> Iterator[tuple[str, str]]:
    """Fields that are written under a name that is not read."""
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
