"""Mappers: a new key, a new value, both, or any number of them for one.

Null keys and values are passed to the mapper, too. map_values and select_key call a mapper of the
value alone without the key, which saves a frame.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from logstate.contracts.processing import TaskContext
from logstate.contracts.records import Headers
from logstate.topology.declaring.mapper_results import pair_of, several_of
from logstate.topology.graph.nodes import Children, Forward, Process, ProcessorNode


class MapNode(ProcessorNode):
    """The mapper returns ``(key, value)``."""

    forwards_each = True

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


class MapValuesNode(ProcessorNode):
    """The mapper sees null values too."""

    forwards_each = True

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


class SelectKeyNode(ProcessorNode):
    """The mapper returns the new key."""

    forwards_each = True

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


class FlatMapNode(ProcessorNode):
    """The mapper returns an iterable of ``(key, value)``, each processed completely in turn."""

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


class FlatMapValuesNode(ProcessorNode):
    """The mapper returns an iterable of values, each processed completely in turn."""

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
