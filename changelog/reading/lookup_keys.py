"""Keys that are looked for, as the bytes that a changelog has for them."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import Any

from logstate.changelog.reading.tables import StoreTable
from logstate.contracts.errors import ConfigError
from logstate.contracts.formats import SCALARS
from logstate.serdes.built_in import SCALAR_SERDES


def _bytes(value: Any) -> bytes:
    if not isinstance(value, bytes | bytearray | memoryview):  # of 5, bytes() makes five zeros
        raise TypeError(f"{value!r} is of type {type(value).__name__}")
    return bytes(value)


#: formats in which a value has one encoding only; of JSON and floating point it may have several
ENCODERS: dict[str, Callable[[Any], bytes]] = {
    name: SCALAR_SERDES[name].serializer("", True)
    for name, one in SCALARS.items()
    if one.is_equal_as_bytes
} | {"bytes": _bytes}  # Spark has byte arrays


def encoded_keys(keys: Iterable[Any], table: StoreTable) -> frozenset[bytes]:
    """The bytes of these keys. Raises ConfigError if the store's format has no one encoding."""
    encode = ENCODERS.get(table.key_format)
    if encode is None:
        raise ConfigError(
            f"keys are of the format {table.key_format!r}, in which one key can be written in "
            "several ways; read all of them and filter the table"
        )
    try:
        return frozenset(map(encode, keys))
    except (TypeError, struct.error, AttributeError) as error:
        raise ConfigError(
            f"keys= has a key that is not a {table.key_format} like the store's keys: {error}"
        ) from error
