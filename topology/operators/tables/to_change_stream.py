"""to_change_stream: old and new values of a table's rows, as a stream.

Old values are those that the table sends for subtraction. Only changes of the current row are
forwarded: an update that a versioned table put below a newer one is left out, so that the old value
of each change is the new value of the one before it.
"""

from __future__ import annotations

from typing import Any

from logstate.contracts.processing import StreamProcess, TaskContext
from logstate.contracts.records import Change, Headers
from logstate.topology.graph.nodes import Children, Forward, Process, ProcessorNode


class ToChangeStreamNode(ProcessorNode):
    """Forwards every change of the current row as a :class:`Change`."""

    def compile(self, task: TaskContext, forward: Forward, children: Children) -> Process:
        send: StreamProcess = forward

        def process(
            key: Any, new: Any, old: Any, timestamp: int, headers: Headers, is_latest: bool
        ) -> None:
            if is_latest:
                send(key, Change(new, old), timestamp, headers)

        return process
