"""split: every record goes to the first branch whose predicate accepts it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

from logstate.contracts.processing import TaskContext
from logstate.contracts.records import Headers
from logstate.topology.declaring.plain_functions import is_true
from logstate.topology.graph.nodes import Children, Forward, Process, ProcessorNode


class BranchNode(ProcessorNode):
    """Branches in the order of their declaration; without a default the rest is dropped."""

    #: (predicate, child's name), filled while the branches are declared
    branches: list[tuple[Callable[[Any, Any], Any], str]] = field(default_factory=list, init=False)
    default: str | None = field(default=None, init=False)

    def compile(self, task: TaskContext, forward: Forward, children: Children) -> Process:
        below: Mapping[str, Forward] = children
        branches = [(predicate, below[child]) for predicate, child in self.branches]
        default = None if self.default is None else below[self.default]

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            for predicate, branch in branches:
                found = predicate(key, value)
                if found is True or (found is not False and is_true(found, predicate, "predicate")):
                    branch(key, value, timestamp, headers)
                    return
            if default is not None:
                default(key, value, timestamp, headers)

        return process
