"""flat_map_values: any number of values for one, the key untouched."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from logstate.contracts.processing import TaskContext
from logstate.contracts.records import Headers
from logstate.topology.graph.nodes import Children, Forward, Process, ProcessorNode


class FlatMapValuesNode(ProcessorNode):
    """The mapper returns an iterable of values; each goes all the way down in turn."""

    mapper: Callable[[Any, Any], Iterable[Any]]

    def compile(self, task: TaskContext, forward: Forward, children: Children) -> Process:
        mapper = self.mapper

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            for new_value in mapper(key, value):
                forward(key, new_value, timestamp, headers)

        return process
