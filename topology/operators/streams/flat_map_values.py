"""flat_map_values: any number of values for one, the key untouched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from logstate.contracts.processing import TaskContext
from logstate.contracts.records import Headers
from logstate.topology.declaring.mapper_results import several_of
from logstate.topology.graph.nodes import Children, Forward, Process, ProcessorNode


class FlatMapValuesNode(ProcessorNode):
    """The mapper returns an iterable of values; each goes all the way down in turn."""

    mapper: Callable[[Any, Any], Any]

    def compile(self, task: TaskContext, forward: Forward, children: Children) -> Process:
        mapper = self.mapper

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            values = mapper(key, value)
            if type(values) is not list:
                values = several_of(values, mapper, "flat_map_values()")
            for new_value in values:
                forward(key, new_value, timestamp, headers)

        return process
