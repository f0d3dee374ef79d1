"""map_values of a table: null values are tombstones and never reach the mapper."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from logstate.contracts.processing import TaskContext
from logstate.contracts.stores import StoredRow
from logstate.topology.operators.tables.table_nodes import DerivedNode, DerivedRow


class TableMapValuesNode(DerivedNode):
    """The mapper never sees null values: they are tombstones and stay that."""

    derived_value = "None if {value} is None else derive(key, {value})"

    mapper: Callable[[Any, Any], Any]

    def derivation(self, task: TaskContext) -> Callable[[Any, Any], Any]:
        return self.mapper

    def derived_row(self, task: TaskContext) -> DerivedRow:
        mapper = self.mapper

        def mapped(key: Any, row: StoredRow | None) -> StoredRow | None:
            value = None if row is None else mapper(key, row[0])
            if row is None or value is None:
                return None
            return (value, row[1], row[2])

        return mapped
