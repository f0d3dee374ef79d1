"""count, reduce and aggregate of a grouped stream, without windows.

One node for all three; the step is that of :mod:`logstate.topology.operators.aggregates.fold`. Null
keys and null values are dropped and counted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from logstate.contracts.drops import null_dropper
from logstate.contracts.processing import TaskContext
from logstate.contracts.stores import StoreSpec
from logstate.contracts.topic_names import changelog_name
from logstate.serdes.built_in import equal_as_bytes
from logstate.topology.graph.nodes import Children, Forward, Process
from logstate.topology.operators.aggregates.emit_on_commit import hold_until_commit
from logstate.topology.operators.aggregates.fold import FoldNode, make_fold

_HEAD = """\
if key is None or value is None:
    drop(key)
    return
"""


class AggregateNode(FoldNode):
    """One row per key."""

    def compile(self, task: TaskContext, forward: Forward, children: Children) -> Process:
        if self.emit == "commit":
            forward = hold_until_commit(task, forward, identity=key_identity(task, self.store))
        drop = null_dropper(task.dropper, self.name)
        return make_fold(self, task, forward, head=_HEAD, kind="key", drop=drop)


def key_identity(task: TaskContext, store: StoreSpec) -> Callable[[Any], bytes] | None:
    """What the store's keys are told apart by: None if the objects will do, else their bytes."""
    if equal_as_bytes(store.key):
        return None
    topic = task.topic_name(changelog_name(store.name), is_internal=True)
    return store.key.serializer(topic, True)
