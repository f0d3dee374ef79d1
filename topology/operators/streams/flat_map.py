"""flat_map: any number of records for one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from logstate.contracts.processing import TaskContext
from logstate.contracts.records import Headers
from logstate.topology.graph.nodes import Children, Forward, Process, ProcessorNode


class FlatMapNode(ProcessorNode):
    """The mapper returns an iterable of ``(key, value)``; each goes all the way down in turn."""

    mapper: Callable[[Any, Any], Iterable[tuple[Any, Any]]]

    def compile(self, task: TaskContext, forward: Forward, children: Children) -> Process:
        mapper = self.mapper

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            for new_key, new_value in mapper(key, value):
                forward(new_key, new_value, timestamp, headers)

        return process
