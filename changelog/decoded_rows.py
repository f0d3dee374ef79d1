"""Rows of a store kept as Python objects, and encoded only when their bytes are needed.

A hot key is read and written many times between two commits; its bytes are needed once. So reads
are answered with the object that was put or decoded last, and writes wait here, *pending*, until
the commit, a scan or an expiry asks the rows for bytes. That is most of the cost of a count.

Bytes stay the authority, so only what cannot differ from its bytes is kept:

- pending are exact ``int``, ``float``, ``bool``, ``bytes`` and ASCII ``str`` values that the serde
  of the store is sure to encode, and frozen structs of such values (`logstate.plain_structs`): an
  error must name the record that caused it, not the commit;
- *known*, that is encoded already and kept for reading, are values of types known immutable;
- keys are of scalar types, for which equal objects have equal bytes.

This is a :class:`logstate.changelog.rows.RowMirror`: the rows say when to flush and to forget.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from logstate.json_serde import JsonSerde
from logstate.plain_structs import plain_check
from logstate.serde import Serde
from logstate.stores import StoredRow

_SCALAR_KEYS: Final = frozenset({"string", "int64", "int32", "bytes"})


class _Nothing:
    """The type of no value."""


class LateValues(NamedTuple):
    """Values that may be encoded later: of exactly this type, within bounds or fit.

    Integers are bound here and not by a function, which would cost half of the whole write.
    """

    type_: type[Any]
    least: int = 0
    most: int = 0
    fits: Callable[[Any], bool] | None = None


_LATE: Final = {
    "int64": LateValues(int, -(2**63), 2**63 - 1),
    "int32": LateValues(int, -(2**31), 2**31 - 1),
    "float64": LateValues(float),
    "boolean": LateValues(bool),
    "bytes": LateValues(bytes),
    "string": LateValues(str, fits=str.isascii),
}
NEVER_LATE: Final = LateValues(_Nothing)


def late_values(key: Serde[Any], value: Serde[Any]) -> LateValues:
    """Which values of a store can wait to be encoded."""
    if key.describe()["format"] not in _SCALAR_KEYS:
        return NEVER_LATE
    if type(value) is JsonSerde:
        is_plain = plain_check(value.type)
        return NEVER_LATE if is_plain is None else LateValues(value.type, fits=is_plain)
    return _LATE.get(value.describe()["format"], NEVER_LATE)


def can_keep(key: Serde[Any], value: Serde[Any]) -> bool:
    """Whether decoded rows of a store can be handed out again and again."""
    return value.immutable and key.describe()["format"] in _SCALAR_KEYS


class DecodedRows:
    """The decoded rows of one store. ``write(row_key, row)`` encodes one and logs it.

    The dicts are filled by the store's closures, which hold on to them: they are never replaced.
    """

    __slots__ = ("_write", "known", "pending", "row_keys")

    def __init__(self, write: Callable[[bytes, Any], None]) -> None:
        self._write = write
        self.known: dict[Any, Any] = {}
        self.pending: dict[Any, Any] = {}
        #: the serialised key of each pending row
        self.row_keys: dict[Any, bytes] = {}

    def bound_get(self, load: Callable[[Any], StoredRow | None]) -> Callable[[Any], Any]:
        """``get_row(key)`` of a store by key; ``load`` reads a row that is not here."""
        pending_get, known_get, known = self.pending.get, self.known.get, self.known

        def get_row(key: Any) -> StoredRow | None:
            row: StoredRow | None = pending_get(key)
            if row is None:
                row = known_get(key)
                if row is None:
                    row = load(key)
                    if row is not None:
                        known[key] = row
            return row

        return get_row

    def bound_put(
        self,
        late: LateValues,
        encode_key: Callable[[Any], bytes],
        direct: Callable[[Any, Any], None],
    ) -> Callable[[Any, StoredRow | None], None]:
        """``put(key, row)`` of a store by key; ``direct`` writes at once what cannot wait."""
        pending, known, row_keys = self.pending, self.known, self.row_keys
        late_type, least, most, fits = late
        is_bounded = late_type is int

        def put(key: Any, row: StoredRow | None) -> None:
            if row is not None:
                value = row[0]
                if (
                    type(value) is late_type
                    and row[2] is None
                    and (least <= value <= most if is_bounded else fits is None or fits(value))
                ):
                    if key not in pending:
                        row_keys[key] = encode_key(key)
                    pending[key] = row
                    return
            if key in pending:
                del pending[key], row_keys[key]
            known.pop(key, None)
            direct(key, row)

        return put

    def __len__(self) -> int:
        return len(self.known) + len(self.pending)

    def flush(self) -> None:
        """Encode what is pending."""
        if self.pending:
            write, row_keys = self._write, self.row_keys
            for key, row in self.pending.items():
                write(row_keys[key], row)
            self.known.update(self.pending)
            self.pending.clear()
            row_keys.clear()

    def expire(self) -> None:
        """Encode what is pending and let go of the rest, which may be expired."""
        self.flush()
        self.known.clear()

    def forget(self) -> None:
        """Drop everything, what is pending too: it was never committed."""
        self.pending.clear()
        self.row_keys.clear()
        self.known.clear()

    def forget_known(self) -> None:
        """Drop what the rows hold as bytes."""
        self.known.clear()
