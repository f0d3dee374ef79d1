"""Serdes: convert Python objects to the bytes on topics and in stores, and back.

Imports contracts and the registry. Start with `built_in`: the serdes to choose from, and how a
declaration such as ``value=Click`` is resolved. JSON, Avro, Protobuf, windowed keys, and the
formats of foreign-key and outer joins have their own modules. The names below are public.
"""

from logstate.contracts.serde import Deserializer, Serde, Serializer
from logstate.serdes.built_in import (
    avro,
    json_schema_of,
    list_of,
    ordered,
    protobuf,
    serde_of,
    session_windowed,
    windowed,
)
from logstate.serdes.json_serde import JsonSerde, json, json_of
from logstate.serdes.list_serde import ListSerde
from logstate.serdes.ordered_serde import OrderedSerde
from logstate.serdes.scalars import (
    boolean,
    bytes_,
    float32,
    float64,
    int16,
    int32,
    int64,
    string,
    string_replacing,
    uuid,
    uuid_bytes,
    void,
)
from logstate.serdes.upgradable import UpgradableSerde, upgradable
from logstate.serdes.windowed_serdes import SessionWindowedSerde, WindowedSerde

__all__ = [
    "Deserializer",
    "JsonSerde",
    "ListSerde",
    "OrderedSerde",
    "Serde",
    "Serializer",
    "SessionWindowedSerde",
    "UpgradableSerde",
    "WindowedSerde",
    "avro",
    "boolean",
    "bytes_",
    "float32",
    "float64",
    "int16",
    "int32",
    "int64",
    "json",
    "json_of",
    "json_schema_of",
    "list_of",
    "ordered",
    "protobuf",
    "serde_of",
    "session_windowed",
    "string",
    "string_replacing",
    "upgradable",
    "uuid",
    "uuid_bytes",
    "void",
    "windowed",
]
