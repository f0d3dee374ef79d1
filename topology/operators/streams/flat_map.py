"""flat_map: any number of records for one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from logstate.contracts.processing import TaskContext
from logstate.contracts.records import Headers
from logstate.topology.declaring.mapper_results import pair_of, several_of
from logstate.topology.graph.nodes import Children, Forward, Process, ProcessorNode


class FlatMapNode(ProcessorNode):
    """The mapper returns an iterable of ``(key, value)``; each goes all the way down in turn."""

    mapper: Callable[[Any, Any], Any]

    def compile(self, task: TaskContext, forward: Forward, children: Children) -> Process:
        mapper = self.mapper

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            pairs = mapper(key, value)
            if type(pairs) is not list:
                pairs = several_of(pairs, mapper, "flat_map()")
            for pair in pairs:
                if type(pair) is not tuple or len(pair) != 2:
                    pair = pair_of(pair, mapper, "flat_map()")
                new_key, new_value = pair
                forward(new_key, new_value, timestamp, headers)

        return process
