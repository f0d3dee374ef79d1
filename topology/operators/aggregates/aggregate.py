"""count, reduce and aggregate of a grouped stream, without windows.

One node for all three; the step is that of :mod:`logstate.topology.operators.aggregates.fold`. Null
keys and null values are dropped and counted.
"""

from __future__ import annotations

from logstate.contracts.drops import null_dropper
from logstate.contracts.processing import TaskContext
from logstate.topology.graph.nodes import Children, Forward, Process
from logstate.topology.operators.aggregates.fold import FoldNode, make_fold

_HEAD = """\
if key is None or value is None:
    drop(key)
    return
"""


class AggregateNode(FoldNode):
    """One row per key."""

    def compile(self, task: TaskContext, forward: Forward, children: Children) -> Process:
        forward = self.commit_buffered(task, forward)
        drop = null_dropper(task.dropper, self.name)
        return make_fold(self, task, forward, head=_HEAD, kind="key", drop=drop)
