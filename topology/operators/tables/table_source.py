"""The node that turns a stream of upserts into a table: below `table()` and in `to_table()`.

The store exists if it is named or if something downstream reads rows or needs old values. Without
one the node only relabels records as changes.
"""

from __future__ import annotations

from typing import Any

from logstate.contracts.drops import DropReason
from logstate.contracts.errors import TopologyError
from logstate.contracts.processing import TaskContext
from logstate.contracts.records import Headers
from logstate.contracts.stores import StoreSpec
from logstate.topology.graph.nodes import Children, Forward, Process, TableNode, ValueGetter
from logstate.topology.operators.streams.late_records import expired_output
from logstate.topology.operators.tables.rows import bind_rows, row_getter


class TableSourceNode(TableNode):
    """Drops null keys (counted); a null value deletes the row. Late rows overwrite newer ones;
    only a versioned store orders them by time. One that is older than its history is dropped and
    counted, or emitted with ``late``.
    """

    store: StoreSpec | None

    def materialize(self) -> None:
        if self.store is None:
            raise TopologyError(
                f"Table {self.name!r} needs a store: an operator below it reads its rows or needs"
                " their old values (a join, group_by, to_change_stream or aggregation), but the"
                ' table has none. Give it one: store="some-name".',
                declared_at=self.declared_at,
            )

    def enable_sending_old_values(self, *, force: bool) -> bool:
        if self.store is None and not force:
            return False
        self.materialize()
        self.sends_old_values = True
        return True

    def getter_store_names(self) -> tuple[str, ...]:
        self.materialize()
        assert self.store is not None
        return (self.store.name,)

    def value_getter(self, task: TaskContext) -> ValueGetter:
        assert self.store is not None
        return row_getter(task, self.store)

    def compile(self, task: TaskContext, forward: Forward, children: Children) -> Process:
        drop = task.dropper(self.name, DropReason.NULL_KEY)

        def relabel(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if key is None:
                drop()
                return
            forward(key, value, None, timestamp, headers, True)

        if self.store is None:
            return relabel
        too_old, emit_late = expired_output(self, children)
        read, write = bind_rows(task, self.store, too_old)

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if key is None:
                drop()
                return
            is_latest = write(key, value, timestamp, timestamp, headers)
            if is_latest is not None:
                forward(key, value, None, timestamp, headers, is_latest)
            elif emit_late is not None:
                emit_late(key, value, timestamp, headers)

        def process_with_old(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if key is None:
                drop()
                return
            row = read(key)
            is_latest = write(key, value, timestamp, timestamp, headers)
            if is_latest is not None:
                old = None if row is None else row[0]
                forward(key, value, old, timestamp, headers, is_latest)
            elif emit_late is not None:
                emit_late(key, value, timestamp, headers)

        return process_with_old if self.sends_old_values else process
