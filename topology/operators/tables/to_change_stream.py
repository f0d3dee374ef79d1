"""to_change_stream: what a table's rows were and became, as a stream.

Old values are what the table above sends to whoever subtracts. Only a change of the current row is
one here: an update that a versioned table put below a newer one is left out, so that the old value
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
