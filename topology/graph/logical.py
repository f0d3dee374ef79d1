"""The logical graph: what the user's calls declared, before physical nodes are written.

Kafka Streams' own first level, reproduced because it decides names, numbers and order. Every call
adds logical nodes; a node gets its build priority when it is added (once per parent: the last one
counts). `build()` merges duplicate sources, runs the optimisation passes (`plan.optimization`), and
then writes nodes in order of priority, each after all its parents.

Invariants: ``children`` and ``parents`` are ordered and without duplicates; a node is written once.
"""

from __future__ import annotations

import heapq
import sys
from collections.abc import Iterable, Sequence
from dataclasses import field
from typing import ClassVar

from logstate.contracts.errors import TopologyError
from logstate.contracts.stores import StoreSpec
from logstate.topology.declaring.declaration_site import declaration_error, declaration_site
from logstate.topology.declaring.late_binding import next_declaration
from logstate.topology.declaring.naming import Names
from logstate.topology.graph.nodes import Declared, ProcessorNode, SinkNode, SourceNode, TableNode
from logstate.topology.graph.plan_builder import GlobalStore, PlanBuilder


def check_depth(depth: int, name: str, declared_at: str | None) -> None:
    """Raise TopologyError for an operator that is too far below its source."""
    most = sys.getrecursionlimit() // 2
    if depth > most:
        raise TopologyError(
            f"Operator {name!r} is number {depth} in a chain of operators that call one another,"
            f" and a chain has at most {most}: each takes a call, two where several operators are"
            f" below one, and Python allows {sys.getrecursionlimit()} calls within one another. Do"
            " several steps in one function, read many topics by stream(topic, topic, ...) instead"
            " of merging them one by one, divide the chain by repartition(), or raise"
            " sys.setrecursionlimit() before the topology is declared.",
            declared_at=declared_at,
        )


def _refuse_deltas(parents: Sequence[LogicalNode], node: LogicalNode) -> None:
    """Raise TopologyError for an operator of tables below a table that sends deltas."""
    if isinstance(node, ProcessorLogicalNode) and node.node.takes_deltas:
        return
    for parent in parents:
        if isinstance(parent, ProcessorLogicalNode) and parent.node.sends_deltas:
            raise declaration_error(
                f"{node.name!r} is an operator of a table, but {parent.name!r} has"
                ' emit="delta": it sends the changes of its rows in the place of rows, and the'
                " operator would take them for rows. Call to_stream() on the table first, or use"
                ' emit="commit".'
            )


class LogicalNode(Declared):
    """One declared step. Subclasses say in :meth:`write` which physical nodes it becomes."""

    name: str = field(default="", kw_only=False)
    key_changing: bool = False
    value_changing: bool = False
    merge: bool = False
    #: None: not materialised here, so it is as versioned as its inputs
    output_versioned: bool | None = None
    #: the user's ``file:line``, if it is known
    declared_at: str | None = None
    #: a left or outer join downstream keeps null keys alive (KIP-962)
    relaxed_null_key: bool = field(default=False, init=False)
    #: its records have no windows, though those of its parents do
    ends_windows: bool = False
    #: how long after its end a window of this aggregation is still open; None: not windowed
    window_grace_ms: int | None = field(default=None, init=False)
    #: "key", "value": it makes new ones without a serde
    leaves_out: set[str] = field(default_factory=set, init=False)
    #: suppress cannot take rows that are older than the latest
    refuses_versioned_input: bool = field(default=False, init=False)
    parents: dict[LogicalNode, None] = field(default_factory=dict, init=False)
    children: dict[LogicalNode, None] = field(default_factory=dict, init=False)
    priority: int = field(default=-1, init=False)
    #: its records come out of a topic, so that no operator above it is calling it
    begins_chain: ClassVar[bool] = False
    #: how many operators call one another above it and with it, at least
    depth: int = field(default=0, init=False)
    is_written: bool = field(default=False, init=False)

    def add_child(self, child: LogicalNode) -> None:
        """Link a node below this one."""
        self.children[child] = None
        child.parents[self] = None

    def remove_child(self, child: LogicalNode) -> None:
        """Unlink a node below this one."""
        del self.children[child]
        del child.parents[self]

    def clear_children(self) -> None:
        """Unlink all nodes below this one."""
        for child in list(self.children):
            self.remove_child(child)

    def parent_names(self) -> list[str]:
        """The physical names that the parents' outputs have."""
        return [parent.name for parent in self.parents]

    def write(self, plan: PlanBuilder) -> None:
        """Add the physical nodes."""

    def use_versioned_semantics(self, parent: LogicalNode) -> None:
        """Called if a parent's output is versioned (KIP-914)."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, priority={self.priority})"


class ProcessorLogicalNode(LogicalNode):
    """One processor below its logical parents."""

    name: str = field(init=False)
    node: ProcessorNode = field(kw_only=False)

    def __post_init__(self) -> None:
        self.name, self.declared_at = self.node.name, self.node.declared_at

    def write(self, plan: PlanBuilder) -> None:
        plan.add_processor(self.node, self.parent_names())

    def use_versioned_semantics(self, parent: LogicalNode) -> None:  # noqa: ARG002
        if hasattr(self.node, "use_versioned_semantics"):
            self.node.use_versioned_semantics = True


class SourceLogicalNode(LogicalNode):
    """A stream's source."""

    name: str = field(init=False)
    source: SourceNode = field(kw_only=False)

    def __post_init__(self) -> None:
        self.name = self.source.name

    def write(self, plan: PlanBuilder) -> None:
        plan.add_source(self.source)


