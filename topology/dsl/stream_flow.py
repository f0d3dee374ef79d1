"""StreamFlow: what becomes of a stream in the graph; users have it as a ``KStream``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Self, TypeAlias, TypedDict

from logstate.contracts.serde import Serde
from logstate.topology.declaring import callbacks
from logstate.topology.declaring.argument_checks import (
    PARTITIONS_MAX,
    check_count,
    check_kind,
    check_options,
)
from logstate.topology.declaring.declaration_site import declaration_error, declaration_site
from logstate.topology.declaring.naming import check_name, required_name
from logstate.topology.declaring.serde_arguments import optional_serde, required_serde
from logstate.topology.declaring.windows import duration_ms
from logstate.topology.dsl.flow import Flow, K, V, left_out
from logstate.topology.dsl.materialized import Materialized, key_value_spec, materialized
from logstate.topology.dsl.table_flow import TableFlow
from logstate.topology.graph.logical import LogicalNode, ProcessorLogicalNode, SinkLogicalNode
from logstate.topology.graph.nodes import (
    Partitioner,
    ProcessorNode,
    SinkNode,
    TopicChooser,
    TopicRef,
)
from logstate.topology.operators.streams.filters import FilterNode
from logstate.topology.operators.streams.pass_through import PassThroughNode
from logstate.topology.operators.streams.process import ConnectedStores, ProcessNode
from logstate.topology.operators.tables.table_source import TableSourceNode
from logstate.topology.plan.repartition import RepartitionLogicalNode, repartition_topic
from logstate.topology.processor.processor import Processor
from logstate.topology.processor.processor_stores import Stores

#: further streams above one node
Also: TypeAlias = "StreamFlow[Any, Any] | Sequence[StreamFlow[Any, Any]]"


class StreamTableOptions(TypedDict, total=False):
    """Options of a table of a stream: its store, serdes of the rows, name, late stream."""

    store: str | Materialized | None
    key: Any
    value: Any
    name: str | None
    late: str | None


@dataclass(frozen=True, eq=False, repr=False)
class StreamFlow(Flow[K, V]):
    """A stream as its joins see it."""

    needs_repartition: bool

    def _below(
        self,
        node: ProcessorNode,
        *,
        key_changing: bool = False,
        value_changing: bool = False,
        keeps_value: bool = False,
        key: Any = None,
        value: Any = None,
    ) -> Self:
        """The stream below one new operator."""
        inherited_key = None if key_changing else self.key
        inherited_value = self.value if keeps_value else None
        logical = self._add(node, key_changing=key_changing, value_changing=value_changing)
        if value is None and not keeps_value:
            logical.leaves_out.add("value")
        return self._derive(
            node.name,
            logical,
            key=optional_serde(key, inherited_key, f"the key of {node.name!r}"),
            value=optional_serde(value, inherited_value, f"the value of {node.name!r}"),
            needs_repartition=self.needs_repartition or key_changing,
        )

    def _filtered(self, predicate: Callable[..., object], name: str | None, *, keeps: bool) -> Self:
        function = callbacks.predicate(predicate)
        node = self._node(FilterNode, name, "KSTREAM-FILTER-", predicate=function, keeps=keeps)
        return self._below(node, keeps_value=True)

    def _merged(self, others: Sequence[StreamFlow[K, V]], name: str | None) -> Self:
        """One stream of this and all others, two by two."""
        if name is not None:
            check_name(name, "an operator")
        merged = self
        for position, other in enumerate(others):
            suffix = "" if position == len(others) - 1 else f"-{position}"
            merged = merged._merge_one(other, None if name is None else name + suffix)
        return merged

    def _merge_one(self, other: StreamFlow[K, V], name: str | None) -> Self:
        check_kind(other, StreamFlow, "merge", "KStreams", "Make a table one by to_stream().")
        self._check_same_builder(other, "merge")
        node = self._node(PassThroughNode, name, "KSTREAM-MERGE-")
        logical = ProcessorLogicalNode(node, merge=True)
        self.builder.graph.add([self.logical, other.logical], logical)
        return self._derive(
            node.name,
            logical,
            key=self.key if self.key == other.key else None,
            value=self.value if self.value == other.value else None,
            source_names=self.source_names | other.source_names,
            needs_repartition=self.needs_repartition or other.needs_repartition,
        )

    def _with_others(self, also: Also, what: str) -> list[StreamFlow[Any, Any]]:
        """This stream and the others above one node, each once."""
        others: list[Any] = list(also) if isinstance(also, Sequence) else [also]
        parents: dict[LogicalNode, StreamFlow[Any, Any]] = {self.logical: self}
        for other in others:
            check_kind(other, StreamFlow, what, "KStreams", "Make a table one by to_stream().")
            self._check_same_builder(other, what)
            if other.logical in parents:
                raise declaration_error(
                    f"{what}: the stream {other.name!r} is given twice, and would come once. Leave"
                    " it out of also=, which takes the further ones."
                )
            parents[other.logical] = other
        return list(parents.values())

    def _processed(
        self,
        supplier: Callable[[], Processor[Any, Any, Any, Any]],
        stores: Stores,
        name: str | None,
        also: Also,
        close_on_idle: timedelta | None,
        *,
        key: Any,
        value: Any,
        keeps_key: bool,
    ) -> Self:
        """Return the stream of what a user's processor forwards."""
        parents = self._with_others(also, "process")
        prefix = "KSTREAM-PROCESSVALUES-" if keeps_key else "KSTREAM-PROCESSOR-"
        # The one kind of operator that burns no number when it is named.
        graph = self.builder.graph
        node_name = graph.new_name(prefix) if name is None else check_name(name, "an operator")
        node = ProcessNode(
            node_name,
            supplier=callbacks.supplier(supplier),
            connections=ConnectedStores(stores),
            keeps_key=keeps_key,
            schedule_name=name or graph.names.of_supplier(supplier),
            idle_ms=None
            if close_on_idle is None
            else duration_ms(close_on_idle, f"close_on_idle of {node_name!r}", at_least=1),
        )
        # Behind several parents no repartition may be moved up to one of them.
        logical = ProcessorLogicalNode(node, value_changing=len(parents) > 1)
        graph.add([parent.logical for parent in parents], logical)
        inherited_key = _common_serde(parent.key for parent in parents) if keeps_key else None
        return self._derive(
            node_name,
            logical,
            key=optional_serde(key, inherited_key, f"the key of {node_name!r}"),
            value=optional_serde(value, None, f"the value of {node_name!r}"),
            source_names=frozenset().union(*(parent.source_names for parent in parents)),
            needs_repartition=not keeps_key or any(one.needs_repartition for one in parents),
        )

    def _behind_its_key(self, topic: str, use: str, key: Any, value: Any) -> Self:
        """The stream behind a repartition topic if its keys may have changed."""
        if not self.needs_repartition:
            return self
        keys, values = self._key_serde(key, use), self._value_serde(value, use)
        return self._through_topic(topic, keys, values)

    def _through_topic(self, prefix: str, key: Serde[Any], value: Serde[Any]) -> Self:
        """This stream behind the repartition topic that a grouping or join needs."""
        topic = repartition_topic(self.builder.graph, prefix)
        site = declaration_site()
        return self._behind(
            RepartitionLogicalNode(topic, key, value, is_optimizable=True, declared_at=site)
        )

    def _repartitioned(
        self,
        name: str | None,
        key: Any,
        value: Any,
        partitions: int | None,
        partitioner: Partitioner | None,
    ) -> Self:
        """This stream behind the repartition topic that the user asks for."""
        prefix = required_name(name, "A repartition", "its topic is named after it", 'name="..."')
        check_count(partitions, "partitions of a repartition", most=PARTITIONS_MAX)
        callbacks.partitioner(partitioner)
        use = f"repartition topic {prefix!r}"
        topic = repartition_topic(self.builder.graph, prefix)
        node = RepartitionLogicalNode(
            topic,
            self._key_serde(key, use),
            self._value_serde(value, use),
            is_optimizable=False,
            partitions=partitions,
            partitioner=partitioner,
            declared_at=declaration_site(),
        )
        return self._behind(node)

    def _behind(self, node: RepartitionLogicalNode) -> Self:
        self.builder.graph.add(self.logical, node)
        return self._derive(
            node.name,
            node,
            key=node.key,
            value=node.value,
            source_names=frozenset({node.name}),
            needs_repartition=False,
        )

    def _write(
        self,
        topic: str | TopicChooser,
        key: Any,
        value: Any,
        partitioner: Partitioner | None,
        name: str | None,
        also: Also,
    ) -> None:
        """Send the stream, and others, to a topic; it ends here."""
        parents = self._with_others(also, "to")
        takes_context = not isinstance(topic, str) and callbacks.topic_chooser(topic)
        callbacks.partitioner(partitioner)
        node_name = self.builder.graph.names.named(name, "KSTREAM-SINK-")
        use = f"topic {topic!r}" if isinstance(topic, str) else f"the topics of sink {node_name!r}"

        def missing(part: str) -> str:
            return left_out(part, *(one.logical for one in parents))

        sink = SinkNode(
            node_name,
            TopicRef(check_name(topic, "a topic")) if isinstance(topic, str) else topic,
            required_serde(
                key,
                _common_serde(one.key for one in parents),
                f"the key of {use}",
                "key=",
                missing=lambda: missing("key"),
            ),
            required_serde(
                value,
                _common_serde(one.value for one in parents),
                f"the value of {use}",
                "value=",
                missing=lambda: missing("value"),
            ),
            takes_context=takes_context,
            partitioner=partitioner,
        )
        self.builder.graph.add([parent.logical for parent in parents], SinkLogicalNode(sink))

    def _as_table(self, given: StreamTableOptions) -> TableFlow[K, V]:
        """The table that has this stream as its changelog."""
        check_options(dict(given), StreamTableOptions, "to_table")
        key, value, name = given.get("key"), given.get("value"), given.get("name")
        graph = self.builder.graph
        node_name = graph.names.named(name, "KSTREAM-TOTABLE-")
        options = materialized(given.get("store"))
        if options is None:
            graph.new_store_name("KSTREAM-TOTABLE-")
        use = f"table {node_name!r}"
        key_serde = optional_serde(key, self.key, f"the key of {use}")
        value_serde = optional_serde(value, self.value, f"the value of {use}")
        parent = self
        if self.needs_repartition:
            prefix = required_name(
                name,
                "A table of a stream whose key was changed",
                "the stream goes through a repartition topic first",
                'name="..."',
            )
            parent = self._through_topic(
                prefix, self._key_serde(key, use), self._value_serde(value, use)
            )
        spec = None
        if options is not None:
            store_use = f"store {options.name!r}"
            spec = key_value_spec(
                options,
                self._key_serde(options.key or key, store_use),
                self._value_serde(options.value or value, store_use),
                self.builder.defaults,
            )
        node = TableSourceNode(node_name, store=spec)
        logical = parent._add(node, output_versioned=node.is_versioned())
        return TableFlow(
            self.builder, node_name, logical, parent.source_names, key_serde, value_serde, node
        )


def _common_serde(serdes: Iterable[Serde[Any] | None]) -> Serde[Any] | None:
    """The one that all have; None where they differ."""
    first, *others = serdes
    return first if all(other == first for other in others) else None
