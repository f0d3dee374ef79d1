"""transform_values of a table: map_values with stores and a context.

The transformer sees null values too, and may be called twice per update (for the new and the old
value) and again whenever a join reads a row: it must be a function of the row and of its stores.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from logstate.contracts.processing import TaskContext
from logstate.contracts.records import Headers
from logstate.contracts.stores import StoredRow, StoreSpec
from logstate.topology.graph.nodes import Process, TableNode, ValueGetter
from logstate.topology.operators.streams.process import Connections, OperatorContext
from logstate.topology.operators.tables.rows import bind_rows, row_getter
from logstate.topology.processor.value_transformer import ValueTransformer


class TableTransformValuesNode(TableNode):
    """Kept only if its store is named; else rows are computed from the parent's when read."""

    def __init__(
        self,
        name: str,
        *,
        parent: TableNode,
        supplier: Callable[[], ValueTransformer[Any, Any, Any]],
        connections: Connections,
        store: StoreSpec | None = None,
        schedule_name: str | None = None,
        declared_at: str | None = None,
    ) -> None:
        super().__init__(name, declared_at=declared_at)
        self.schedule_name = schedule_name or name
        self.parent = parent
        self.supplier = supplier
        self.connections = connections
        self.store = store

    def own_stores(self) -> tuple[StoreSpec, ...]:
        own = () if self.store is None else (self.store,)
        return (*self.connections.owned, *own)

    def store_names(self) -> tuple[str, ...]:
        own = () if self.store is None else (self.store.name,)
        return (*self.connections.names, *own)

    def enable_sending_old_values(self, *, force: bool) -> bool:
        if self.store is not None or self.parent.enable_sending_old_values(force=force):
            self.sends_old_values = True
        return self.sends_old_values

    def materialize(self) -> None:
        if self.store is None:
            self.parent.materialize()

    def getter_store_names(self) -> tuple[str, ...]:
        if self.store is not None:
            return (self.store.name,)
        return (*self.parent.getter_store_names(), *self.connections.names)

    def is_versioned(self) -> bool:
        return self.parent.is_versioned() if self.store is None else self.store.kind == "versioned"

    def value_getter(self, task: TaskContext) -> ValueGetter:
        if self.store is not None:
            return row_getter(task, self.store)
        transform = self._transform(task, f"{self.schedule_name}-reader")
        latest, as_of = self.parent.value_getter(task)

        def transformed(key: Any, row: StoredRow | None) -> StoredRow | None:
            value = transform(key, None if row is None else row[0])
            if value is None:
                return None
            return (value, -1 if row is None else row[1], None)

        def transformed_latest(key: Any) -> StoredRow | None:
            return transformed(key, latest(key))

        if as_of is None:
            return ValueGetter(transformed_latest)
        at = as_of
        return ValueGetter(
            transformed_latest, lambda key, timestamp: transformed(key, at(key, timestamp))
        )

    def _transform(self, task: TaskContext, schedule_name: str) -> Callable[[Any, Any], Any]:
        transformer = self.supplier()
        context = OperatorContext(task, self.name, self.connections, self.declared_at)
        context.schedule_name = schedule_name
        transformer.init(context)
        task.on_close(transformer.close)
        return transformer.transform

    def compile(
        self, task: TaskContext, forward: Callable[..., None], children: Mapping[str, Process]
    ) -> Process:
        transform = self._transform(task, self.schedule_name)
        with_old = self.sends_old_values

        def derived(
            key: Any, new: Any, old: Any, timestamp: int, headers: Headers, is_latest: bool
        ) -> None:
            task.timestamp = timestamp
            task.headers = headers
            new = transform(key, new)
            old = transform(key, old) if with_old else None
            forward(key, new, old, timestamp, headers, is_latest)

        if self.store is None:
            return derived
        read, write = bind_rows(task, self.store)

        def stored(
            key: Any, new: Any, old: Any, timestamp: int, headers: Headers, is_latest: bool
        ) -> None:
            task.timestamp = timestamp
            task.headers = headers
            new = transform(key, new)
            row = read(key) if with_old else None
            written = write(key, new, timestamp, timestamp, headers)
            if written is not None:
                old = None if row is None else row[0]
                forward(key, new, old, timestamp, headers, written)

        return stored
