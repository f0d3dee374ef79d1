"""map: a new key and value per record."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from logstate.contracts.processing import TaskContext
from logstate.contracts.records import Headers
from logstate.topology.declaring.mapper_results import pair_of
from logstate.topology.graph.nodes import Children, Forward, Process, ProcessorNode


class MapNode(ProcessorNode):
    """The mapper returns ``(key, value)``."""

    mapper: Callable[[Any, Any], Any]

    def compile(self, task: TaskContext, forward: Forward, children: Children) -> Process:
        mapper = self.mapper

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            pair = mapper(key, value)
            if type(pair) is not tuple or len(pair) != 2:
                pair = pair_of(pair, mapper, "map()")
            new_key, new_value = pair
            forward(new_key, new_value, timestamp, headers)

        return process
