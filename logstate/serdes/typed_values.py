"""Encode keys and values that a user typed: text of a command line, and JSON of a file.

With the serde of a topology a value is validated as a decoded record is. With a description from a
manifest it is validated as far as that goes: formats, and the names of fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

import msgspec

from logstate.contracts.error_text import text_of
from logstate.contracts.errors import UNDECODABLE, ConfigError, LogstateError, SerdeError
from logstate.contracts.formats import LIST, ORDERED, SCALARS
from logstate.contracts.serde import Serde
from logstate.serdes.described import Description, format_name
from logstate.serdes.described_keys import READERS, fields_of
from logstate.serdes.json_serde import json
from logstate.serdes.scalars import SCALAR_SERDES

#: formats whose bytes are the JSON text itself
_JSON = ("json", "faust")


class TypedValues:
    """Encodes the keys or the values of one topic.

    >>> numbers = TypedValues(SCALAR_SERDES["int64"], "clicks", is_key=False)
    >>> numbers.from_text("7").hex()
    '0000000000000007'
    """

    def __init__(
        self,
        serde: Serde[Any],
        topic: str,
        *,
        is_key: bool,
        description: Description | None = None,
    ) -> None:
        self._serde = serde
        self._described = serde.describe() if description is None else description
        self._format = str(self._described.get("format", ""))
        self._place = topic, is_key
        self._part = "key" if is_key else "value"
        self._encode = serde.serializer(topic, is_key)

    def from_text(self, text: str) -> bytes:
        """Encode a text as it is typed: ``ada``, ``-42``, ``true``; JSON for all other formats.

        Raises ConfigError, with the format that is expected.
        """
        if self._format == ORDERED:
            ordered: Any = self._serde
            try:
                return self._encoded(ordered.data_of_text(text), text)
            except SerdeError as error:
                raise self._invalid_text(text, text_of(error)) from error
        if self._format not in SCALARS:
            try:
                return self._encoded(msgspec.json.decode(text), text)
            except UNDECODABLE:
                raise self._invalid_text(text, "Give it as JSON, in quotes of the shell") from None
        if self._format == "bytes":
            return self._encoded(text, text)
        known = SCALARS[self._format]
        try:
            value = READERS[known.type_](text)
        except (ValueError, KeyError):
            raise self._invalid_text(text, f"An example is {known.example}") from None
        return self._encoded(value, text)

    def from_data(self, data: Any) -> bytes | None:
        """Encode a value as it is in JSON; None stays None. Raises ConfigError as ``from_text``."""
        if data is None:
            return None
        return self._encoded(data, msgspec.json.encode(data).decode())

    def _encoded(self, data: Any, text: str) -> bytes:
        self._check_fields(data, text)
        try:
            return self._encode(self._object(self._serde, self._format, data))
        except ConfigError:
            raise
        except Exception as error:  # a serde may be of the user, and raise anything
            raise self._invalid_text(text, text_of(error)) from error

    def _object(self, serde: Any, name: str, data: Any) -> Any:
        """Return what the application's functions would have returned."""
        if name == "bytes" and isinstance(data, str):
            return bytes.fromhex(data[2:]) if data.startswith("0x") else data.encode()
        if name in SCALARS:
            type_ = SCALARS[name].type_
            is_given_otherwise = (type_, type(data)) in ((float, int), (UUID, str))
            return type_(data) if is_given_otherwise else data
        if name in _JSON:
            return serde.deserializer(*self._place)(msgspec.json.encode(data))
        if name in ("upgradable", "json_schema"):
            inner = serde.current if name == "upgradable" else serde.inner
            return self._object(inner, str(inner.describe().get("format", "")), data)
        if name == ORDERED:
            return serde.of_data(data)
        if name == LIST and isinstance(data, list):
            inner, of = serde.inner, str(serde.inner.describe()["format"])
            return [None if one is None else self._object(inner, of, one) for one in data]
        if name == "avro":
            return data if serde.type in (dict, Any) else msgspec.convert(data, serde.type)
        if name == "protobuf":
            from logstate.serdes.protobuf_files import message_from_json

            return message_from_json(serde.message, data)
        return data

    def _check_fields(self, data: Any, text: str) -> None:
        fields = fields_of(self._described.get("schema"))
        if fields is None:
            return
        listed = ", ".join(fields)
        if not isinstance(data, dict):
            raise self._invalid_text(text, f"Give an object with the fields {listed}")
        unknown = sorted(set(data) - set(fields))
        if unknown:
            raise self._invalid_text(
                text, f"It has no {', '.join(unknown)}; its fields are {listed}"
            )

    def _invalid_text(self, text: str, hint: str) -> ConfigError:
        topic = self._place[0]
        return ConfigError(
            f"{text[:200]!r} is not a valid {self._part} of topic {topic!r}, whose {self._part}s"
            f" are {format_name(self._described)}. {hint[:1].upper()}{hint[1:].rstrip('.')}."
        )


def typed_by_description(
    description: Description | None,
    topic: str,
    *,
    is_key: bool,
    registry: Mapping[str, str] | None = None,
) -> TypedValues:
    """Return the encoder for a format that only a manifest describes.

    Raises ConfigError for a format that needs the application's classes.
    """
    found = description or {"format": "bytes"}
    name = str(found["format"])
    serde: Serde[Any]
    if name in SCALAR_SERDES:
        serde = SCALAR_SERDES[name]
    elif name == "json" or (name == "faust" and found.get("codec", "json") == "json"):
        serde = json
    elif name == "avro":
        serde = _avro(found, registry or {})
    else:
        part = "key" if is_key else "value"
        raise ConfigError(
            f"the {part}s of topic {topic!r} are {format_name(found)}, which only the application's"
            " classes can write: name its topology with --topology MODULE:ATTRIBUTE"
        )
    return TypedValues(serde, topic, is_key=is_key, description=found)


def _avro(description: Description, registry: Mapping[str, str]) -> Serde[Any]:
    try:
        from logstate.serdes.avro_single_object import described_avro
    except ImportError as error:
        raise ConfigError(f"the topic has Avro, which cannot be written here: {error}") from error
    try:
        return described_avro(description, registry)
    except LogstateError as error:
        raise ConfigError(f"the Avro schema of the manifest cannot be used: {error}") from error
