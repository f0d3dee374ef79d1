"""Decode the changelog of a Faust table, and write its rows as a store's changelog.

A table's changelog is ``<app id>-<table>-changelog``, with the partitions of the topic that the
agent reads. Its keys are the table's, JSON unless a type says otherwise; of a windowed table they
are ``[key, [start, end]]`` in seconds, with an end that is a tenth of a second before start + size.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from decimal import Decimal
from typing import Any, NamedTuple

import faust
from faust.models.base import maybe_model
from faust.serializers import codecs
from faust.tables.sets import SetTable

from logstate.changelog.stores.kinds import kind_of
from logstate.contracts.changelog_keys import WINDOW, pack_window_tail
from logstate.contracts.errors import SerdeError
from logstate.contracts.stores import StoreSpec
from logstate.faust.record_serdes import is_record, refuse_pickle

_PLAIN = (str, int, float, bytes, Decimal)


class TableRow(NamedTuple):
    """A row of a table; ``start_ms`` is None where the table has no windows."""

    key: Any
    start_ms: int | None
    value: Any


class FaustTable:
    """Reads the changelog of a table, as Faust itself would on recovery.

    Raises SerdeError for a table whose codec is pickle, whose windows no store has, or that has no
    rows.
    """

    def __init__(self, table: Any) -> None:
        inner = getattr(table, "table", table)  # a windowed one is wrapped
        self.name: str = inner.name
        self.changelog: str = inner.changelog_topic_name
        self._table = inner
        if isinstance(inner, SetTable):
            raise SerdeError(
                f"Table {self.name!r} is a SetTable: its changelog contains additions and removals,"
                " not rows. Use forget= and read its topic again."
            )
        for serializer in (inner.key_serializer, inner.value_serializer):
            refuse_pickle(serializer)
        self.size_ms, self.step_ms = _window_ms(inner)

    def row(self, key: bytes, value: bytes) -> TableRow:
        """Raises what the codec raises for bytes that do not decode."""
        table = self._table
        payload = codecs.loads(table.key_serializer, key)
        start_ms = None
        if self.size_ms is not None:
            payload, (start, _end) = payload
            start_ms = round(start * 1000)
        decoded = typed(table.value_type, codecs.loads(table.value_serializer, value))
        return TableRow(_hashable(typed(table.key_type, payload)), start_ms, decoded)


class TableRowWriter:
    """Writes rows of a table as a logstate store logs them.

    ``convert`` returns the store's value for the table's, or None to leave the row out.
    """

    def __init__(
        self, spec: StoreSpec, changelog: str, convert: Callable[[Any], Any] | None
    ) -> None:
        self._key = spec.key.serializer(changelog, True)
        self._value = spec.value.serializer(changelog, False)
        self._convert = convert

    def logged(self, row: TableRow) -> tuple[bytes, bytes | None]:
        """Key and value of the record. Raises what the store's serdes raise."""
        value = row.value if self._convert is None else self._convert(row.value)
        tail = b"" if row.start_ms is None else pack_window_tail(row.start_ms, 0)
        key = self._key(row.key) + tail
        if value is not None:
            return key, self._value(value)
        if self._convert is None:
            raise SerdeError(
                "the table has None for a value, and a row of a store is never None. Give convert="
                " a function that makes a value of it, or returns None where there is to be no row"
            )
        return key, None


def typed(type_: Any, payload: Any) -> Any:
    """Return the value that Faust decodes from a payload for this type of a table.

    >>> typed(int, "3"), typed(str, b"a"), typed(None, [1, 2])
    (3, 'a', [1, 2])
    """
    if type_ is None:
        return maybe_model(payload)
    if is_record(type_):
        return type_.from_data(payload, preferred_type=type_)
    if type_ in _PLAIN:
        if type_ is bytes:
            return payload.encode() if isinstance(payload, str) else payload
        decoded = payload.decode() if isinstance(payload, bytes) else payload
        # Like Faust, keep a non-string for a str type: str() would turn null into "None".
        return decoded if type_ is str else type_(decoded)
    return payload


def window_problem(table: FaustTable, spec: StoreSpec) -> str | None:
    """Why the rows of a table are not those of a store; None where they are."""
    kind = kind_of(spec)
    if table.size_ms is None:
        return (
            None
            if kind.are_rows_records
            else f"the table has no windows, and store {spec.name!r} is a {spec.kind}"
        )
    if kind.key_layout is not WINDOW or spec.retain_duplicates:
        return f"the table has windows, and store {spec.name!r} is a {spec.kind}"
    if spec.window_size_ms != table.size_ms:
        return (
            f"the table's windows have {table.size_ms} ms, and those of store {spec.name!r} have"
            f" {spec.window_size_ms} ms"
        )
    return None


def _window_ms(table: Any) -> tuple[int | None, int | None]:
    window = table.window
    if window is None:
        return None, None
    if not isinstance(getattr(window, "step", None), int | float):
        raise SerdeError(
            f"The windows of table {table.name!r} are {type(window).__name__}: their bounds depend"
            " on the records, so a store cannot have such rows. Read its topic again."
        )
    size_ms, step_ms = round(window.size * 1000), round(window.step * 1000)
    if size_ms % step_ms:
        raise SerdeError(
            f"The windows of table {table.name!r} begin at other times than ours: its size"
            f" {window.size:g} s is not a multiple of its step {window.step:g} s. Read it again."
        )
    return size_ms, step_ms


def _hashable(key: Any) -> Any:
    return tuple(map(_hashable, key)) if isinstance(key, list) else key


def tables_of(app: faust.App, forget: Collection[str] = ()) -> Mapping[str, FaustTable]:
    """Every table of an application that is not forgotten, by its name; of the others none is read.

    Raises SerdeError for one that no store can go on with.
    """
    kept = ((name, table) for name, table in app.tables.items() if name not in forget)
    return {name: FaustTable(table) for name, table in kept}
