"""Rows of a store kept as Python objects, and encoded only when their bytes are needed.

A hot key is read and written many times between two commits; its bytes are needed once. So reads
are answered with the object that was put or decoded last, and writes wait here, *pending*, until
the commit, a scan or an expiry asks the rows for bytes. That is most of the cost of a count.

Bytes stay the authority, so only what cannot differ from its bytes is kept:

- pending are exact ``int``, ``float``, ``bool``, ``bytes`` and ASCII ``str`` values that the serde
  of the store is sure to encode, and frozen structs of such values
  (`logstate.serdes.plain_structs`): an error must name the record that caused it, not the commit;
- *known*, that is encoded already and kept for reading, are values of types known immutable;
- keys are of types whose objects are equal exactly when their bytes are
  (`logstate.serdes.built_in.equal_as_bytes`).

The rows say when to flush and to forget.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from logstate.changelog.rows.row_codec import RowCodec
from logstate.changelog.rows.rows import RowMirror
from logstate.contracts.generated_code import make_function
from logstate.contracts.serde import Serde
from logstate.contracts.stores import StoredRow
from logstate.serdes.built_in import equal_as_bytes
from logstate.serdes.json_serde import JsonSerde
from logstate.serdes.plain_structs import plain_condition


class _Nothing:
    """The type of no value."""


class LateValues(NamedTuple):
    """Values that may be encoded later: of exactly this type, and such that ``condition`` holds.

    The condition is text about ``value``, a part of the function that asks it for every record.
    """

    type_: type[Any]
    condition: str


_LATE: Final = {
    "int64": LateValues(int, f"{-(2**63)} <= value <= {2**63 - 1}"),
    "int32": LateValues(int, f"{-(2**31)} <= value <= {2**31 - 1}"),
    "float64": LateValues(float, "True"),
    "boolean": LateValues(bool, "True"),
    "bytes": LateValues(bytes, "True"),
    "string": LateValues(str, "value.isascii()"),
}
NEVER_LATE: Final = LateValues(_Nothing, "True")


def late_values(key: Serde[Any], value: Serde[Any]) -> LateValues:
    """Which values of a store can wait to be encoded."""
    if not equal_as_bytes(key):
        return NEVER_LATE
    if type(value) is JsonSerde:
        condition = plain_condition(value.type)
        return NEVER_LATE if condition is None else LateValues(value.type, condition)
    return _LATE.get(value.describe()["format"], NEVER_LATE)


def late_encoder(codec: RowCodec, value: Serde[Any]) -> Callable[[Any], bytes]:
    """Encodes values that could wait: the put has asked already what a serde would ask."""
    return value.unchecked_serializer() if type(value) is JsonSerde else codec.encode_value


def can_keep(key: Serde[Any], value: Serde[Any]) -> bool:
    """Whether decoded rows of a store can be handed out again and again."""
    return value.immutable and equal_as_bytes(key)


class LoadedRows(dict[Any, Any]):
    """Rows by key; one that is not there is loaded by ``rows[key]``. None is never kept.

    A hit costs no Python frame, which is what this class is for.
    """

    __slots__ = ("load",)

    load: Callable[[Any], StoredRow | None]

    def __missing__(self, key: Any) -> StoredRow | None:
        row = self.load(key)
        if row is not None:
            self[key] = row
        return row


_PUT: Final = """\
def bind(rows, row_keys, encode_key, put_directly, late_type):
    def put(key, row):
        if row is not None:
            value = row[0]
            if (
                type(value) is late_type
                and row[2] is None
                and {condition}
            ):
                if key not in row_keys:
                    row_keys[key] = encode_key(key)
                rows[key] = row
                return
        row_keys.pop(key, None)
        rows.pop(key, None)
        put_directly(key, row)
    return put
"""


class DecodedRows(RowMirror):
    """The decoded rows of one store. ``write_all(row_keys, rows)`` encodes and logs some of them:
    those whose serialised keys ``row_keys`` holds.

    The dicts are filled by the store's closures, which hold on to them: they are never replaced.
    """

    __slots__ = ("_write_all", "row_keys", "rows")

    def __init__(self, write_all: Callable[[Mapping[Any, bytes], Mapping[Any, Any]], None]) -> None:
        self._write_all = write_all
        self.rows = LoadedRows()
        #: the serialised key of each pending row; every other one is known
        self.row_keys: dict[Any, bytes] = {}

    def bound_get(self, load: Callable[[Any], StoredRow | None]) -> Callable[[Any], Any]:
        """``get_row(key)`` of a store by key; ``load`` reads a row that is not here."""
        self.rows.load = load
        return self.rows.__getitem__

    def bound_put(
        self,
        late: LateValues,
        encode_key: Callable[[Any], bytes],
        direct: Callable[[Any, Any], None],
    ) -> Callable[[Any, StoredRow | None], None]:
        """``put(key, row)`` of a store by key; ``direct`` writes at once what cannot wait."""
        bind = bound_to(_PUT, late)
        put: Callable[[Any, StoredRow | None], None] = bind(
            self.rows, self.row_keys, encode_key, direct, late.type_
        )
        return put

    def __len__(self) -> int:
        return len(self.rows)

    def flush(self) -> None:
        """Encode what is pending."""
        if self.row_keys:
            self._write_all(self.row_keys, self.rows)
            self.row_keys.clear()

    def expire(self) -> None:
        """Encode what is pending and let go of the rest, which may be expired."""
        self.flush()
        self.rows.clear()

    def forget(self) -> None:
        """Drop everything, what is pending too: it was never committed."""
        self.row_keys.clear()
        self.rows.clear()

    def forget_known(self) -> None:
        """Drop what the rows hold as bytes."""
        pending = {key: self.rows[key] for key in self.row_keys}
        self.rows.clear()
        self.rows.update(pending)


def bound_to(template: str, late: LateValues) -> Any:
    """The function ``bind`` of a template, with the condition of the values that may wait.

    One frame less per record than a closure that calls a check.
    """
    indented = late.condition.replace("\n", "\n                ")
    source = template.format(condition=indented)
    return make_function("bind", source, f"put of {late.type_.__qualname__}")
