"""peek and foreach: a side effect per record.

Side effects happen at least once even under exactly-once: a record that is processed again after a
crash is peeked at again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from logstate.contracts.processing import TaskContext
from logstate.contracts.records import Headers
from logstate.topology.declaring.plain_functions import refuse_unfinished
from logstate.topology.graph.nodes import Children, Forward, Process, ProcessorNode


class PeekNode(ProcessorNode):
    """Calls the action, then passes the record on (foreach simply has no children)."""

    action: Callable[[Any, Any], Any]

    def compile(self, task: TaskContext, forward: Forward, children: Children) -> Process:
        action = self.action

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            result = action(key, value)
            if result is not None:
                refuse_unfinished(result, action, "action")
            forward(key, value, timestamp, headers)

        return process
