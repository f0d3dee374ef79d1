"""to_stream: a table's changelog as a stream, tombstones included."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from logstate.processing import TaskContext
from logstate.records import Headers
from logstate.topology.graph import Process, ProcessorNode


class ToStreamNode(ProcessorNode):
    """Forwards the new value of every change."""

    def compile(
        self, task: TaskContext, forward: Callable[..., None], children: Mapping[str, Process]
    ) -> Process:
        def process(
            key: Any, new: Any, old: Any, timestamp: int, headers: Headers, is_latest: bool
        ) -> None:
            forward(key, new, timestamp, headers)

        return process
