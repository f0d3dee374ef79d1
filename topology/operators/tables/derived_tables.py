"""Tables whose rows are computed from their parent's: filter, filter_not, map_values and similar.

They differ in how one value is computed from another. The closure is generated from one text for
all of them, so that an update needs no tests of the node's options: with a store or without, with
old values or without.

A row that stops matching a filter becomes a tombstone. With old values, nothing is sent for a row
that did not match before either. Without them every row that does not match sends a tombstone,
because the node cannot know (as in Kafka Streams; materialize the table to save the
tombstones).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import field
from textwrap import indent
from typing import Any, ClassVar, TypeAlias

from logstate.contracts.generated_code import make_function
from logstate.contracts.processing import TableProcess, TaskContext
from logstate.contracts.stores import StoredRow, StoreSpec
from logstate.topology.declaring.plain_functions import is_true
from logstate.topology.graph.nodes import Children, Forward, TableNode, ValueGetter
from logstate.topology.operators.tables.rows import bind_rows, row_getter
from logstate.topology.operators.tables.to_stream import stream_below

#: derived(key, row of the parent) -> row
DerivedRow: TypeAlias = "Callable[[Any, StoredRow | None], StoredRow | None]"

_OLD_ROW = """\
row = read(key)
old = None if row is None else row[0]
"""
_KEEP = """\
is_latest = write(key, new, timestamp, timestamp, headers)
if is_latest is None:
    return
"""
_FUNCTION = """\
def bind({names}):
    def process(key, new, old, timestamp, headers, is_latest):
{body}
        {forward}
    return process
"""
_FORWARD = "forward(key, new, old, timestamp, headers, is_latest)"
_FORWARD_TO_STREAM = "forward(key, new, timestamp, headers)"


class DerivedNode(TableNode):
    """Stored only if its store is named; otherwise rows are computed from the parent's on read."""

    #: expression of a value, computed from the parent's ``{value}`` by the function ``derive``
    derived_value: ClassVar[str]
    #: lines before it
    first_lines: ClassVar[str] = ""

    parent: TableNode
    store: StoreSpec | None = None

    def enable_sending_old_values(self, *, force: bool) -> bool:
        if self.store is not None or self.parent.enable_sending_old_values(force=force):
            self.sends_old_values = True
        return self.sends_old_values

    def enable_exact_changes(self) -> None:
        self.sends_exact_changes = True
        if self.store is None:
            self.parent.enable_exact_changes()

    def materialize(self) -> None:
        if self.store is None:
            self.parent.materialize()

    def getter_store_names(self) -> tuple[str, ...]:
        return self.parent.getter_store_names() if self.store is None else (self.store.name,)

    def versioned_store(self) -> StoreSpec | None:
        return self.parent.versioned_store() if self.store is None else super().versioned_store()

    def value_getter(self, task: TaskContext) -> ValueGetter:
        if self.store is not None:
            return row_getter(task, self.store)
        derived = self.derived_row(task)
        latest, as_of, _, lags, forwarded = self.parent.value_getter(task)
        found = ValueGetter(lambda key: derived(key, latest(key)), lags=lags)
        if forwarded is not None:
            before = forwarded
            found = found._replace(forwarded=lambda key: derived(key, before(key)))
        if as_of is not None:
            at = as_of
            found = found._replace(as_of=lambda key, time: derived(key, at(key, time)))
        return found

    def compile(self, task: TaskContext, forward: Forward, children: Children) -> TableProcess:
        below = stream_below(forward)
        names: dict[str, Any] = {"derive": self.derivation(task), "task": task}
        names["forward"] = below or forward
        keep, old = "", f"old = {self.derived_value.format(value='old')}\n"
        if self.store is not None:
            names["read"], names["write"] = bind_rows(task, self.store)
            keep, old = _KEEP, _OLD_ROW
        body = f"{self.first_lines}new = {self.derived_value.format(value='new')}\n"
        body += old if self.sends_old_values else "old = None\n"
        body += self.lines_before_keeping() + keep
        source = _FUNCTION.format(
            names=", ".join(names),
            body=indent(body, " " * 8).rstrip(),
            forward=_FORWARD if below is None else _FORWARD_TO_STREAM,
        )
        bind = make_function("bind", source, "table derived from another")
        process: TableProcess = bind(**names)
        return process

    def lines_before_keeping(self) -> str:
        """Return lines that may end an update, once ``new`` and ``old`` are known."""
        return ""

    @abstractmethod
    def derivation(self, task: TaskContext) -> Callable[[Any, Any], Any]:
        """Return the function ``derive(key, value)`` of ``derived_value``."""

    def derived_row(self, task: TaskContext) -> DerivedRow:
        """Return how a row is computed from the parent's when it is read."""
        derive = self.derivation(task)

        def derived(key: Any, row: StoredRow | None) -> StoredRow | None:
            value = None if row is None else derive(key, row[0])
            return None if row is None or value is None else (value, row[1], row[2])

        return derived


class TableFilterNode(DerivedNode):
    """The predicate never sees null values: they are tombstones and remain tombstones."""

    passes_on = True
    derived_value = "{value} if {value} is not None and derive(key, {value}) else None"

    predicate: Callable[[Any, Any], Any]
    keeps: bool = True
    use_versioned_semantics: bool = field(default=False, init=False)

    @property
    def operation(self) -> str:
        return "filter" if self.keeps else "filter_not"

    def __post_init__(self) -> None:
        # Old values that cost nothing save tombstones; they are not forced for that.
        self.sends_old_values = self.parent.enable_sending_old_values(force=False)

    def derivation(self, task: TaskContext) -> Callable[[Any, Any], Any]:
        predicate, keeps = self.predicate, self.keeps

        def matches(key: Any, value: Any) -> bool:
            found = predicate(key, value)
            if found is not True and found is not False:
                found = is_true(found, predicate, "predicate")
            return found is keeps

        return matches

    def derived_row(self, task: TaskContext) -> DerivedRow:
        matches = self.derivation(task)
        return lambda key, row: row if row is not None and matches(key, row[0]) else None

    def lines_before_keeping(self) -> str:
        knows_unmatched = self.sends_old_values and not self.use_versioned_semantics
        return "if new is None and old is None:\n    return\n" if knows_unmatched else ""


class TableMapValuesNode(DerivedNode):
    """The mapper never sees null values: they are tombstones and remain tombstones."""

    derived_value = "None if {value} is None else derive(key, {value})"

    mapper: Callable[[Any, Any], Any]

    def derivation(self, task: TaskContext) -> Callable[[Any, Any], Any]:
        return self.mapper


class AggregateResultsNode(TableMapValuesNode):
    """Makes the records of ``agg`` from its rows, and from differences of rows."""

    takes_deltas = True

    @property
    def sends_deltas(self) -> bool:
        return self.parent.sends_deltas
