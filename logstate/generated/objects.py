"""Generate objects for a serde, by its description."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime
from typing import Any, TypeAlias
from uuid import UUID

import msgspec

from logstate.contracts.errors import ConfigError
from logstate.contracts.formats import LIST, ORDERED, SCALARS
from logstate.contracts.serde import Serde
from logstate.generated.avro_data import AvroData
from logstate.generated.draw import Draw
from logstate.generated.json_data import JsonData
from logstate.generated.protobuf_data import ProtobufData

Make: TypeAlias = "Callable[[Draw], Any]"

#: by the type of a scalar format, or of a part of an ordered key
DRAWN: Mapping[type[Any], Make] = {
    str: Draw.word,
    int: Draw.integer,
    float: Draw.number_with_fraction,
    bool: Draw.boolean,
    bytes: Draw.data,
    datetime: Draw.instant,
    date: lambda draw: draw.instant().date(),
    UUID: Draw.identifier,
}
#: formats that do not hold all objects of their type
_DRAWN_BY_NAME: Mapping[str, Make] = {
    "float32": lambda draw: draw.integer() / 4,
}


def maker_of(serde: Serde[Any]) -> Make:
    """Return a generator of objects that the serde can write.

    >>> from logstate.serdes.built_in import int64
    >>> maker_of(int64)(Draw(1, 1)) == maker_of(int64)(Draw(1, 1))
    True

    Raises ConfigError for a serde whose description does not contain the type of its objects.
    """
    described = serde.describe()
    name, schema, own = described.get("format"), described.get("schema"), vars(serde)
    if name in _DRAWN_BY_NAME:
        return _DRAWN_BY_NAME[str(name)]
    if name in SCALARS:
        return DRAWN[SCALARS[str(name)].type_]
    if name == ORDERED:
        return _of_parts(serde)
    if name == LIST:
        make = maker_of(own["inner"])
        return lambda draw: [make(draw) for _ in range(draw.random.randrange(4))]
    if name == "upgradable":
        return maker_of(own["current"])
    if name == "json_schema":
        return maker_of(own["inner"])
    if "model" in own:  # of pydantic, whose schema for reading has more details
        return _read_from_json(serde, JsonData(own["model"].model_json_schema()))
    if schema is not None and name == "json":
        return _read_from_json(serde, JsonData(schema))
    if schema is not None and name == "avro":
        return _avro(serde, own.get("type", dict), schema)
    if schema is not None and name == "protobuf":
        return ProtobufData(own["message"], schema)
    raise ConfigError(f"the description of {serde!r} does not contain the type of its objects")


def _of_parts(serde: Any) -> Make:
    makes = [DRAWN[type_] for type_ in serde.types]
    if serde.is_single:
        return makes[0]
    return lambda draw: serde.of_parts([make(draw) for make in makes])


def _read_from_json(serde: Serde[Any], make: JsonData) -> Make:
    """Decode the data with the declared type, which refuses what it would not write."""
    read = serde.deserializer("generated", False)
    return lambda draw: read(msgspec.json.encode(make(draw)))


def _avro(serde: Serde[Any], type_: Any, schema: Any) -> Make:
    make = AvroData(schema)
    if type_ is dict:
        return make
    # The same without a registry: with one, reading looks up the schema that a record names.
    plain: Any = type(serde)
    write = plain(schema).serializer("generated", False)
    read = plain(schema, type_=type_).deserializer("generated", False)
    return lambda draw: read(write(make(draw)))
