"""Serdes: Python objects as the bytes on topics and in stores, and back.

Imports contracts only. Start with `built_in`: the serdes to choose from, and how a declaration such
as ``value=Click`` becomes one. JSON, Avro and windowed keys each have a module, what foreign-key
and outer joins write have theirs. The names below are the public ones.
"""

from logstate.serdes.built_in import (
    Deserializer,
    JsonSerde,
    Serde,
    Serializer,
    SessionWindowedSerde,
    WindowedSerde,
    avro,
    boolean,
    bytes_,
    float64,
    int32,
    int64,
    json,
    json_of,
    serde_of,
    session_windowed,
    string,
    windowed,
)

__all__ = [
    "Deserializer",
    "JsonSerde",
    "Serde",
    "Serializer",
    "SessionWindowedSerde",
    "WindowedSerde",
    "avro",
    "boolean",
    "bytes_",
    "float64",
    "int32",
    "int64",
    "json",
    "json_of",
    "serde_of",
    "session_windowed",
    "string",
    "windowed",
]
