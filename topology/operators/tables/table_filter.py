"""filter and filter_not of a table: a row that stops matching becomes a tombstone.

Where old values are at hand nothing is sent for a row that did not match before either. Without
them every row that does not match sends a tombstone, because the node cannot know (Kafka Streams'
rule; materialise the table to save the tombstones).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

from logstate.contracts.processing import TaskContext
from logstate.contracts.records import Headers
from logstate.topology.declaring.plain_functions import is_true
from logstate.topology.graph.nodes import Process
from logstate.topology.operators.tables.rows import bind_rows
from logstate.topology.operators.tables.table_nodes import DerivedNode, DerivedRow


class TableFilterNode(DerivedNode):
    """The predicate never sees null values: they are tombstones and stay that."""

    predicate: Callable[[Any, Any], Any]
    keeps: bool = True
    use_versioned_semantics: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        # Old values that cost nothing save tombstones; none are enforced for that.
        self.sends_old_values = self.parent.enable_sending_old_values(force=False)

    def derived_row(self, task: TaskContext) -> DerivedRow:
        matches = self._matcher()
        return lambda key, row: row if row is not None and matches(key, row[0]) else None

    def _matcher(self) -> Callable[[Any, Any], Any]:
        predicate, keeps = self.predicate, self.keeps

        def matches(key: Any, value: Any) -> bool:
            found = predicate(key, value)
            if found is not True and found is not False:
                found = is_true(found, predicate, "predicate")
            return found is keeps

        return matches

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
