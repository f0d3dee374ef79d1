"""The passes between declaring and writing: merged sources, and Kafka Streams' optimisations.

``topology.optimization=all`` is the sum of three rules, all off by default:

- ``reuse_source_topics``: a table's source topic is its changelog;
- ``merge_repartition_topics``: several repartitions behind one key-changing step become one;
- ``single_store_self_join``: a stream joined with itself keeps one window store (KIP-862).

Always: equal sources are merged, repartitions drop null keys if they are not needed, and versioned
semantics (KIP-914) reach the operators below versioned tables.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import field
from typing import Any

from logstate.contracts.errors import TopologyError
from logstate.contracts.serde import Serde
from logstate.topology.declaring.declaration_site import declaration_error
from logstate.topology.declaring.naming import check_name
from logstate.topology.graph.logical import (
    LogicalGraph,
    LogicalNode,
    ProcessorLogicalNode,
    SourceLogicalNode,
    TableSourceLogicalNode,
)
from logstate.topology.graph.nodes import ProcessorNode
from logstate.topology.graph.plan_builder import PlanBuilder
from logstate.topology.operators.joins.stream_join_window import StreamJoinWindowNode
from logstate.topology.plan.repartition import RepartitionLogicalNode


class StreamJoinLogicalNode(LogicalNode):
    """Both join sides and their union."""

    this_window: ProcessorLogicalNode
    other_window: ProcessorLogicalNode
    this_join: ProcessorNode
    other_join: ProcessorNode
    union: ProcessorNode
    self_join: ProcessorNode
    is_self_join: bool = field(default=False, init=False)

    def become_self_join(self) -> None:
        """Keep one side only: a record always finds itself, so left and outer joins qualify too."""
        for parent in list(self.other_window.parents):
            parent.remove_child(self.other_window)
        for child in list(self.other_window.children):  # the late stream
            self.other_window.remove_child(child)
        window = self.this_window.node
        assert isinstance(window, StreamJoinWindowNode)
        window.other_store, window.is_self_join = window.store.name, True
        self.is_self_join = True

    def write(self, plan: PlanBuilder) -> None:
        if self.is_self_join:
            plan.add_processor(self.self_join, [self.this_window.name])
            return
        if not set(self.this_window.parents).isdisjoint(self.other_window.parents):
            for window in (self.this_window.node, self.other_window.node):
                assert isinstance(window, StreamJoinWindowNode)
                window.is_shared = True
        plan.add_processor(self.this_join, [self.this_window.name])
        plan.add_processor(self.other_join, [self.other_window.name])
        plan.add_processor(self.union, [self.this_join.name, self.other_join.name])


RULES = ("reuse_source_topics", "merge_repartition_topics", "single_store_self_join")

Repartitions = dict[LogicalNode, dict[RepartitionLogicalNode, None]]


def rules_of(optimization: str | Iterable[str]) -> frozenset[str]:
    """The set of rules that ``optimization=`` names: "none", "all" or some of RULES."""
    if optimization == "none":
        return frozenset()
    if optimization == "all":
        return frozenset(RULES)
    given: object = optimization
    is_one = isinstance(given, str) or not isinstance(given, Iterable)
    chosen = frozenset(map(str, [given] if is_one else optimization))
    if unknown := chosen - set(RULES):
        raise declaration_error(
            f"Unknown optimization {', '.join(sorted(unknown))}. There are 'none', 'all' and any"
            f" set of {', '.join(RULES)}."
        )
    return chosen


def optimize(graph: LogicalGraph, rules: Collection[str]) -> None:
    """Run all passes, in Kafka Streams' order."""
    _merge_equal_sources(graph)
    if "reuse_source_topics" in rules:
        for node in graph.nodes():
            if isinstance(node, TableSourceLogicalNode):
                node.reuse_source_topic = True
    if "merge_repartition_topics" in rules:
        _merge_repartitions(graph)
    if "single_store_self_join" in rules:
        for node in graph.nodes():
            if isinstance(node, StreamJoinLogicalNode) and len(node.parents) == 1:
                node.become_self_join()
    _drop_null_keys(graph)
    _spread_versioned_semantics(graph)


