"""Decode bytes into readable data by a serde's description, without the application's classes.

A description is what ``Serde.describe()`` returns and a manifest stores. Bytes without a
description are guessed at, and reported as a guess.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from logstate.contracts.errors import UNDECODABLE, ConfigError, SerdeError
from logstate.contracts.formats import LIST, ORDERED
from logstate.serdes.json_schema_serde import frame_bytes
from logstate.serdes.list_serde import elements_of
from logstate.serdes.ordered_serde import described_ordered
from logstate.serdes.scalars import SCALAR_SERDES

Description = Mapping[str, Any]
Decode = Callable[[bytes], Any]

_JSON = msgspec.json.Decoder().decode
#: counts are below this, and the bytes of a float64 hardly ever are
_COUNT_MAX = 2**53
_TIME = struct.Struct(">q")


class Guess(NamedTuple):
    """The probable format and value of bytes without a description."""

    #: ``JSON``, ``text``, ``int64`` or ``bytes``
    format: str
    value: Any


def readable_decoder(
    description: Description | None, registry: Mapping[str, str] | None = None
) -> Decode:
    """Return a function that decodes bytes into plain types, bytes as text or hexadecimal digits.

    ``registry`` is configuration for a schema registry, where values cannot be read without one.

    >>> readable_decoder({"format": "int64"})((7).to_bytes(8, "big"))
    7
    >>> readable_decoder({"format": "unheard of"})(bytes(1))
    '0x00'

    Raises ConfigError where a package for the format is missing here.
    """
    decode = _decoder(description or {"format": "bytes"}, registry or {})
    return lambda data: _as_json(decode(data))


def guessed(data: bytes) -> Guess:
    """Guess JSON, text, a number of 8 bytes, or hexadecimal digits.

    >>> guessed(b'{"n": 1}'), guessed(b"ada").format, guessed(bytes(2)).value
    (Guess(format='JSON', value={'n': 1}), 'text', '0x0000')
    """
    if data[:1] in (b"{", b"[", b'"'):
        try:
            return Guess("JSON", _JSON(data))
        except UNDECODABLE:
            pass
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = "\0"
    if all(sign.isprintable() or sign in "\n\t" for sign in text):
        return Guess("text", text)
    if len(data) == _TIME.size and abs(_TIME.unpack(data)[0]) < _COUNT_MAX:
        return Guess("int64", _TIME.unpack(data)[0])
    return Guess("bytes", f"0x{data.hex()}")


def format_name(description: Description | None) -> str:
    """Return the name of a format for people, with that of its type if it has one."""
    if description is None:
        return "bytes"
    name = str(description.get("format", "unknown"))
    schema = description.get("schema")
    fields = schema if isinstance(schema, Mapping) else {}
    of_type = fields.get("title") or fields.get("name") or fields.get("message")
    reference = fields.get("$ref")
    if not of_type and isinstance(reference, str):
        of_type = reference.rpartition("/")[2]
    return f"{name} of {of_type}" if isinstance(of_type, str) else name


def _list(description: Description, registry: Mapping[str, str]) -> Decode:
    inner = description["inner"]
    read = _decoder(inner, registry)
    return lambda data: [None if one is None else read(one) for one in elements_of(data, inner)]


def _decoder(description: Description, registry: Mapping[str, str]) -> Decode:
    name = description["format"]
    if name in SCALAR_SERDES and name != "bytes":
        return SCALAR_SERDES[name].deserializer("", False)
    if name == LIST:
        return _list(description, registry)
    if name == ORDERED:
        return described_ordered(description).deserializer("", True)
    if name in ("json", "faust") and description.get("codec", "json") == "json":
        return _JSON
    if name == "json_schema":
        return lambda data: _JSON(data[frame_bytes(data) :])
    if name == "avro":
        return _avro(description, registry)
    if name == "protobuf" and description.get("schema") is not None:
        return _protobuf(description)
    if name == "upgradable":
        return _versions(description, registry)
    return lambda data: guessed(data).value


def _avro(description: Description, registry: Mapping[str, str]) -> Decode:
    try:
        from logstate.serdes.avro_single_object import described_avro
    except ImportError as error:
        raise ConfigError(f"the records are in Avro, which cannot be read here: {error}") from error
    return described_avro(description, registry).deserializer("", False)


def _protobuf(description: Description) -> Decode:
    try:
        from logstate.serdes.protobuf_values import plain_decoder
    except ImportError as error:
        raise ConfigError(
            f"the records are in Protobuf, which cannot be read here: {error}"
        ) from error
    return plain_decoder(description)


def _versions(description: Description, registry: Mapping[str, str]) -> Decode:
    """Decode rows of earlier versions unchanged: only the application's functions upgrade them."""
    known = {int(n): _decoder(one, registry) for n, one in description["versions"].items()}
    unversioned = description.get("unversioned")

    def decode(data: bytes) -> Any:
        if data[:1] and data[0] in known:
            return known[data[0]](data[1:])
        if unversioned in known:
            return known[unversioned](data)
        raise SerdeError(f"version {data[:1].hex()} is none of {sorted(known)}")

    return decode


def _as_json(value: Any) -> Any:
    """Convert to data that JSON can hold."""
    if isinstance(value, bytes):
        return guessed(value).value
    if isinstance(value, dict):
        return {str(name): _as_json(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_as_json(one) for one in value]
    return msgspec.to_builtins(value)
