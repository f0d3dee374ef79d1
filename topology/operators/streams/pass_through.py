"""merge, the branches of a split, and the union of a join's two sides: records pass unchanged."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from logstate.contracts.processing import TaskContext
from logstate.topology.graph.nodes import Process, ProcessorNode


class PassThroughNode(ProcessorNode):
    """Costs nothing when it runs: its closure is that of its children."""

    def compile(
        self, task: TaskContext, forward: Callable[..., None], children: Mapping[str, Process]
    ) -> Process:
        return forward
