"""Cutting the physical graph into sub-topologies, and numbering them.

Nodes belong together if a record can get from one to the other without a topic, or if they share a
store: only then can one task, which owns one partition of everything, run them. Numbers go by the
order of writing, so upstream comes first; global stores are included in the numbering.
"""

from __future__ import annotations

from collections.abc import Iterable

from logstate.topology.graph.nodes import SourceNode
from logstate.topology.graph.plan_builder import PlanBuilder


class UnionFind:
    """Disjoint sets of names."""

    def __init__(self, names: Iterable[str]) -> None:
        self._parent = {name: name for name in names}

    def root(self, name: str) -> str:
        """The representative of the set that ``name`` is in."""
        parent = self._parent
        while parent[name] != name:
            parent[name] = parent[parent[name]]
            name = parent[name]
        return name

    def unite(self, a: str, b: str) -> None:
        """Put two sets together."""
        self._parent[self.root(b)] = self.root(a)


def node_groups(plan: PlanBuilder) -> list[list[str]]:
    """The names of each sub-topology's nodes, by number, each in the order of writing."""
    sets = UnionFind(plan.nodes)
    for name, parents in plan.parents.items():
        for parent in parents:
            sets.unite(parent, name)
    first_user: dict[str, str] = {}
    for processor, stores in plan.connections.items():
        for store in stores:
            sets.unite(first_user.setdefault(store, processor), processor)
    groups: dict[str, list[str]] = {}
    for name in plan.nodes:
        groups.setdefault(sets.root(name), []).append(name)
    return list(groups.values())


def copartition_groups(plan: PlanBuilder) -> list[list[str]]:
    """Topics that must have equal partition counts: the declared groups, united where they meet."""
    by_topic: dict[str, list[str]] = {}
    for sources in plan.copartitioned:
        topics = sorted(
            topic.name
            for source in sources
            if isinstance(node := plan.nodes.get(source), SourceNode)
            for topic in node.topics
        )
        united: list[str] = []
        for topic in topics:
            for member in by_topic.get(topic, [topic]):
                if member not in united:
                    united.append(member)
        for topic in united:
            by_topic[topic] = united
    groups = {id(group): sorted(group) for group in by_topic.values()}
    return sorted(groups.values())
