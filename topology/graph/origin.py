"""Find the origin of a result: the operators above a sink, and the user's functions in them.

Found when an error is reported, from the nodes and from the running calls, so it costs nothing per
record.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields
from typing import Any

from logstate.contracts.errors import SerdeError
from logstate.contracts.serde import Serde
from logstate.topology.declaring.declaration_site import function_site, is_library_file
from logstate.topology.graph.blame import Blame, blamed_operators, running_operators
from logstate.topology.graph.nodes import Node, SinkNode, SourceNode, TopicRef
from logstate.topology.graph.operator_labels import with_label
from logstate.topology.graph.sub_topology import SubTopology

#: what serdes raise for a value that they cannot write
_ABOUT_VALUES = (SerdeError, TypeError, ValueError, OverflowError)


def functions_of(node: Node) -> tuple[str, ...]:
    """``name at file:line`` of the callbacks that the user gave to a node; of the rest none."""
    given = (getattr(node, one.name) for one in fields(node))
    called = (one for one in given if callable(one) and not isinstance(one, Serde))
    return tuple(filter(None, map(_site, called)))


def blame_for(
    error: BaseException, within: Iterable[SubTopology], *, node: str | None = None
) -> Blame:
    """Return the operator and function that raised, from the traceback or else from the nodes.

    A value that a store refuses was made by the caller: if that was another operator, the
    function is reported with it. ``node``: what ran if no operator is on the traceback.
    """
    *above, found = blamed_operators(error)
    name = found.node or node
    parts = tuple(within)
    labels = (part.operator_labels.get(name or "") for part in parts)
    label = next(filter(None, labels), None)
    if found.function is not None:
        return Blame(name, found.function, label)
    functions: list[str] = []
    for sub_topology in parts:
        nodes = {one.name: one for one in sub_topology.nodes}
        if name not in nodes:
            continue
        failed = nodes[name]
        functions += functions_of(failed)
        if failed.retains_records() or not functions_of(failed):
            if failed.passes_on:
                functions.clear()
            if isinstance(error, _ABOUT_VALUES):
                functions += _told_makers(failed, above, sub_topology, nodes)
    return Blame(name, ", ".join(functions) or None, label)


def maker_of(sink: str, within: Iterable[SubTopology]) -> Blame:
    """The operator whose result a sink was given just now, or may have been given."""
    for sub_topology in within:
        nodes = {node.name: node for node in sub_topology.nodes}
        if sink in nodes:
            for running in running_operators():
                node = nodes.get(running.node or "")
                if node is not None and not node.passes_on and functions_of(node):
                    return _as_blame([node], running.function, sub_topology)
            makers = list(dict.fromkeys(_computing_nodes(sink, sub_topology, nodes)))
            return _as_blame(makers, None, sub_topology)
    return Blame(None, None)


def sinks_to(
    topic: str | None, within: Iterable[SubTopology], resolved: Callable[..., str]
) -> list[str]:
    """The sinks that write to a topic; ``resolved(name, is_internal=)`` is the name there."""
    return [
        sink.name
        for sink in _nodes(within)
        if isinstance(sink, SinkNode)
        and isinstance(sink.topic, TopicRef)
        and resolved(sink.topic.name, is_internal=sink.topic.is_internal) == topic
    ]


def _computing_nodes(
    name: str, sub_topology: SubTopology, nodes: dict[str, Node]
) -> Iterator[Node]:
    """The nearest nodes above that compute something, or the sources."""
    for parent in sub_topology.parents.get(name, ()):
        node = nodes[parent]
        if (functions_of(node) and not node.passes_on) or isinstance(node, SourceNode):
            yield node
        else:
            yield from _computing_nodes(parent, sub_topology, nodes)


def _told_makers(
    failed: Node, above: list[Blame], sub_topology: SubTopology, nodes: dict[str, Node]
) -> list[str]:
    """The functions that made what a node was given, each with its operator."""
    for running in reversed(above):
        node = nodes.get(running.node or "")
        if node is not None and not node.passes_on and functions_of(node):
            functions = [running.function] if running.function else functions_of(node)
            shown = with_label(node.name, sub_topology.operator_labels)
            return [f"{function} (node {shown})" for function in functions]
    makers = dict.fromkeys(_computing_nodes(failed.name, sub_topology, nodes))
    return [
        f"{function} (node {with_label(node.name, sub_topology.operator_labels)})"
        for node in makers
        for function in functions_of(node)
    ]


def _as_blame(makers: list[Node], function: str | None, within: SubTopology) -> Blame:
    functions = function or ", ".join(site for node in makers for site in functions_of(node))
    labels = [within.operator_labels.get(node.name) for node in makers]
    label = " or ".join(one for one in labels if one is not None)
    names = " or ".join(node.name for node in makers)
    return Blame(names or None, functions or None, label or None)


def _nodes(within: Iterable[SubTopology]) -> Iterator[Node]:
    return (node for sub_topology in within for node in sub_topology.nodes)


def _site(function: Any) -> str | None:
    """None for the library's own functions."""
    function = getattr(function, "by_value", function)
    if inspect.isclass(function):
        function = getattr(function, "process", function)  # a processor does its work there
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is not None and is_library_file(code.co_filename):
        return None
    return function_site(function)
