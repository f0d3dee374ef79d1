"""filter and filter_not of a table: a row that stops matching becomes a tombstone.

Where old values are at hand nothing is sent for a row that did not match before either. Without
them every row that does not match sends a tombstone, because the node cannot know (Kafka Streams'
rule; materialise the table to save the tombstones).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from logstate.contracts.processing import TaskContext
from logstate.contracts.records import Headers
from logstate.contracts.stores import StoredRow, StoreSpec
from logstate.topology.graph.nodes import Process, TableNode, ValueGetter
from logstate.topology.operators.tables.rows import bind_rows, row_getter


class TableFilterNode(TableNode):
    """The predicate never sees null values: they are tombstones and stay that."""

    def __init__(
        self,
        name: str,
        *,
        parent: TableNode,
        predicate: Callable[[Any, Any], Any],
        keeps: bool = True,
        store: StoreSpec | None = None,
        declared_at: str | None = None,
    ) -> None:
        super().__init__(name, declared_at=declared_at)
        self.parent = parent
        self.predicate = predicate
        self.keeps = keeps
        self.store = store
        self.use_versioned_semantics = False
        # Old values that cost nothing save tombstones; none are enforced for that.
        self.sends_old_values = parent.enable_sending_old_values(force=False)

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
        matches = self._matcher()
        latest, as_of = self.parent.value_getter(task)

        def filtered_latest(key: Any) -> StoredRow | None:
            row = latest(key)
            return row if row is not None and matches(key, row[0]) else None

        if as_of is None:
            return ValueGetter(filtered_latest)
        at = as_of

        def filtered_as_of(key: Any, timestamp: int) -> StoredRow | None:
            row = at(key, timestamp)
            return row if row is not None and matches(key, row[0]) else None

        return ValueGetter(filtered_latest, filtered_as_of)

    def _matcher(self) -> Callable[[Any, Any], Any]:
        predicate = self.predicate
        return predicate if self.keeps else lambda key, value: not predicate(key, value)

    def compile(
        self, task: TaskContext, forward: Callable[..., None], children: Mapping[str, Process]
    ) -> Process:
        matches = self._matcher()
        with_old = self.sends_old_values
        skips_unmatched = with_old and not self.use_versioned_semantics

        def derived(
            key: Any, new: Any, old: Any, timestamp: int, headers: Headers, is_latest: bool
        ) -> None:
            if new is not None and not matches(key, new):
                new = None
            if not with_old or (old is not None and not matches(key, old)):
                old = None
            if skips_unmatched and new is None and old is None:
                return
            forward(key, new, old, timestamp, headers, is_latest)

        if self.store is None:
            return derived
        read, write = bind_rows(task, self.store)

        def stored(
            key: Any, new: Any, old: Any, timestamp: int, headers: Headers, is_latest: bool
        ) -> None:
            if new is not None and not matches(key, new):
                new = None
            row = read(key) if with_old else None
            old = None if row is None else row[0]
            if skips_unmatched and new is None and old is None:
                return
            written = write(key, new, timestamp, timestamp, headers)
            if written is not None:
                forward(key, new, old, timestamp, headers, written)

        return stored
