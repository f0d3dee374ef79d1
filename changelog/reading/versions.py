"""Rows of several versions of a type as one column: what ``logstate.serdes.upgradable`` wrote.

The column has the type of the current version. A row of an earlier one has to be upgraded by the
application's own functions, which are not in the manifest: the option ``valueSerde`` names the
serde, as ``module:attribute``, which is imported for decoding, on the driver and on every executor.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from logstate.contracts.errors import ConfigError, SerdeError

Decode = Callable[[bytes], Any]


def upgrading_decoder(
    description: Mapping[str, Any], decode: Decode, shape: Decode, serde: str | None
) -> Decode:
    """Decodes rows of every version.

    ``decode`` reads what the current version wrote, ``shape`` makes a column's value of plain data.
    """
    version: int = description["version"]
    upgrade = _refusing(description) if serde is None else _by_the_application(serde, shape)

    def read(data: bytes) -> Any:
        return decode(data[1:]) if data[:1] == bytes((version,)) else upgrade(data)

    return read


def _refusing(description: Mapping[str, Any]) -> Decode:
    def refuse(data: bytes) -> Any:
        raise SerdeError(
            f"a row begins with byte {data[:1]!r}, so it is of an earlier version than"
            f" {description['version']}; only the application's functions can upgrade it. Name its"
            ' serde by the option valueSerde, as "module:attribute", and make the module known to'
            " the executors (spark.sparkContext.addPyFile)"
        )

    return refuse


def _by_the_application(target: str, shape: Decode) -> Decode:
    found: list[Decode] = []

    def upgrade(data: bytes) -> Any:
        if not found:  # imported where rows are decoded, which the driver does not do
            found.append(_deserializer(target))
        return shape(msgspec.to_builtins(found[0](data)))

    return upgrade


def _deserializer(target: str) -> Decode:
    module, colon, attribute = target.partition(":")
    try:
        serde = getattr(importlib.import_module(module), attribute) if colon else None
        return serde.deserializer("", False)  # type: ignore[union-attr, no-any-return]
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"option valueSerde: {target!r} cannot be imported here as a serde ({error}). Name"
            ' it as "module:attribute", and make the module known to the executors'
            " (spark.sparkContext.addPyFile)"
        ) from error
