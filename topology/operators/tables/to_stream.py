"""to_stream: a table's changelog as a stream, tombstones included.

Nothing happens here, so who forwards for every record may ask :func:`stream_below` what lies below,
and call that: one frame less.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from logstate.contracts.processing import StreamProcess, TaskContext
from logstate.contracts.records import Headers
from logstate.topology.graph.nodes import Children, Forward, Process, ProcessorNode


class ToStreamNode(ProcessorNode):
    """Forwards the new value of every change."""

    def compile(self, task: TaskContext, forward: Forward, children: Children) -> Process:
        def process(
            key: Any, new: Any, old: Any, timestamp: int, headers: Headers, is_latest: bool
        ) -> None:
            forward(key, new, timestamp, headers)

        process.stream_below = forward  # type: ignore[attr-defined]
        return process


def stream_below(forward: Callable[..., None]) -> StreamProcess | None:
    """What a closure of this operator passes records on to; None for every other closure."""
    return getattr(forward, "stream_below", None)