def _merge_equal_sources(graph: LogicalGraph) -> None:
    """Let two streams of the same topics share one source; the first keeps its name."""
    by_topic: dict[str, SourceLogicalNode] = {}
    for node in list(graph.root.children):
        if not isinstance(node, SourceLogicalNode):
            continue
        for topic in node.source.topics:
            first = by_topic.setdefault(topic.name, node)
            if first is node or node not in graph.root.children:
                continue
            _check_mergeable(first, node, topic.name)
            for child in list(node.children):
                node.remove_child(child)
                first.add_child(child)
            graph.root.remove_child(node)
            for group in graph.copartitioned:
                if node.name in group:
                    group.discard(node.name)
                    group.add(first.name)


def _check_mergeable(first: SourceLogicalNode, second: SourceLogicalNode, topic: str) -> None:
    a, b = first.source, second.source
    if a.topics != b.topics:
        raise TopologyError(
            f"Topic {topic!r} is read by two streams whose topics overlap without being equal:"
            f" {[t.name for t in a.topics]} (at {a.declared_at}) and {[t.name for t in b.topics]}."
            " Read each topic in one stream and merge the streams you need together.",
            declared_at=b.declared_at,
        )
    if a.offset_reset != b.offset_reset:
        raise TopologyError(
            f"Topic {topic!r} is read twice with different offset resets: {a.offset_reset!r} (at"
            f" {a.declared_at}) and {b.offset_reset!r}. A topic has one position: use one.",
            declared_at=b.declared_at,
        )
    for what, one, other in (
        ("key types", _format(a.key), _format(b.key)),
        ("value types", _format(a.value), _format(b.value)),
        ("timestamp extractors", a.timestamp_extractor, b.timestamp_extractor),
    ):
        if one != other:
            raise TopologyError(
                f"Topic {topic!r} is read twice with different {what} (the other reader is at"
                f" {a.declared_at}). A group consumes a topic once, so both get what the first"
                " decodes. Read it in one stream, and derive what differs from that with map().",
                declared_at=b.declared_at,
            )


def _format(serde: Serde[Any]) -> object:
    """What objects a serde makes of which bytes; equal for equal declarations."""
    return type(serde), getattr(serde, "type", None), serde.describe()


def _find_upstream(
    start: LogicalNode, matches: Callable[[LogicalNode], bool]
) -> LogicalNode | None:
    """The nearest ancestor (or the node itself); of several inputs, the first that has one."""
    pending, seen = [start], set[LogicalNode]()
    while pending:
        node = pending.pop()
        if matches(node):
            return node
        if node not in seen:
            seen.add(node)
            pending.extend(reversed(node.parents))
    return None


def _repartitions_by_key_changer(graph: LogicalGraph) -> Repartitions:
    repartitions: Repartitions = {}
    for node in dict.fromkeys(graph.added):
        if node.key_changing:
            repartitions[node] = {}
        elif isinstance(node, RepartitionLogicalNode) and node.is_optimizable:
            changer = _find_upstream(node, lambda n: n.key_changing)
            nearest = _find_upstream(node, lambda n: n.key_changing or n.value_changing)
            # Beyond a step that changes values the topic would carry another type.
            if changer is not None and changer is nearest:
                repartitions[changer][node] = None
    merges = [node for node in dict.fromkeys(graph.added) if node.merge and not node.key_changing]
    changers_of_merge = {
        merge: [
            changer
            for changer, nodes in repartitions.items()
            if all(_is_below(node, merge) for node in nodes) and _is_below(merge, changer)
        ]
        for merge in merges
    }
    moved: dict[LogicalNode, None] = {}
    for merge, changers in changers_of_merge.items():
        combined: dict[RepartitionLogicalNode, None] = {}
        for changer in changers:
            combined.update(repartitions[changer])
            moved[changer] = None
        repartitions[merge] = combined
    for changer in moved:
        del repartitions[changer]
    return repartitions


