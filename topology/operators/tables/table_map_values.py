"""map_values of a table: null values are tombstones and never reach the mapper."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from logstate.contracts.processing import TaskContext
from logstate.contracts.records import Headers
from logstate.contracts.stores import StoredRow, StoreSpec
from logstate.topology.graph.nodes import Process, TableNode, ValueGetter
from logstate.topology.operators.tables.rows import bind_rows, row_getter


class TableMapValuesNode(TableNode):
    """Kept only if its store is named; else rows are computed from the parent's when read."""

    def __init__(
        self,
        name: str,
        *,
        parent: TableNode,
        mapper: Callable[[Any, Any], Any],
        store: StoreSpec | None = None,
        declared_at: str | None = None,
    ) -> None:
        super().__init__(name, declared_at=declared_at)
        self.parent = parent
        self.mapper = mapper
        self.store = store

    def own_stores(self) -> tuple[StoreSpec, ...]:
        return () if self.store is None else (self.store,)

    def enable_sending_old_values(self, *, force: bool) -> bool:
        if self.store is not None or self.parent.enable_sending_old_values(force=force):
            self.sends_old_values = True
        return self.sends_old_values

    def materialize(self) -> None:
        if self.store is None:
            self.parent.materialize()

    def getter_store_names(self) -> tuple[str, ...]:
        return self.parent.getter_store_names() if self.store is None else (self.store.name,)

    def is_versioned(self) -> bool:
        return self.parent.is_versioned() if self.store is None else self.store.kind == "versioned"

    def value_getter(self, task: TaskContext) -> ValueGetter:
        if self.store is not None:
            return row_getter(task, self.store)
        mapper = self.mapper
        latest, as_of = self.parent.value_getter(task)

        def mapped(key: Any, row: StoredRow | None) -> StoredRow | None:
            value = None if row is None else mapper(key, row[0])
            if row is None or value is None:
                return None
            return (value, row[1], row[2])

        def mapped_latest(key: Any) -> StoredRow | None:
            return mapped(key, latest(key))

        if as_of is None:
            return ValueGetter(mapped_latest)
        at = as_of
        return ValueGetter(mapped_latest, lambda key, timestamp: mapped(key, at(key, timestamp)))

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