class SinkLogicalNode(LogicalNode):
    """A stream's sink."""

    name: str = field(init=False)
    sink: SinkNode = field(kw_only=False)

    def __post_init__(self) -> None:
        self.name = self.sink.name

    def write(self, plan: PlanBuilder) -> None:
        plan.add_sink(self.sink, self.parent_names())


class TableSourceLogicalNode(LogicalNode):
    """A table read from a topic: its source and the node that keeps the rows."""

    name: str = field(init=False)
    source: SourceNode = field(kw_only=False)
    node: TableNode = field(kw_only=False)
    reuse_source_topic: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self.name = self.node.name

    def write(self, plan: PlanBuilder) -> None:
        plan.add_source(self.source)
        plan.add_processor(self.node, [self.source.name])
        if self.reuse_source_topic:
            for spec in self.node.own_stores():
                if spec.capacity is None and spec.ttl_ms is None:  # removals need a changelog
                    plan.reuse_topic(spec.name, self.source, keeps_headers=False)


class StoreLogicalNode(LogicalNode):
    """A store that processors connect to by name."""

    name: str = field(init=False)
    spec: StoreSpec = field(kw_only=False)

    def __post_init__(self) -> None:
        self.name = self.spec.name

    def write(self, plan: PlanBuilder) -> None:
        plan.add_store(self.spec)


class TopicStoreLogicalNode(LogicalNode):
    """A store filled from a topic by a processor; the topic is its changelog (KIP-813)."""

    name: str = field(init=False)
    source: SourceNode = field(kw_only=False)
    processor: ProcessorNode = field(kw_only=False)
    store: StoreSpec = field(kw_only=False)

    def __post_init__(self) -> None:
        self.name = self.processor.name

    def write(self, plan: PlanBuilder) -> None:
        plan.add_source(self.source)
        plan.add_processor(self.processor, [self.source.name])
        plan.reuse_topic(self.store.name, self.source)


class GlobalStoreLogicalNode(LogicalNode):
    """A global table or store."""

    name: str = field(init=False)
    store: GlobalStore = field(kw_only=False)

    def __post_init__(self) -> None:
        self.name = self.store.source.name

    def write(self, plan: PlanBuilder) -> None:
        plan.add_global_store(self.store)


class LogicalGraph:
    """The graph of one builder, its counter and the node-less declarations."""

    def __init__(self) -> None:
        self.root = LogicalNode("root")
        self.root.is_written = True
        self.names = Names()
        #: in order of addition, duplicates possible
        self.added: list[LogicalNode] = []
        self.copartitioned: list[set[str]] = []
        self._next_priority = 0
        #: later declarations have a higher number
        self.begun = next_declaration()
        #: nothing may be declared any more
        self.is_built = False

    def new_name(self, prefix: str) -> str:
        """A generated operator name."""
        return self.names.new(prefix)

    def new_store_name(self, prefix: str) -> str:
        """A generated store name; only to burn its number."""
        return self.names.new_store(prefix)

    def add(self, parents: LogicalNode | Sequence[LogicalNode], node: LogicalNode) -> None:
        """Put ``node`` below its parents."""
        if self.is_built:
            raise declaration_error(
                f"{node.name!r} is declared after build(): the topology is finished, so it would"
                " never run. Declare everything first, then build."
            )
        above = [parents] if isinstance(parents, LogicalNode) else parents
        if not node.begins_chain:
            node.depth = max((parent.depth for parent in above), default=0) + 1
            check_depth(node.depth, node.name, node.declared_at or declaration_site())
        _refuse_deltas(above, node)
        for parent in above:
            parent.add_child(node)
            node.priority = self._next_priority
            self._next_priority += 1
            self.added.append(node)

    def copartition(self, sources: Iterable[str]) -> None:
        """Topics of these physical sources must have the same partition count."""
        self.copartitioned.append(set(sources))

    def nodes(self) -> list[LogicalNode]:
        """Return all nodes reachable from the root, parents before children without a cycle."""
        seen: dict[LogicalNode, None] = {self.root: None}
        pending = [self.root]
        while pending:
            for child in pending.pop().children:
                if child not in seen:
                    seen[child] = None
                    pending.append(child)
        return list(seen)

    def write(self) -> PlanBuilder:
        """Write every node once, by priority, after its parents."""
        plan = PlanBuilder()
        heap: list[tuple[int, int, LogicalNode]] = [(-1, 0, self.root)]
        pushed = 1
        while heap:
            _, _, node = heapq.heappop(heap)
            if not node.is_written and all(parent.is_written for parent in node.parents):
                node.write(plan)
                node.is_written = True
            if not node.is_written:
                continue  # it comes again below its last parent
            for child in node.children:
                if not child.is_written:
                    heapq.heappush(heap, (child.priority, pushed, child))
                    pushed += 1
        for group in self.copartitioned:
            plan.copartition(group)
        stuck = [node.name for node in self.nodes() if not node.is_written]
        if stuck:
            raise declaration_error(
                f"The graph has a cycle through {', '.join(map(repr, stuck))}. Send records back"
                " through a topic instead."
            )
        return plan
