"""The table of a cogroup (KIP-150): several grouped streams, one aggregate.

Every stream has a separate aggregation node, with its own aggregator AND its own stream time, but
all of them update the same store; their outputs meet here and pass through unchanged. So lateness
is determined per input stream: an input that lags is not made late by another that is ahead. Only
with ``emit="close"``, which Kafka Streams does not support here, all share one stream time, so that
a window has only one final result. With ``emit="commit"`` updates wait here, not below each stream:
the last update of a row is the last of all streams.
"""

from __future__ import annotations

from logstate.contracts.processing import TableProcess, TaskContext
from logstate.contracts.stores import StoreSpec
from logstate.topology.declaring.windows import Emit
from logstate.topology.graph.nodes import Children, Forward, TableNode, ValueGetter
from logstate.topology.operators.aggregates.emit_on_commit import (
    Difference,
    hold_rows_until_commit,
)
from logstate.topology.operators.tables.rows import MaterializedNode


class CogroupMergeNode(MaterializedNode):
    """Passes on the results of ``parents``, the aggregations over ``store``."""

    parents: tuple[TableNode, ...]
    emit: Emit = "update"
    #: of two aggregates; not None: what is emitted on commit are differences
    difference: Difference | None = None

    @property
    def sends_deltas(self) -> bool:
        return self.difference is not None

    def own_stores(self) -> tuple[StoreSpec, ...]:
        return ()  # the aggregations'

    def enable_sending_old_values(self, *, force: bool) -> bool:
        for parent in self.parents:
            parent.enable_sending_old_values(force=force)
        self.sends_old_values = True
        return True

    def enable_exact_changes(self) -> None:
        for parent in self.parents:
            parent.enable_exact_changes()
        self.sends_exact_changes = True

    def value_getter(self, task: TaskContext) -> ValueGetter:
        return self.parents[0].value_getter(task)

    def compile(self, task: TaskContext, forward: Forward, children: Children) -> TableProcess:
        if self.emit != "commit":
            return forward
        return hold_rows_until_commit(
            task,
            forward,
            self.store,
            sends_old_values=self.sends_old_values,
            difference=self.difference,
        )
