"""merge, the branches of a split, and the union of a join's two sides: records pass unchanged."""

from __future__ import annotations

from logstate.contracts.processing import TaskContext
from logstate.topology.graph.nodes import Children, Forward, Process, ProcessorNode


class PassThroughNode(ProcessorNode):
    """Costs nothing when it runs: its closure is that of its children."""

    def compile(self, task: TaskContext, forward: Forward, children: Children) -> Process:
        return forward
