"""Operators that close on idle behind others that do: which wait for which.

When an operator closes on idle it may send results, of any time. One below it that were advanced
before would drop them as late. So it is advanced only when nothing above it is open: when those
above, which close on idle, would send nothing more without another record. What is open in tasks of
other sub-topologies is one of the clocks of their cuts, :attr:`ProcessorNode.open_clock`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from logstate.contracts.errors import TopologyError
from logstate.topology.graph.nodes import Node, ProcessorNode, SourceNode, TopicRef
from logstate.topology.graph.sub_topology import SubTopology, operators_feeding


def closing(nodes: Iterable[Node]) -> list[ProcessorNode]:
    """Return the operators that have the option ``close_on_idle``."""
    found = (node for node in nodes if isinstance(node, ProcessorNode))
    return [node for node in found if node.close_on_idle_ms is not None]


def closing_above(parts: Sequence[SubTopology]) -> dict[str, frozenset[str]]:
    """Operator that closes on idle -> those above it, in the same task, that do.

    ``parts`` are all that the task runs. What writes a store that an operator reads is above it,
    too, such as the other side of a join, but not where both would wait for each other.
    """
    parents = _parents(parts)
    closers = {node.name: (part, node) for part in parts for node in closing(part.nodes)}
    direct = {name: _ancestors({name}, parents) for name in closers}
    above: dict[str, set[str]] = {}
    for name, (part, node) in closers.items():
        owners = {one for store in node.store_names() for one in part.store_owners.get(store, ())}
        above[name] = direct[name] | owners | _ancestors(owners, parents)
    return {
        name: frozenset(
            one
            for one in found & closers.keys()
            if name not in (direct if one in direct[name] else above)[one]
        )
        for name, found in above.items()
    }


def awaited_clocks(
    part: SubTopology, every: Iterable[SubTopology]
) -> Mapping[int, tuple[str, ...]]:
    """Sub-topology -> the clocks of its cuts that say whether something above ``part`` is open."""
    parts = list(every)
    feeding = {node.name for node in operators_feeding(part, parts)}
    found = {
        one.id: [node.open_clock for node in closing(one.nodes) if node.name in feeding]
        for one in parts
    }
    return {number: tuple(dict.fromkeys(names)) for number, names in found.items() if names}


def mark_awaited(parts: Sequence[SubTopology]) -> None:
    """Let those operators say in the cut whether something is open that others wait for.

    Raises TopologyError for an operator that closes on idle and would wait for itself.
    """
    for part in parts:
        below = closing(part.nodes)
        if not below:
            continue
        feeding = closing(operators_feeding(part, list(parts)))
        for node in feeding:
            if node in below:
                raise _feeds_itself(node, part)
            node.is_awaited = True


def set_default_idle_time(parts: Sequence[SubTopology], idle_ms: int) -> None:
    """Let operators without the option close on idle inputs too, unless one would wait for itself.

    ``idle_ms`` is the option ``close_on_idle`` of the builder.
    """
    for part in parts:
        waiting = [
            node
            for node in part.nodes
            if isinstance(node, ProcessorNode) and node.waits_for_stream_time
        ]
        feeding = {node.name for node in operators_feeding(part, list(parts))}
        for node in waiting:
            if node.name not in feeding:
                node.default_idle_ms = idle_ms


def _feeds_itself(node: ProcessorNode, part: SubTopology) -> TopologyError:
    topics = ", ".join(repr(ref.name) for ref in part.source_topics if ref.is_internal)
    return TopologyError(
        f"Operator {node.name!r} has close_on_idle, and its task reads again what it sends, through"
        f" the internal topics {topics}, as a foreign-key join does: the task would be idle only"
        f" when nothing is open in {node.name!r}, which closes only when the task is idle. Leave"
        f" close_on_idle out for {node.name!r}, and let a later record close its windows, or put"
        " a repartition() between it and the join.",
        declared_at=node.declared_at,
    )


def _parents(parts: Sequence[SubTopology]) -> dict[str, tuple[str, ...]]:
    """Node -> those that send to it, directly or through an internal topic."""
    sinks: dict[TopicRef, list[str]] = defaultdict(list)
    for part in parts:
        for topic, nodes in part.sinks_into.items():
            sinks[topic] += [sink.name for sink in nodes]
    found: dict[str, tuple[str, ...]] = {}
    for part in parts:
        for node in part.nodes:
            topics = node.topics if isinstance(node, SourceNode) else ()
            through = [name for topic in topics if topic.is_internal for name in sinks[topic]]
            found[node.name] = (*part.parents.get(node.name, ()), *through)
    return found


def _ancestors(names: set[str], parents: Mapping[str, tuple[str, ...]]) -> set[str]:
    """Return what is above a set of nodes, without them."""
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        above = [one for one in parents[waiting.pop()] if one not in found]
        found.update(above)
        waiting += above
    return found - names
