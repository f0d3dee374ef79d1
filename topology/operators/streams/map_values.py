"""map_values of a stream: a new value per record, the key untouched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from logstate.contracts.processing import TaskContext
from logstate.contracts.records import Headers
from logstate.topology.graph.nodes import Children, Forward, Process, ProcessorNode


class MapValuesNode(ProcessorNode):
    """The mapper sees null values too."""

    mapper: Callable[[Any, Any], Any]

    def compile(self, task: TaskContext, forward: Forward, children: Children) -> Process:
        mapper = self.mapper
        by_value: Callable[[Any], Any] | None = getattr(mapper, "by_value", None)

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            forward(key, mapper(key, value), timestamp, headers)

        if by_value is None:
            return process
        map_value = by_value

        def process_value(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            forward(key, map_value(value), timestamp, headers)

        return process_value
