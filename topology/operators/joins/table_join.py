"""Join of two tables by primary key: inner, left and outer; rows meet whenever either changes.

Two :class:`TableJoinNode` objects, one below each table, read the OTHER table's current row; the
:class:`TableJoinMergeNode` below both unites their results and keeps them, if it has a store.

Semantics, exactly Kafka Streams' (`KTableKTable*Join`):

- triggered by either table. A row of the result exists if both have one (inner), if the left
  has one (left), or if either has (outer); if it ceases to, a tombstone is sent.
- timestamp: the larger of both rows'; of the record that triggered it if there is one row. The
  headers are the record's.
- null keys are dropped and counted. An update that leaves the result as it was may still be sent:
  an inner join sends a tombstone for every tombstone of one side while the other has a row, a left
  join one for every tombstone of the left side; but left and outer joins stay silent if there
  was and is nothing on either side.
- old value, if something downstream needs it: joined from the record's own old value and the
  other table's CURRENT row. Of a table with ``emit="commit"`` that is the row that was emitted
  last, where Kafka Streams reads its cache (and subtracts what it has not added: KAFKA-4609).
- versioned tables (KIP-914): updates older than the newest of their key are dropped and counted;
  of the other table the current row is read. The result counts as not versioned, unless it is kept
  in a versioned store.

The tables must be co-partitioned; nothing is repartitioned.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Any, Literal, TypeAlias

from logstate.contracts.drops import DropReason
from logstate.contracts.processing import SCALAR_TYPES, TableProcess, TaskContext
from logstate.contracts.records import Headers
from logstate.contracts.stores import StoredRow, StoreSpec
from logstate.topology.graph.nodes import (
    Children,
    Forward,
    Process,
    ProcessorNode,
    TableNode,
    ValueGetter,
)
from logstate.topology.operators.tables.rows import ReadRow, bind_rows, row_getter

JoinKind: TypeAlias = Literal["inner", "left", "outer"]


class TableJoinNode(ProcessorNode):
    """One side: reacts to ``this`` table's changes and reads the ``other``'s rows.

    ``joiner(key, left, right)`` on both sides. ``left`` and ``right`` say which tables may lack a
    row: an absent one is passed as None.
    """

    has_table_edge = True

    side: Literal["left", "right"]
    kind: JoinKind
    this: TableNode
    other: TableNode
    joiner: Callable[[Any, Any, Any], Any]
    sends_old_values: bool = field(default=False, init=False)
    use_versioned_semantics: bool = field(default=False, init=False)

    @property
    def needs_this(self) -> bool:
        """No result without a row of this table."""
        return self.kind == "inner" or (self.kind == "left" and self.side == "left")

    @property
    def needs_other(self) -> bool:
        """No result without a row of the other table."""
        return self.kind == "inner" or (self.kind == "left" and self.side == "right")

    def store_names(self) -> tuple[str, ...]:
        return self.other.getter_store_names()

    def enable_sending_old_values(self) -> None:
        """Old results are joined from old rows, so both tables have to send theirs."""
        self.this.enable_sending_old_values(force=True)
        self.other.enable_sending_old_values(force=True)
        self.sends_old_values = True

    def compile(self, task: TaskContext, forward: Forward, children: Children) -> Process:
        other_rows = self.other.value_getter(task)
        # With old values the join subtracts what it has sent, which came from forwarded rows.
        latest = other_rows.as_forwarded() if self.sends_old_values else other_rows.latest
        join = self._join()
        needs_this, needs_other = self.needs_this, self.needs_other
        skips_older = self.use_versioned_semantics
        sends_old = self.sends_old_values
        drop_null_key = task.dropper(self.name, DropReason.NULL_KEY)
        drop_older = task.dropper(self.name, DropReason.OUT_OF_ORDER)

        def process(
            key: Any, new: Any, old: Any, timestamp: int, headers: Headers, is_latest: bool
        ) -> None:
            if key is None:
                drop_null_key()
                return
            if skips_older and not is_latest:
                drop_older()
                return
            row = latest(key)
            if row is None:
                if needs_other or (new is None and old is None):
                    return
                other = None
            else:
                other = row[0]
                if row[1] > timestamp:
                    timestamp = row[1]
            # A missing row counts only if the result can do without it.
            has_new = new is not None or (other is not None and not needs_this)
            joined = join(key, new, other) if has_new else None
            before = None
            if sends_old and (old is not None or (other is not None and not needs_this)):
                if has_new and type(other) not in SCALAR_TYPES:
                    # The joiner may have changed it, and the result may be it.
                    row = latest(key)
                    other = None if row is None else row[0]
                before = join(key, old, other)
            forward(key, joined, before, timestamp, headers, is_latest)

        return process

    def _join(self) -> Callable[[Any, Any, Any], Any]:
        """Return the joiner with this side's value first."""
        joiner = self.joiner
        return joiner if self.side == "left" else lambda key, this, other: joiner(key, other, this)


