"""map_values of a table: null values are tombstones and never reach the mapper."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from logstate.contracts.processing import TaskContext
from logstate.contracts.records import Headers
from logstate.contracts.stores import StoredRow
from logstate.topology.graph.nodes import Process
from logstate.topology.operators.tables.rows import bind_rows
from logstate.topology.operators.tables.table_nodes import DerivedNode, DerivedRow


class TableMapValuesNode(DerivedNode):
    """The mapper never sees null values: they are tombstones and stay that."""

    mapper: Callable[[Any, Any], Any]

    def derived_row(self, task: TaskContext) -> DerivedRow:
        mapper = self.mapper

        def mapped(key: Any, row: StoredRow | None) -> StoredRow | None:
            value = None if row is None else mapper(key, row[0])
            if row is None or value is None:
                return None
            return (value, row[1], row[2])

        return mapped

    def compile(
        self, task: TaskContext, forward: Callable[..., None], children: Mapping[str, Process]
    ) -> Process:
        mapper = self.mapper
        with_old = self.sends_old_values

        def derived(
            key: Any, new: Any, old: Any, timestamp: int, headers: Headers, is_latest: bool
        ) -> None:
            new = None if new is None else mapper(key, new)
            old = mapper(key, old) if with_old and old is not None else None
            forward(key, new, old, timestamp, headers, is_latest)

        if self.store is None:
            return derived
        read, write = bind_rows(task, self.store)

        def stored(
            key: Any, new: Any, old: Any, timestamp: int, headers: Headers, is_latest: bool
        ) -> None:
            new = None if new is None else mapper(key, new)
            row = read(key) if with_old else None
            written = write(key, new, timestamp, timestamp, headers)
            if written is not None:
                old = None if row is None else row[0]
                forward(key, new, old, timestamp, headers, written)

        return stored
