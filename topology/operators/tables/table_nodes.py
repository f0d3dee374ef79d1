"""Tables with a store of their own, and tables whose rows follow from their parent's.

What every operator that makes a table says about itself: where its rows are read from, whether they
are versioned, and who can send old values.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, TypeAlias

from logstate.contracts.processing import TaskContext
from logstate.contracts.stores import StoredRow, StoreSpec
from logstate.topology.graph.nodes import TableNode, ValueGetter
from logstate.topology.operators.tables.rows import row_getter

#: derived(key, row of the parent) -> row
DerivedRow: TypeAlias = "Callable[[Any, StoredRow | None], StoredRow | None]"


class MaterializedNode(TableNode):
    """A table that is kept in ``store``."""

    store: StoreSpec

    def getter_store_names(self) -> tuple[str, ...]:
        return (self.store.name,)

    def value_getter(self, task: TaskContext) -> ValueGetter:
        return row_getter(task, self.store)

    def is_versioned(self) -> bool:
        return self.store.traits.is_versioned


class DerivedNode(TableNode):
    """Kept only if its store is named; else rows are computed from the parent's when read."""

    parent: TableNode
    store: StoreSpec | None = None

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
        return self.parent.is_versioned() if self.store is None else self.store.traits.is_versioned

    def value_getter(self, task: TaskContext) -> ValueGetter:
        if self.store is not None:
            return row_getter(task, self.store)
        derived = self.derived_row(task)
        latest, as_of = self.parent.value_getter(task)
        if as_of is None:
            return ValueGetter(lambda key: derived(key, latest(key)))
        at = as_of
        return ValueGetter(
            lambda key: derived(key, latest(key)),
            lambda key, timestamp: derived(key, at(key, timestamp)),
        )

    @abstractmethod
    def derived_row(self, task: TaskContext) -> DerivedRow:
        """How a row is computed from the parent's."""