class TableJoinMergeNode(TableNode):
    """The joined table: the union of both sides' results, kept in ``store`` if there is one."""

    left: TableJoinNode
    right: TableJoinNode
    store: StoreSpec | None

    def enable_sending_old_values(self, *, force: bool) -> bool:
        # Kafka Streams materialises both tables for this even if it is not enforced.
        self.left.enable_sending_old_values()
        self.right.enable_sending_old_values()
        self.sends_old_values = True
        return True

    def enable_exact_changes(self) -> None:
        self.sends_exact_changes = True
        self.left.this.enable_exact_changes()
        self.left.other.enable_exact_changes()

    def getter_store_names(self) -> tuple[str, ...]:
        if self.store is not None:
            return (self.store.name,)
        names = (*self.left.this.getter_store_names(), *self.left.other.getter_store_names())
        return tuple(dict.fromkeys(names))

    def value_getter(self, task: TaskContext) -> ValueGetter:
        """Return a getter of the store, or one that joins the current rows of both tables."""
        if self.store is not None:
            return row_getter(task, self.store)
        this, other = self.left.this.value_getter(task), self.left.other.value_getter(task)
        found = ValueGetter(
            self._joined_rows(this.latest, other.latest), lags=this.lags or other.lags
        )
        if this.forwarded is None and other.forwarded is None:
            return found
        forwarded = self._joined_rows(this.as_forwarded(), other.as_forwarded())
        return found._replace(forwarded=forwarded)

    def _joined_rows(self, left_row: ReadRow, right_row: ReadRow) -> ReadRow:
        joiner, kind = self.left.joiner, self.left.kind

        def joined(key: Any) -> StoredRow | None:
            left = left_row(key)
            if left is None and kind != "outer":
                return None
            right = right_row(key)
            if right is None and (left is None or kind == "inner"):
                return None
            value = joiner(key, left and left[0], right and right[0])
            newest = max(row[1] for row in (left, right) if row is not None)
            return None if value is None else (value, newest, None)

        return joined

    def compile(self, task: TaskContext, forward: Forward, children: Children) -> TableProcess:
        if self.store is None:
            return self._compile_pass(forward)
        _, write = bind_rows(task, self.store)
        sends_old = self.sends_old_values

        def keep(
            key: Any, new: Any, old: Any, timestamp: int, headers: Headers, is_latest: bool
        ) -> None:
            written = write(key, new, timestamp, timestamp, headers)
            if written is not None:
                forward(key, new, old if sends_old else None, timestamp, headers, written)

        return keep

    def _compile_pass(self, forward: TableProcess) -> TableProcess:
        if self.sends_old_values or not self.left.sends_old_values:
            return forward

        def without_old(
            key: Any, new: Any, old: Any, timestamp: int, headers: Headers, is_latest: bool
        ) -> None:
            forward(key, new, None, timestamp, headers, is_latest)

        return without_old
