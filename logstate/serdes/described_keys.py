"""Parse a key that a user typed, by the description of the keys' serde."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from logstate.contracts.errors import UNDECODABLE, ConfigError, RegistryError, SerdeError
from logstate.contracts.formats import ORDERED, SCALARS, WITH_SCHEMA
from logstate.serdes.described import Description, format_name, readable_decoder
from logstate.serdes.ordered_serde import described_ordered
from logstate.serdes.scalars import SCALAR_SERDES


class LookupKey(NamedTuple):
    """The key to look for, and a test of stored keys."""

    #: its bytes; None where they are not known, and keys are compared as data
    data: bytes | None
    is_it: Callable[[bytes], bool]


#: parses the text of a key, by the type of keys; bytes have two notations, see `_bytes`
READERS: Mapping[type[Any], Callable[[str], Any]] = {
    str: str,
    int: int,
    float: float,
    UUID: UUID,
    bool: {"true": True, "false": False}.__getitem__,
}
_HINTS = {str: "Give text in UTF-8", UUID: "Give a UUID", bool: "Give true or false"}


def lookup_key(
    text: str, description: Description | None, registry: Mapping[str, str] | None = None
) -> LookupKey:
    """Return the key that ``text`` means in this description.

    >>> (lookup_key("7", {"format": "int32"}).data or b"").hex()
    '00000007'

    Keys with fields (JSON, Avro, Protobuf) are given as JSON, and compared field by field. Raises
    ConfigError if the text is not a key.
    """
    described = description or {"format": "bytes"}
    name = described["format"]
    if name in SCALARS and name != "bytes":
        known = SCALARS[name]
        try:
            return _equal_bytes(
                SCALAR_SERDES[name].serializer("", True)(READERS[known.type_](text))
            )
        except Exception as error:
            hint = _HINTS.get(known.type_, f"Give a number, such as {known.example}")
            raise _invalid_key(text, described, hint) from error
    if name == ORDERED:
        return _equal_bytes(_ordered(text, described))
    if name in WITH_SCHEMA or name == "upgradable":
        return _equal_decoded(_data(text, described), readable_decoder(described, registry))
    return _equal_bytes(_bytes(text, described))


def _ordered(text: str, description: Description) -> bytes:
    serde = described_ordered(description)
    try:
        return serde.serializer("", True)(serde.of_text(text))
    except SerdeError as error:
        raise _invalid_key(text, description, f"{error}") from error


def _equal_bytes(data: bytes) -> LookupKey:
    return LookupKey(data, lambda key: key == data)


def _equal_decoded(wanted: Any, decode: Callable[[bytes], Any]) -> LookupKey:
    def is_it(key: bytes) -> bool:
        try:
            return bool(decode(key) == wanted)
        except (RegistryError, ConfigError):
            raise
        except Exception:  # noqa: BLE001  not such a key: others write to source topics, too
            return False

    return LookupKey(None, is_it)


def _bytes(text: str, description: Description) -> bytes:
    if not text.startswith("0x"):
        return text.encode()
    try:
        return bytes.fromhex(text[2:])
    except ValueError as error:
        raise _invalid_key(
            text, description, "After 0x come pairs of hexadecimal digits"
        ) from error


def _data(text: str, description: Description) -> Any:
    schema = description.get("schema")
    kind = schema.get("type") if isinstance(schema, Mapping) else schema
    if kind == "string" and not text.startswith('"'):
        return text
    try:
        found = msgspec.json.decode(text)
    except UNDECODABLE as error:
        hint = "Give it as JSON, in quotes of the shell; a text is '\"ada\"' then"
        raise _invalid_key(text, description, hint) from error
    _check_fields(text, found, description)
    return found


def _check_fields(text: str, found: Any, description: Description) -> None:
    fields = fields_of(description.get("schema"))
    if fields is None:
        return
    if not isinstance(found, dict):
        raise _invalid_key(text, description, f"Give an object with the fields {', '.join(fields)}")
    unknown = sorted(set(found) - set(fields))
    if unknown:
        raise _invalid_key(
            text, description, f"It has no {', '.join(unknown)}; its fields are {', '.join(fields)}"
        )


def fields_of(schema: Any) -> list[str] | None:
    """Return the names of a record's fields; None if it is not a record, or is not described."""
    if not isinstance(schema, Mapping):
        return None
    if "messages" in schema:
        return [one["name"] for one in schema["messages"][schema["message"]]["fields"].values()]
    if isinstance(schema.get("fields"), list):
        return [one["name"] for one in schema["fields"]]
    reference = schema.get("$ref")
    target = schema.get("$defs", {}).get(reference.rpartition("/")[2], {}) if reference else schema
    properties = target.get("properties")
    return list(properties) if properties else None


def _invalid_key(text: str, description: Description, hint: str) -> ConfigError:
    return ConfigError(
        f"{text!r} is not a valid key: the keys are {format_name(description)}. {hint}."
    )