def _is_below(node: LogicalNode, ancestor: LogicalNode) -> bool:
    return _find_upstream(node, lambda n: ancestor in n.parents) is not None


def _merge_repartitions(graph: LogicalGraph) -> None:
    for changer, nodes in _repartitions_by_key_changer(graph).items():
        if not nodes:
            continue
        first = next(iter(nodes))
        merged = RepartitionLogicalNode(
            check_name(first.topic, "a repartition topic"),
            first.key,
            first.value,
            is_optimizable=True,
            declared_at=first.declared_at,
        )
        merged.priority = changer.priority
        for node in nodes:
            branch = _find_upstream(node, lambda n: changer in n.parents)  # noqa: B023
            if branch is None:
                raise _no_branch(node, changer)
            merged.add_child(branch)
            changer.remove_child(branch)
            parents, children = list(node.parents), list(node.children)
            for child in children:
                for parent in parents:
                    parent.add_child(child)
            for parent in parents:
                parent.remove_child(node)
            node.clear_children()
            for group in graph.copartitioned:
                if node.name in group:
                    group.discard(node.name)
                    group.add(merged.name)
        changer.add_child(merged)


def _no_branch(node: RepartitionLogicalNode, changer: LogicalNode) -> TopologyError:
    """Kafka Streams stops here too; another order of moving would name other topics."""
    return TopologyError(
        f"The repartition topics behind {changer.name!r} cannot be merged: {node.topic!r} is"
        " reached through one that is merged already, as happens where a stream is merged and the"
        " result meets the stream itself in several joins. Build without"
        " 'merge_repartition_topics', or call repartition() yourself behind the step that changes"
        " the key.",
        declared_at=node.declared_at,
    )


def _drop_null_keys(graph: LogicalGraph) -> None:
    """Repartitions drop null keys, except above a join that has a use for them."""
    nodes = graph.nodes()
    keeps = {node for node in nodes if node.relaxed_null_key}
    pending = list(keeps)
    above: set[LogicalNode] = set()
    while pending:
        for parent in pending.pop().parents:
            if parent not in above:
                above.add(parent)
                pending.append(parent)
    for node in nodes:
        if isinstance(node, RepartitionLogicalNode) and node not in above:
            node.drops_null_keys = True


def _spread_versioned_semantics(graph: LogicalGraph) -> None:
    is_versioned = _versioned_outputs(graph)
    for node in graph.nodes():
        for parent in node.parents:
            if is_versioned[parent]:
                node.use_versioned_semantics(parent)
        if node.refuses_versioned_input and all(is_versioned[parent] for parent in node.parents):
            raise TopologyError(
                f"suppress {node.name!r} is below a versioned table: suppression keeps only the"
                " latest row per key, a versioned table also sends older ones. Materialise without"
                " history= before suppressing.",
                declared_at=node.declared_at,
            )


def _versioned_outputs(graph: LogicalGraph) -> dict[LogicalNode, bool]:
    """Whether each node's output is versioned; where it does not say, if all its inputs are."""
    known: dict[LogicalNode, bool] = {graph.root: False}
    waiting: set[LogicalNode] = set()
    pending = [*graph.nodes()]
    while pending:
        node = pending[-1]
        unknown = [parent for parent in node.parents if parent not in known]
        if node in known:
            pending.pop()
        elif node.output_versioned is not None:
            known[node] = node.output_versioned
        elif unknown and node not in waiting:
            waiting.add(node)
            pending.extend(unknown)
        else:
            known[node] = all(known.get(parent, False) for parent in node.parents)
    return known
