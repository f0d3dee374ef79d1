"""The finished topology: what `StreamsBuilder.build()` returns. Immutable.

Internal topics connect its sub-topologies; their names get the application id in front when they
are resolved.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType

from logstate.contracts.errors import TopologyError
from logstate.contracts.stores import StoreSpec
from logstate.topology.graph.description import Description, describe_plan
from logstate.topology.graph.grouping import copartition_groups, node_groups
from logstate.topology.graph.idle_order import mark_awaited, set_default_idle_time
from logstate.topology.graph.logical import check_depth
from logstate.topology.graph.nodes import SinkNode, TopicRef
from logstate.topology.graph.plan_builder import InternalTopic, PlanBuilder
from logstate.topology.graph.sub_topology import SubTopology
from logstate.topology.operators.streams.process import ConnectedStores
from logstate.topology.plan.key_agreement import check_key_bytes
from logstate.topology.plan.topic_prefix import (
    prefixed_description,
    prefixed_ref,
    prefixed_specs,
    prefixed_sub_topology,
)


@dataclass(frozen=True)
class Topology:
    """A topology ready to run; see `logstate.Application` and `logstate.TopologyTestDriver`."""

    sub_topologies: tuple[SubTopology, ...]
    global_sub_topologies: tuple[SubTopology, ...]
    internal_topics: tuple[InternalTopic, ...]
    copartition_groups: tuple[tuple[TopicRef, ...], ...]
    stores: Mapping[str, StoreSpec]
    global_stores: Mapping[str, StoreSpec]
    _description: Description = field(repr=False)

    def describe(self) -> str:
        """The topology as text, byte for byte in the form of Kafka Streams.

        An operator with ``close_on_idle``, which Kafka Streams does not have, has a line more.

        >>> from logstate import StreamsBuilder
        >>> builder = StreamsBuilder()
        >>> builder.stream("in", value=str, name="source").to("out", name="sink")
        >>> print(builder.build().describe(), end="")
        Topologies:
           Sub-topology: 0
            Source: source (topics: [in])
              --> sink
            Sink: sink (topic: out)
              <-- source
        <BLANKLINE>

        Its visualisers read it, and a test that compares it notices every change of the graph.

        Returns:
            Sub-topologies, sources, operators with their stores, sinks, and how they hang together.

        Source: Kafka Streams' ``TopologyDescription.toString`` (KIP-120).
        """
        return self._described

    @cached_property
    def _described(self) -> str:
        # Every instance writes it into its manifest when it starts.
        return str(self._description)

    def description(self) -> Description:
        """The description as data, for tests and tools.

        >>> from logstate import StreamsBuilder
        >>> builder = StreamsBuilder()
        >>> builder.stream("in", value=str, name="source").to("out", name="sink")
        >>> [node.name for node in builder.build().description().sub_topologies[0].nodes]
        ['source', 'sink']

        Returns:
            Sub-topologies and global stores with their nodes, in the order of the text.

        Source: Kafka Streams' ``TopologyDescription`` (KIP-120).
        """
        return self._description

    @cached_property
    def operator_labels(self) -> Mapping[str, str]:
        """Labels of the operators without a name: what each does, with which store or topic.

        >>> from logstate import StreamsBuilder
        >>> builder = StreamsBuilder()
        >>> _ = builder.stream("orders", value=str).group_by_key().count(store="spend")
        >>> dict(builder.build().operator_labels)
        {'KSTREAM-SOURCE-0000000000': "source of 'orders'", \
'KSTREAM-AGGREGATE-0000000001': "count of 'spend'"}

        Logs, errors, metrics and pictures show them with the generated names.

        Returns:
            Generated names and their labels; operators that the user named have no label.

        Source: none; :meth:`describe` shows the generated names only, like Kafka Streams.
        """
        labels: dict[str, str] = {}
        for sub_topology in (*self.sub_topologies, *self.global_sub_topologies):
            labels |= sub_topology.operator_labels
        return MappingProxyType(labels)

    def with_topic_prefix(self, prefix: str) -> Topology:
        """The topology of an environment: every topic of the user has a prefix.

        >>> from logstate import StreamsBuilder
        >>> builder = StreamsBuilder()
        >>> builder.stream("orders", value=str).to(lambda key, value: value)
        >>> staging = builder.build().with_topic_prefix("staging.")
        >>> staging.description().sub_topologies[0].nodes[0].topics
        ('staging.orders',)

        Patterns match topics with the prefix only, and topics that a function chooses get it, too.
        Internal topics keep their names, which begin with the application id. Records have the
        names that brokers have: ``context.topic`` and partitioners see the prefix.

        Args:
            prefix: letters, digits, ``.``, ``_`` and ``-``; the empty one changes nothing.

        Returns:
            A new topology; this one is not changed.

        Raises:
            TopologyError: a topic has no valid name with it.

        Source: none; Kafka Streams' users put a prefix into every call.
        """
        if not prefix:
            return self
        tasks = tuple(prefixed_sub_topology(one, prefix) for one in self.sub_topologies)
        globals_ = tuple(prefixed_sub_topology(one, prefix) for one in self.global_sub_topologies)
        return replace(
            self,
            sub_topologies=tasks,
            global_sub_topologies=globals_,
            copartition_groups=tuple(
                tuple(prefixed_ref(topic, prefix) for topic in group)
                for group in self.copartition_groups
            ),
            stores=prefixed_specs(self.stores, prefix),
            global_stores=prefixed_specs(self.global_stores, prefix),
            _description=prefixed_description(self._description, (*tasks, *globals_), prefix),
        )

    def to_mermaid(self) -> str:
        """The topology as a Mermaid flowchart, which Markdown pages show as a picture.

        >>> from logstate import StreamsBuilder
        >>> builder = StreamsBuilder()
        >>> builder.stream("in", value=str, name="source").to("out", name="sink")
        >>> print(builder.build().to_mermaid(), end="")
        flowchart TD
            topic0(["in"])
            topic1(["out"])
            subgraph part0["Sub-topology 0"]
                node0["source"]
                node1["sink"]
            end
            topic0 --> node0
            node0 --> node1
            node1 --> topic1

        Returns:
            Topics as stadiums (internal ones dashed), operators as rectangles, stores as cylinders.

        Source: the syntax of Mermaid's flowcharts.
        """
        from logstate.topology.pictures.mermaid import mermaid_of

        return mermaid_of(self._description, self._internal_names())

    def to_svg(self, *, max_width: int | None = None) -> str:
        """The topology as a picture in one self-contained SVG document.

        >>> from logstate import StreamsBuilder
        >>> builder = StreamsBuilder()
        >>> builder.stream("in", value=str, name="source").to("out", name="sink")
        >>> builder.build().to_svg().splitlines()[0][:40]
        '<svg xmlns="http://www.w3.org/2000/svg" '

        The same graph always gives the same bytes. Notebooks show it for a topology by itself.

        Args:
            max_width: draw it for a narrow screen, at most about so many pixels wide. Boxes are
                placed below each other instead of next to each other, and long names are
                abbreviated; the tooltips have them in full. Lines that pass many boxes can make
                the picture wider.

        Returns:
            Sub-topologies as frames between their topics; stores below the operators that use them.

        Source: SVG 1.1, without scripts, links or fonts to load.
        """
        from logstate.topology.pictures.svg import svg_of

        return svg_of(self._description, self._internal_names(), max_width=max_width)

    def _repr_mimebundle_(
        self, include: object = None, exclude: object = None
    ) -> dict[str, str]:  # fmt: skip
        """What a notebook shows: the picture, or the text if pictures cannot be shown."""
        del include, exclude  # a hint for objects with costly representations
        return {"text/plain": self.describe(), "image/svg+xml": self.to_svg()}

    def declared(self) -> Iterator[object]:
        """The functions and serdes that the operators and stores were declared with.

        >>> from logstate import StreamsBuilder
        >>> builder = StreamsBuilder()
        >>> builder.stream("in", value=str).map_values(len, value=int).to("out")
        >>> [type(one).__name__ for one in builder.build().declared()].count("ScalarSerde")
        4

        Returns:
            Each as often as it was given, in the order of the sub-topologies.
        """
        for sub_topology in (*self.sub_topologies, *self.global_sub_topologies):
            yield from sub_topology.declared()

    def _internal_names(self) -> frozenset[str]:
        return frozenset(topic.topic.name for topic in self.internal_topics)


def make_topology(plan: PlanBuilder, default_idle_ms: int | None = None) -> Topology:
    """Check what needs the whole graph, number the sub-topologies and freeze.

    ``default_idle_ms`` is the option ``close_on_idle`` of the builder.
    """
    _check_depth(plan)
    _check_stores(plan)
    _check_partition_counts(plan)
    check_key_bytes(plan)
    tasks: list[SubTopology] = []
    globals_: list[SubTopology] = []
    global_sources = {store.source.name for store in plan.global_stores.values()}
    for number, names in enumerate(node_groups(plan)):
        is_global = any(name in global_sources for name in names)
        target = globals_ if is_global else tasks
        target.append(_sub_topology(plan, number, names, is_global=is_global))
    for node in plan.nodes.values():
        connections = getattr(node, "connections", None)
        if isinstance(connections, ConnectedStores):
            connections.global_names = frozenset(plan.global_stores)
    if default_idle_ms is not None:
        set_default_idle_time(tasks, default_idle_ms)
    mark_awaited(tasks)
    refs = {topic.topic.name: topic.topic for topic in plan.internal_topics.values()}
    refs |= {pattern: TopicRef(pattern, is_pattern=True) for pattern in plan.patterns}
    return Topology(
        sub_topologies=tuple(tasks),
        global_sub_topologies=tuple(globals_),
        internal_topics=tuple(plan.internal_topics.values()),
        copartition_groups=tuple(
            tuple(refs.get(name, TopicRef(name)) for name in group)
            for group in copartition_groups(plan)
        ),
        stores=MappingProxyType(
            {spec.name: spec for sub_topology in tasks for spec in sub_topology.stores}
        ),
        global_stores=MappingProxyType(
            {name: store.spec for name, store in plan.global_stores.items()}
        ),
        _description=describe_plan(plan, tasks, globals_),
    )


def _sub_topology(
    plan: PlanBuilder, number: int, names: list[str], *, is_global: bool
) -> SubTopology:
    children: dict[str, list[str]] = {name: [] for name in names}
    for name in names:
        for parent in plan.parents[name]:
            children[parent].append(name)
    used = dict.fromkeys(store for name in names for store in plan.connections.get(name, ()))
    stores = [plan.stores[store] for store in used if store in plan.stores]
    if is_global:
        stores = [store.spec for store in plan.global_stores.values() if store.source.name in names]
    return SubTopology(
        id=number,
        nodes=tuple(plan.nodes[name] for name in names),
        parents=MappingProxyType({name: plan.parents[name] for name in names}),
        children=MappingProxyType({name: tuple(below) for name, below in children.items()}),
        stores=tuple(stores),
        is_global=is_global,
    )


def _check_depth(plan: PlanBuilder) -> None:
    """A record is passed on by calls: one per operator, one more where several are below."""
    below = Counter(parent for parents in plan.parents.values() for parent in parents)
    depths: dict[str, int] = {}
    for name, node in plan.nodes.items():  # parents first
        above = [depths[one] + (below[one] > 1) for one in plan.parents[name]]
        depths[name] = max(above, default=0) + 1
        check_depth(depths[name], name, node.declared_at)


def _check_stores(plan: PlanBuilder) -> None:
    for processor, stores in plan.connections.items():
        for store in stores:
            if store in plan.stores:
                continue
            where = plan.nodes[processor].declared_at
            if store in plan.global_stores:
                raise TopologyError(
                    f"Operator {processor!r} names the global store {store!r} in stores=. Global"
                    " stores need no connection: ask the context for it.",
                    declared_at=where,
                )
            known = ", ".join(map(repr, sorted(plan.stores))) or "none"
            raise TopologyError(
                f"Operator {processor!r} is connected to store {store!r}, which does not exist."
                f" Stores: {known}. Correct the name, or add it with builder.add_store(...).",
                declared_at=where,
            )
    for node in plan.nodes.values():
        for store in getattr(node, "global_store_names", tuple)():
            if store not in plan.global_stores:
                raise TopologyError(
                    f"Operator {node.name!r} reads the global store {store!r}, which does not"
                    " exist in this builder. Join with a global table of the same builder.",
                    declared_at=node.declared_at,
                )


def _check_partition_counts(plan: PlanBuilder) -> None:
    """Repartition topics that must be equal must not be declared unequal."""
    for group in copartition_groups(plan):
        counts = {
            name: plan.internal_topics[name].partitions
            for name in group
            if name in plan.internal_topics and plan.internal_topics[name].partitions is not None
        }
        if len(set(counts.values())) > 1:
            listed = ", ".join(f"{name}: {count}" for name, count in sorted(counts.items()))
            raise TopologyError(
                "Repartition topics that are joined or grouped together are declared with"
                f" different partition counts ({listed}): equal keys would not meet. Give them the"
                " same partitions=.",
                declared_at=_declared_at(plan, counts),
            )


def _declared_at(plan: PlanBuilder, topics: Collection[str]) -> str | None:
    """Where the last of the sinks that write these topics was declared."""
    sites = [
        node.declared_at
        for node in plan.nodes.values()
        if isinstance(node, SinkNode)
        and isinstance(node.topic, TopicRef)
        and node.topic.name in topics
    ]
    return sites[-1] if sites else None
