"""select_key and group_by of a stream: a new key per record, the value untouched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from logstate.contracts.processing import TaskContext
from logstate.contracts.records import Headers
from logstate.topology.graph.nodes import Children, Forward, Process, ProcessorNode


class SelectKeyNode(ProcessorNode):
    """The mapper returns the new key."""

    mapper: Callable[[Any, Any], Any]

    def compile(self, task: TaskContext, forward: Forward, children: Children) -> Process:
        mapper = self.mapper
        by_value: Callable[[Any], Any] | None = getattr(mapper, "by_value", None)

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            forward(mapper(key, value), value, timestamp, headers)

        if by_value is None:
            return process
        select = by_value

        def select_by_value(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            forward(select(value), value, timestamp, headers)

        return select_by_value
