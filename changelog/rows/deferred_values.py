"""Which values of a store may be kept as objects, and which may be encoded after their put.

A value that is *deferred* is encoded at the commit, once however often its row was written. Its
bytes can neither fail then nor decode to something else: an error must name the record that caused
it, not the commit. So only exact ``int``, ``float``, ``bool``, ``bytes`` and ASCII ``str`` values
are deferred, and frozen structs of such values (`logstate.serdes.plain_structs`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from logstate.changelog.rows.row_codec import RowCodec
from logstate.contracts.formats import SCALARS
from logstate.contracts.serde import Serde
from logstate.serdes.built_in import equal_as_bytes
from logstate.serdes.json_serde import JsonSerde
from logstate.serdes.plain_structs import plain_condition


class DeferredValues(NamedTuple):
    """Values of exactly this type, and such that ``condition`` holds.

    The condition is text about ``value``, a part of the function that asks it for every record.
    """

    type_: type[Any]
    condition: str


_DEFERRED: Final = {
    name: DeferredValues(one.type_, one.encodes_surely) for name, one in SCALARS.items()
}


def can_keep(key: Serde[Any], value: Serde[Any]) -> bool:
    """Whether decoded rows of a store can be handed out again and again.

    Values are of types known immutable, and keys equal as objects exactly when their bytes are.
    """
    return value.immutable and equal_as_bytes(key)


def deferred_values(key: Serde[Any], value: Serde[Any]) -> DeferredValues | None:
    """Which values of a store are deferred, if any."""
    if not equal_as_bytes(key):
        return None
    if type(value) is JsonSerde:
        condition = plain_condition(value.type)
        return None if condition is None else DeferredValues(value.type, condition)
    return _DEFERRED.get(value.describe()["format"])


def deferred_encoder(codec: RowCodec, value: Serde[Any]) -> Callable[[Any], bytes]:
    """Encodes deferred values: the put has asked already what a serde would ask."""
    return value.unchecked_serializer() if type(value) is JsonSerde else codec.encode_value
