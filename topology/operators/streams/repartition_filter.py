"""The node in front of a repartition topic: drops null keys, which have no partition."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from logstate.contracts.processing import TaskContext
from logstate.contracts.records import Headers
from logstate.topology.graph.nodes import Process, ProcessorNode


class RepartitionFilterNode(ProcessorNode):
    """Passes everything, or everything with a key. Not counted as dropped, as in Kafka Streams."""

    drops_null_keys: bool

    def compile(
        self, task: TaskContext, forward: Callable[..., None], children: Mapping[str, Process]
    ) -> Process:
        if not self.drops_null_keys:
            return forward

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if key is not None:
                forward(key, value, timestamp, headers)

        return process
