"""The node in front of a repartition topic: drops null keys, which have no partition."""

from __future__ import annotations

from typing import Any

from logstate.contracts.drops import DropReason
from logstate.contracts.processing import TaskContext
from logstate.contracts.records import Headers
from logstate.topology.graph.nodes import Children, Forward, Process, ProcessorNode


class RepartitionFilterNode(ProcessorNode):
    """Passes everything, or everything with a key. What has none is counted; not by the JVM."""

    drops_null_keys: bool

    def compile(self, task: TaskContext, forward: Forward, children: Children) -> Process:
        if not self.drops_null_keys:
            return forward

        drop = task.dropper(self.name, DropReason.NULL_GROUP_KEY)

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if key is None:
                drop()
                return
            forward(key, value, timestamp, headers)

        return process
