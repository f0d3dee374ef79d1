"""filter and filter_not of a stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from logstate.contracts.processing import TaskContext
from logstate.contracts.records import Headers
from logstate.topology.declaring.plain_functions import is_true
from logstate.topology.graph.nodes import Children, Forward, Process, ProcessorNode


class FilterNode(ProcessorNode):
    """Lets pass what the predicate accepts; it sees null keys and values too."""

    predicate: Callable[[Any, Any], Any]
    keeps: bool = True

    def compile(self, task: TaskContext, forward: Forward, children: Children) -> Process:
        predicate = self.predicate
        by_value: Callable[[Any], Any] | None = getattr(predicate, "by_value", None)

        def keep(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            kept = predicate(key, value)
            if kept is True or (kept is not False and is_true(kept, predicate, "predicate")):
                forward(key, value, timestamp, headers)

        def drop(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            kept = predicate(key, value)
            if kept is False or (kept is not True and not is_true(kept, predicate, "predicate")):
                forward(key, value, timestamp, headers)

        if not self.keeps:
            return drop
        if by_value is None:
            return keep
        accepts = by_value

        def keep_by_value(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            kept = accepts(value)
            if kept is True or (kept is not False and is_true(kept, predicate, "predicate")):
                forward(key, value, timestamp, headers)

        return keep_by_value
