"""filter and filter_not of a table: a row that stops matching becomes a tombstone.

Where old values are at hand nothing is sent for a row that did not match before either. Without
them every row that does not match sends a tombstone, because the node cannot know (Kafka Streams'
rule; materialise the table to save the tombstones).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Any

from logstate.contracts.processing import TaskContext
from logstate.topology.declaring.plain_functions import is_true
from logstate.topology.operators.tables.table_nodes import DerivedNode, DerivedRow


class TableFilterNode(DerivedNode):
    """The predicate never sees null values: they are tombstones and stay that."""

    derived_value = "{value} if {value} is not None and derive(key, {value}) else None"

    predicate: Callable[[Any, Any], Any]
    keeps: bool = True
    use_versioned_semantics: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        # Old values that cost nothing save tombstones; none are enforced for that.
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
