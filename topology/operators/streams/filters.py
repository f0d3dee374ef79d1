"""Filters: which records are forwarded, and to which branch. They do not change records."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

from logstate.contracts.drops import DropReason
from logstate.contracts.processing import TaskContext
from logstate.contracts.records import Headers
from logstate.topology.declaring.plain_functions import is_true
from logstate.topology.graph.nodes import Children, Forward, Process, ProcessorNode


class FilterNode(ProcessorNode):
    """Forwards records that the predicate accepts; it sees null keys and values, too."""

    passes_on = True

    predicate: Callable[[Any, Any], Any]
    keeps: bool = True

    @property
    def operation(self) -> str:
        return "filter" if self.keeps else "filter_not"

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


class BranchNode(ProcessorNode):
    """Branches in the order of their declaration; without a default the rest is dropped."""

    passes_on = True
    chooses_children = True

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


class RepartitionFilterNode(ProcessorNode):
    """Forwards everything, or everything with a key. Others are counted (the JVM does not)."""

    drops_null_keys: bool

    def compile(self, task: TaskContext, forward: Forward, children: Children) -> Process:
        if not self.drops_null_keys:
            return forward

        drop = task.dropper(self.name, DropReason.NULL_GROUP_KEY)

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if key is None:
                drop()
                return
            forward(key, value, timestamp, headers)

        return process
