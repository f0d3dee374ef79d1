"""Detection of functions that change in place a value that other operators get too.

Where an operator has several children, each of them gets the same object. A function in one of them
that changes the object changes what the next ones get, as in Kafka Streams. To copy the object for
every child would cost each record more than most operators do. So the object is compared instead:
before and after each child that runs user functions, for the first records of a task and for the
first one after each commit. A function that changes its argument mostly does so for every record.

Compared are: dicts, lists, sets, tuples, bytearrays, structs, dataclasses, Protobuf messages,
and the public attributes of other objects, to any depth. Objects that hide their content are not.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import msgspec

from logstate.contracts.processing import SCALAR_TYPES, FanOut, TaskContext
from logstate.topology.declaring.plain_functions import ResultError
from logstate.topology.graph.blame import labelled
from logstate.topology.graph.nodes import Node
from logstate.topology.graph.origin import functions_of
from logstate.topology.graph.sub_topology import SubTopology

#: records of each fan-out that are compared at the start of a task
_AT_START: Final = 100
#: values beyond so many containers are compared so far
_CONTAINERS_MAX: Final = 10_000


def changing_nodes(sub_topology: SubTopology) -> frozenset[str]:
    """The nodes with user functions in them or below them, which may change what they get."""
    changing: set[str] = set()
    for node in reversed(sub_topology.nodes):  # children first
        below = sub_topology.children[node.name]
        if functions_of(node) or not changing.isdisjoint(below):
            changing.add(node.name)
    return frozenset(changing)


def watched_fan_out(
    task: TaskContext,
    parent: Node,
    names: Sequence[str],
    children: Sequence[Callable[..., None]],
    changing: frozenset[str],
    *,
    has_table_edge: bool,
) -> Callable[..., None] | None:
    """A closure that calls the children in turn and compares; None where nothing can change."""
    if not any(name in changing for name in names[:-1]):
        return None
    steps = [
        (child, _mutation_check(parent.name, name, others) if others and name in changing else None)
        for child, name, others in zip(children, names, _all_suffixes(names), strict=True)
    ]
    fan_out = FanOut(_AT_START)
    task.fan_outs.append(fan_out)
    scalars = SCALAR_TYPES

    def compare_stream(key: Any, value: Any, timestamp: int, headers: Any) -> None:
        fan_out.to_compare -= 1
        before = list(_nested_containers(value))
        for child, check in steps:
            child(key, value, timestamp, headers)
            if check is not None:
                check(before)

    def stream_edge(key: Any, value: Any, timestamp: int, headers: Any) -> None:
        if fan_out.to_compare and type(value) not in scalars:
            compare_stream(key, value, timestamp, headers)
            return
        for child in children:
            child(key, value, timestamp, headers)

    def compare_table(
        key: Any, new: Any, old: Any, timestamp: int, headers: Any, is_latest: bool
    ) -> None:
        fan_out.to_compare -= 1
        before = [*_nested_containers(new), *_nested_containers(old)]
        for child, check in steps:
            child(key, new, old, timestamp, headers, is_latest)
            if check is not None:
                check(before)

    def table_edge(
        key: Any, new: Any, old: Any, timestamp: int, headers: Any, is_latest: bool
    ) -> None:
        if fan_out.to_compare and not (type(new) in scalars and type(old) in scalars):
            compare_table(key, new, old, timestamp, headers, is_latest)
            return
        for child in children:
            child(key, new, old, timestamp, headers, is_latest)

    return table_edge if has_table_edge else stream_edge


def _all_suffixes(names: Sequence[str]) -> list[Sequence[str]]:
    return [names[after:] for after in range(1, len(names) + 1)]


_Contents = tuple[Any, Callable[[Any], Any], Any]


def _mutation_check(
    parent: str, child: str, others: Sequence[str]
) -> Callable[[list[_Contents]], None]:
    """Return a check that raises if a value has changed, marked as the child that ran."""

    def check(before: list[_Contents]) -> None:
        for container, read, contents in before:
            if not _is_same(contents, read(container)):
                raise ResultError(
                    f"the operator {child!r}, or one below it, changed in place a"
                    f" {type(container).__name__} of a value that {parent!r} also forwards to"
                    f" {', '.join(map(repr, others))}: these would get the changed value. Make a"
                    " new object and change that, for example {**value, 'field': 1}, or"
                    " copy.deepcopy(value)"
                )

    return labelled(check, child)


def _is_same(before: Any, now: Any) -> bool:
    if type(before) is not tuple:
        return bool(before == now)
    return len(before) == len(now) and all(
        a is b or (type(a) is type(b) and type(a) in SCALAR_TYPES and a == b)
        for a, b in zip(before, now, strict=True)
    )


def _nested_containers(value: Any) -> Iterator[_Contents]:
    """Every container that is reachable, how its contents are read, and what these are."""
    pending, seen = [value], set[int]()
    while pending and len(seen) < _CONTAINERS_MAX:
        one = pending.pop()
        if type(one) in SCALAR_TYPES or id(one) in seen:
            continue
        seen.add(id(one))
        read = _reader(one)
        if read is None:
            continue
        contents = read(one)
        if type(contents) is tuple:
            pending.extend(contents)
        yield one, read, contents


def _reader(value: Any) -> Callable[[Any], Any] | None:
    if isinstance(value, dict):
        return lambda one: (*one, *one.values())
    if isinstance(value, list | tuple):
        return tuple
    if isinstance(value, set):
        return frozenset
    if isinstance(value, bytearray):
        return bytes
    if hasattr(value, "SerializePartialToString"):
        return lambda one: one.SerializePartialToString(deterministic=True)
    names = _attributes(value)
    return None if names is None else lambda one: tuple(getattr(one, n, None) for n in names)


def _attributes(value: Any) -> Sequence[str] | None:
    """The names of what an object consists of; None where it hides that."""
    if isinstance(value, type):
        return None
    if isinstance(value, msgspec.Struct):
        return value.__struct_fields__
    if dataclasses.is_dataclass(value):
        return [one.name for one in dataclasses.fields(value)]
    own = getattr(value, "__dict__", None)
    return None if not isinstance(own, dict) else [n for n in own if not n.startswith("_")]
