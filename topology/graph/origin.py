"""Who made a result: the operators in front of a sink, and the user's functions in them.

Looked up when an error is told, from the nodes and from the calls that are going on: records pay
nothing for it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields
from typing import Any

from logstate.contracts.serde import Serde
from logstate.topology.declaring.declaration_site import function_site, is_library_file
from logstate.topology.graph.blame import Blame, blame, running_operators
from logstate.topology.graph.nodes import Node, SinkNode, SourceNode, TopicRef
from logstate.topology.graph.sub_topology import SubTopology


def functions_of(node: Node) -> tuple[str, ...]:
    """``name at file:line`` of the callbacks that the user gave to a node; of the rest none."""
    given = (getattr(node, one.name) for one in fields(node))
    called = (one for one in given if callable(one) and not isinstance(one, Serde))
    return tuple(filter(None, map(_site, called)))


def blame_for(
    error: BaseException, within: Iterable[SubTopology], *, node: str | None = None
) -> Blame:
    """The operator and function that raised; what the traceback does not show, the nodes do.

    ``node``: what ran if no operator is on the traceback.
    """
    found = blame(error)
    name = found.node or node
    if found.function is not None:
        return Blame(name, found.function)
    functions = [site for one in _nodes(within) if one.name == name for site in functions_of(one)]
    return Blame(name, ", ".join(functions) or None)


def maker_of(sink: str, within: Iterable[SubTopology]) -> Blame:
    """The operator whose result a sink was given just now, or may have been given."""
    for sub_topology in within:
        nodes = {node.name: node for node in sub_topology.nodes}
        if sink in nodes:
            for running in running_operators():
                node = nodes.get(running.node or "")
                if node is not None and functions_of(node):
                    return _as_blame([node], running.function)
            return _as_blame(list(dict.fromkeys(_makers(sink, sub_topology, nodes))), None)
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


def _makers(name: str, sub_topology: SubTopology, nodes: dict[str, Node]) -> Iterator[Node]:
    """The nearest nodes above that compute something, or the sources."""
    for parent in sub_topology.parents.get(name, ()):
        node = nodes[parent]
        if functions_of(node) or isinstance(node, SourceNode):
            yield node
        else:
            yield from _makers(parent, sub_topology, nodes)


def _as_blame(makers: list[Node], function: str | None) -> Blame:
    functions = function or ", ".join(site for node in makers for site in functions_of(node))
    return Blame(" or ".join(node.name for node in makers) or None, functions or None)


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
