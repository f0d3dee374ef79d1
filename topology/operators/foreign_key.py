"""Join of two tables by a foreign key in the left rows (KIP-213): the graph of its nodes.

The tables need not be co-partitioned. Left rows subscribe to right rows through one internal topic
and hear from them through another::

    left --> subscription_send --> <name>-subscription-registration-topic
    registration topic --> subscription_receive --> subscription_join --> response topic
    right --> subscription_update --> <name>-subscription-response-topic
    response topic --> subscription_resolve --> <name>-result (the joined table)

Results are eventually those of the join: while records are under way a result may be missing or
stale, and the last answer wins. A result that the right side triggered has the right record's
timestamp even if the left row is newer.

Names, for a join named ``j``: topics ``j-subscription-registration-topic`` and
``j-subscription-response-topic``, store ``j-subscription-store``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from logstate.errors import ProcessingError
from logstate.serde import Serde
from logstate.stores import StoreSpec
from logstate.subscription_serdes import (
    CombinedKeySerde,
    SubscriptionResponse,
    SubscriptionResponseSerde,
    SubscriptionSerde,
)
from logstate.topology.graph import Partitioner, ProcessorNode, SinkNode, SourceNode, TopicRef
from logstate.topology.logical import (
    LogicalNode,
    ProcessorLogicalNode,
    SinkLogicalNode,
    SourceLogicalNode,
    StoreLogicalNode,
)
from logstate.topology.operators.subscription_join import SubscriptionJoinNode
from logstate.topology.operators.subscription_receive import SubscriptionReceiveNode
from logstate.topology.operators.subscription_resolve import SubscriptionResolveNode
from logstate.topology.operators.subscription_send import SubscriptionSendNode
from logstate.topology.operators.subscription_update import SubscriptionUpdateNode
from logstate.topology.operators.table_source import TableSourceNode
from logstate.topology.plan_builder import PlanBuilder
from logstate.topology.table import KTable

_REGISTRATION = "KTABLE-FK-JOIN-SUBSCRIPTION-REGISTRATION-"
_RESPONSE = "KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE-"
_PROCESSOR = "KTABLE-FK-JOIN-SUBSCRIPTION-PROCESSOR-"


def foreign_key_join(
    left: KTable[Any, Any],
    right: KTable[Any, Any],
    *,
    foreign_key: Callable[[Any, Any], Any],
    joiner: Callable[[Any, Any, Any], Any],
    is_left: bool,
    name: str,
    store: StoreSpec | None,
    partitioner: Partitioner | None = None,
    other_partitioner: Partitioner | None = None,
    declared_at: str | None = None,
) -> KTable[Any, Any]:
    """The joined table. ``foreign_key(key, value)`` of a left row; ``joiner(key, left, right)``.

    ``other_partitioner`` places subscriptions like the right table, ``partitioner`` responses like
    the left one; they see keys only (KIP-775). Without them subscriptions are placed by their key,
    and responses go to the partition that the left row came from.
    """
    # Nodes are named, and numbers used up, in the order in which Kafka Streams does.
    right.node.enable_sending_old_values(force=True)
    left.node.enable_sending_old_values(force=True)
    shape = _ForeignKeyShape(left, right, name, declared_at)
    topic = shape.suffixed("-subscription-registration", _REGISTRATION) + "-topic"
    send = shape.below(
        left.logical,
        SubscriptionSendNode(
            shape.suffixed("-subscription-registration-processor", _REGISTRATION),
            foreign_key=foreign_key,
            foreign_key_serde=shape.foreign_key,
            value=shape.left_value,
            registration_topic=topic,
            is_left=is_left,
            declared_at=declared_at,
        ),
    )
    source = shape.through(
        [send],
        "-subscription-registration",
        topic,
        shape.foreign_key,
        SubscriptionSerde(shape.primary_key),
        None if other_partitioner is None else _by_key_alone(other_partitioner, name),
    )
    shape.graph.copartition(right.source_names | {source.name})
    answers = shape.answering(source, topic)
    response_topic = shape.suffixed("-subscription-response", _RESPONSE) + "-topic"
    response = shape.through(
        answers,
        "-subscription-response",
        response_topic,
        shape.primary_key,
        SubscriptionResponseSerde(shape.right_value),
        _to_primary_partition if partitioner is None else _by_key_alone(partitioner, name),
    )
    sources = left.source_names | {response.name}
    shape.graph.copartition(sources)
    resolve = shape.below(
        response,
        SubscriptionResolveNode(
            shape.suffixed(
                "-subscription-response-resolver",
                "KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE-RESOLVER-PROCESSOR-",
            ),
            left=left.node,
            value=shape.left_value,
            registration_topic=topic,
            joiner=joiner,
            is_left=is_left,
            declared_at=declared_at,
        ),
    )
    return shape.result(resolve, store, sources)


class _ForeignKeyShape:
    """The logical graph of one join while it grows."""

    def __init__(
        self,
        left: KTable[Any, Any],
        right: KTable[Any, Any],
        name: str,
        declared_at: str | None,
    ) -> None:
        use = f"foreign-key join {name!r}"
        self.left = left
        self.right = right
        self.name = name
        self.declared_at = declared_at
        self.graph = left.builder.graph
        self.primary_key = left.key_serde(None, f"the left table of {use}")
        self.left_value = left.value_serde(None, f"the left table of {use}")
        self.foreign_key = right.key_serde(None, f"the right table of {use}")
        self.right_value = right.value_serde(None, f"the right table of {use}")

    def suffixed(self, suffix: str, prefix: str) -> str:
        """The join's name with a suffix; a number is used up all the same."""
        return self.graph.names.suffixed(self.name, suffix, prefix)

    def below(self, parent: LogicalNode, node: ProcessorNode) -> ProcessorLogicalNode:
        """Put an operator below ``parent``."""
        logical = ProcessorLogicalNode(node)
        self.graph.add(parent, logical)
        return logical

    def through(
        self,
        parents: list[ProcessorLogicalNode],
        suffix: str,
        topic: str,
        key: Serde[Any],
        value: Serde[Any],
        partitioner: Partitioner | None,
    ) -> SourceLogicalNode:
        """Send what the parents forward through an internal topic; its source."""
        ref = TopicRef(topic, is_internal=True)
        sink = _InternalSinkLogicalNode(
            SinkNode(
                self.suffixed(f"{suffix}-sink", "KSTREAM-SINK-"),
                ref,
                key,
                value,
                partitioner=partitioner,
                declared_at=self.declared_at,
            )
        )
        self.graph.add(list(parents), sink)
        source = SourceLogicalNode(
            SourceNode(
                self.suffixed(f"{suffix}-source", "KSTREAM-SOURCE-"),
                (ref,),
                key,
                value,
                declared_at=self.declared_at,
            )
        )
        self.graph.add(sink, source)
        return source

    def answering(self, source: SourceLogicalNode, topic: str) -> list[ProcessorLogicalNode]:
        """The right side: who answers subscriptions, and who tells of changed rows."""
        spec = StoreSpec(
            self.suffixed("-subscription-store", "KTABLE-FK-JOIN-SUBSCRIPTION-STATE-STORE-"),
            "foreign_key_subscription",
            CombinedKeySerde(self.foreign_key, self.primary_key, registration_topic=topic),
            SubscriptionSerde(self.primary_key),
            in_memory=self.left.builder.defaults.in_memory,
            declared_at=self.declared_at,
        )
        self.graph.add(self.graph.root, StoreLogicalNode(spec))
        site = self.declared_at
        receive = self.below(
            source,
            SubscriptionReceiveNode(
                self.suffixed("-subscription-receive", _PROCESSOR),
                store=spec.name,
                declared_at=site,
            ),
        )
        join = self.below(
            receive,
            SubscriptionJoinNode(
                self.suffixed("-subscription-join-foreign", _PROCESSOR),
                right=self.right.node,
                declared_at=site,
            ),
        )
        update = self.below(
            self.right.logical,
            SubscriptionUpdateNode(
                self.suffixed("-foreign-join-subscription", _PROCESSOR),
                store=spec.name,
                declared_at=site,
            ),
        )
        return [join, update]

    def result(
        self, resolve: LogicalNode, store: StoreSpec | None, sources: frozenset[str]
    ) -> KTable[Any, Any]:
        """The joined table."""
        node = TableSourceNode(
            self.suffixed("-result", "KTABLE-FK-JOIN-OUTPUT-"),
            store=store,
            declared_at=self.declared_at,
        )
        logical = ProcessorLogicalNode(
            node, output_versioned=store is not None and store.kind == "versioned"
        )
        self.graph.add(resolve, logical)
        return KTable(
            self.left.builder,
            node.name,
            logical,
            sources,
            self.primary_key,
            None if store is None else store.value,
            node,
        )


class _InternalSinkLogicalNode(SinkLogicalNode):
    """A sink that brings its topic along."""

    def write(self, plan: PlanBuilder) -> None:
        assert isinstance(self.sink.topic, TopicRef)
        plan.add_internal_topic(self.sink.topic.name, kind="foreign_key")
        super().write(plan)


def _to_primary_partition(
    topic: str, key: Any, response: SubscriptionResponse, partitions: int
) -> int | None:
    return response.primary_partition


def _by_key_alone(partitioner: Partitioner, name: str) -> Partitioner:
    """A user's partitioner, which sees no value and has to name one partition."""

    def place(topic: str, key: Any, value: Any, partitions: int) -> int | None:
        chosen = partitioner(topic, key, None, partitions)
        if chosen is None or isinstance(chosen, int):
            return chosen
        if len(chosen) != 1:
            raise ProcessingError(
                f"the partitioner of foreign-key join {name!r} returned {chosen!r} for topic"
                f" {topic!r} and key {key!r}; a join needs exactly one partition, or None for the"
                " default. Otherwise a row would be answered twice or never",
                topic=topic,
                node=name,
            )
        return chosen[0]

    return place
