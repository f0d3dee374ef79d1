"""transform_values of a table: map_values with stores and a context.

The transformer sees null values, too, and may be called twice per update (for the new and the old
value) and again whenever a join reads a row: it must be a function of the row and of its stores.
When a row is read there is no current record, so its topic and offset are unknown.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from logstate.contracts.processing import TaskContext
from logstate.contracts.stores import StoredRow, StoreSpec
from logstate.topology.declaring.plain_functions import begin, end, made_by
from logstate.topology.operators.streams.process import ConnectedStores, OperatorContext
from logstate.topology.operators.tables.derived_tables import DerivedNode, DerivedRow
from logstate.topology.processor.value_transformer import ValueTransformer


class TableTransformValuesNode(DerivedNode):
    """Schedules of a transformer are committed under ``schedule_name``."""

    #: looked up at each call: init() may choose another
    derived_value = "derive.transform(key, {value})"
    first_lines = "task.timestamp, task.headers = timestamp, headers\n"

    supplier: Callable[[], ValueTransformer[Any, Any, Any]]
    connections: ConnectedStores
    schedule_name: str

    def __post_init__(self) -> None:
        if self.store is not None:  # the transformer may read the rows of its own result
            names = (*self.connections.names, self.store.name)
            self.connections.names = tuple(dict.fromkeys(names))

    def own_stores(self) -> tuple[StoreSpec, ...]:
        return (*self.connections.owned, *super().own_stores())

    def store_names(self) -> tuple[str, ...]:
        return self.connections.names

    def getter_store_names(self) -> tuple[str, ...]:
        names = super().getter_store_names()
        return names if self.store is not None else (*names, *self.connections.names)

    def derivation(self, task: TaskContext) -> Any:
        return self._transformer(task, self.schedule_name)

    def derived_row(self, task: TaskContext) -> DerivedRow:
        transformer = self._transformer(task, f"{self.schedule_name}-reader")

        def transformed(key: Any, row: StoredRow | None) -> StoredRow | None:
            outer = task.topic, task.partition, task.offset, task.timestamp, task.headers
            # Rows that the transformer writes have the time and the headers of this row. There is
            # no time without a row; Kafka Streams would fail at such a write.
            task.topic, task.partition, task.offset = None, -1, -1
            task.headers = None
            if row is not None:
                task.timestamp, task.headers = row[1], row[2]
            try:
                value = transformer.transform(key, None if row is None else row[0])
            finally:  # restored after a failure, too, which belongs to the current record
                task.topic, task.partition, task.offset, task.timestamp, task.headers = outer
            if value is None:
                return None
            return (value, -1, task.headers) if row is None else (value, row[1], row[2])

        return transformed

    def _transformer(
        self, task: TaskContext, schedule_name: str
    ) -> ValueTransformer[Any, Any, Any]:
        transformer: ValueTransformer[Any, Any, Any] = made_by(
            self.supplier, "value transformer", ("init", "transform", "close")
        )
        context = OperatorContext(task, self.name, self.connections, self.declared_at)
        context.schedule_name = schedule_name

        def start() -> None:
            begin(transformer, context, "value transformer")
            task.on_close(self.name, lambda: end(transformer, "value transformer"))

        task.starting.append(start)
        return transformer
