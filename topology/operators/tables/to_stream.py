"""to_stream: a table's changelog as a stream, tombstones included.

Nothing happens here, so an operator that forwards every record may get the next closure from
:func:`stream_below`, and call that directly, which saves a frame.
"""

from __future__ import annotations

from collections.abc import Callable
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


class ToStreamNode(ProcessorNode):
    """Forwards the new value of every change."""

    forwards_each = True
    takes_deltas = True

    def compile(self, task: TaskContext, forward: Forward, children: Children) -> Process:
        def process(
            key: Any, new: Any, old: Any, timestamp: int, headers: Headers, is_latest: bool
        ) -> None:
            forward(key, new, timestamp, headers)

        process.stream_below = forward  # type: ignore[attr-defined]
        return process


def stream_below(forward: Callable[..., None]) -> StreamProcess | None:
    """Return the closure that this operator forwards to; None for every other closure."""
    return getattr(forward, "stream_below", None)
