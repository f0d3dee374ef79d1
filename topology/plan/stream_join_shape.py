"""The logical node of a stream-stream join, and its self-join form.

Two window nodes in front (one per side, each filling its own store), then both join nodes and the
node that unites their outputs. As a self-join (KIP-862) one window node and one store remain.
"""

from __future__ import annotations

from dataclasses import field

from logstate.topology.graph.logical import LogicalNode, ProcessorLogicalNode
from logstate.topology.graph.nodes import ProcessorNode
from logstate.topology.graph.plan_builder import PlanBuilder
from logstate.topology.operators.joins.stream_join_window import StreamJoinWindowNode


class StreamJoinLogicalNode(LogicalNode):
    """Both join sides and their union."""

    this_window: ProcessorLogicalNode
    other_window: ProcessorLogicalNode
    this_join: ProcessorNode
    other_join: ProcessorNode
    union: ProcessorNode
    self_join: ProcessorNode
    is_self_join: bool = field(default=False, init=False)

    def become_self_join(self) -> None:
        """Keep one side only: a record always finds itself, so left and outer joins qualify too."""
        for parent in list(self.other_window.parents):
            parent.remove_child(self.other_window)
        self.is_self_join = True

    def write(self, plan: PlanBuilder) -> None:
        if self.is_self_join:
            plan.add_processor(self.self_join, [self.this_window.name])
            return
        if not set(self.this_window.parents).isdisjoint(self.other_window.parents):
            for window in (self.this_window.node, self.other_window.node):
                assert isinstance(window, StreamJoinWindowNode)
                window.is_shared = True
        plan.add_processor(self.this_join, [self.this_window.name])
        plan.add_processor(self.other_join, [self.other_window.name])
        plan.add_processor(self.union, [self.this_join.name, self.other_join.name])
