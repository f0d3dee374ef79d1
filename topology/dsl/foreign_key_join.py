"""Join of two tables by a foreign key in the left rows (KIP-213): the graph of its nodes.

The tables need not be co-partitioned. Left rows subscribe to right rows through one internal topic
and hear from them through another::

    left --> SubscriptionSend --> <name>-subscription-registration-topic
    registration topic --> SubscriptionReceive --> SubscriptionJoin --> response topic
    right --> SubscriptionUpdate --> <name>-subscription-response-topic
    response topic --> SubscriptionResolve --> <name>-result (the joined table)

Results are eventually those of the join: while records are under way a result may be missing or
stale, and the last answer wins. A result that the right side triggered has the right record's
timestamp even if the left row is newer.

Names, for a join named ``j``: topics ``j-subscription-registration-topic`` and
``j-subscription-response-topic``, store ``j-subscription-store``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from logstate.contracts.errors import ProcessingError
from logstate.contracts.record_parts import partitions_of, shown
from logstate.contracts.serde import Serde
from logstate.contracts.stores import StoreSpec
from logstate.serdes.join_serdes import (
    CombinedKeySerde,
    SubscriptionResponse,
    SubscriptionResponseSerde,
    SubscriptionSerde,
)
from logstate.topology.dsl.table_flow import TableFlow
from logstate.topology.graph.logical import (
    LogicalNode,
    ProcessorLogicalNode,
    SinkLogicalNode,
    SourceLogicalNode,
    StoreLogicalNode,
)
from logstate.topology.graph.nodes import Partitioner, ProcessorNode, SinkNode, SourceNode, TopicRef
from logstate.topology.graph.plan_builder import PlanBuilder
from logstate.topology.operators.joins.foreign_key_left import (
    SubscriptionResolveNode,
    SubscriptionSendNode,
)
from logstate.topology.operators.joins.foreign_key_right import (
    SubscriptionJoinNode,
    SubscriptionReceiveNode,
    SubscriptionUpdateNode,
)
from logstate.topology.operators.tables.table_source import TableSourceNode

_REGISTRATION = "KTABLE-FK-JOIN-SUBSCRIPTION-REGISTRATION-"
_RESPONSE = "KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE-"
_PROCESSOR = "KTABLE-FK-JOIN-SUBSCRIPTION-PROCESSOR-"
_RESOLVER = "KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE-RESOLVER-PROCESSOR-"


T = TypeVar("T", bound=TableFlow[Any, Any])


def foreign_key_join(
    left: T,
    right: TableFlow[Any, Any],
    *,
    foreign_key: Callable[[Any, Any], Any],
    joiner: Callable[[Any, Any, Any], Any],
    is_left: bool,
    name: str,
    store: StoreSpec | None,
    value: Serde[Any] | None = None,
    partitioner: Partitioner | None = None,
    other_partitioner: Partitioner | None = None,
    declared_at: str | None = None,
) -> T:
    """The joined table. ``foreign_key(key, value)`` of a left row; ``joiner(key, left, right)``.

    ``value`` is the serde of the result if it is kept in no ``store``.

    ``other_partitioner`` places subscriptions like the right table, ``partitioner`` responses like
    the left one; they see keys only (KIP-775). Without them subscriptions are placed by their key,
    and responses go to the partition that the left row came from.
    """
    right.node.enable_sending_old_values(force=True)
    left.node.enable_sending_old_values(force=True)
    # From here on nodes are named, and numbers used up, in the order in which Kafka Streams does.
    shape = _ForeignKeyShape(left, right, name, is_left=is_left, declared_at=declared_at)
    subscriptions = shape.subscribing(foreign_key, other_partitioner)
    answers = shape.answering(subscriptions)
    responses = shape.responding(answers, partitioner)
    return shape.resolving(responses, joiner, store, value)


class _ForeignKeyShape(Generic[T]):
    """The logical graph of one join while it grows."""

    def __init__(
        self,
        left: T,
        right: TableFlow[Any, Any],
        name: str,
        *,
        is_left: bool,
        declared_at: str | None,
    ) -> None:
        use = f"foreign-key join {name!r}"
        self.left = left
        self.right = right
        self.name = name
        self.is_left = is_left
        self.declared_at = declared_at
        self.graph = left.builder.graph
        self.primary_key = left._key_serde(None, f"the left table of {use}")
        self.left_value = left._value_serde(None, f"the left table of {use}")
        self.foreign_key = right._key_serde(None, f"the right table of {use}")
        self.right_value = right._value_serde(None, f"the right table of {use}")
        self.registration_topic = self._name_with_suffix(
            "-subscription-registration", _REGISTRATION
        )
        self.registration_topic += "-topic"

    def subscribing(
        self, foreign_key: Callable[[Any, Any], Any], partitioner: Partitioner | None
    ) -> SourceLogicalNode:
        """The left side: changes of rows become subscriptions; where these arrive."""
        send = self._below(
            self.left.logical,
            SubscriptionSendNode(
                self._name_with_suffix("-subscription-registration-processor", _REGISTRATION),
                left=self.left.node,
                foreign_key=foreign_key,
                foreign_key_serde=self.foreign_key,
                value=self.left_value,
                registration_topic=self.registration_topic,
                is_left=self.is_left,
            ),
        )
        source = self._send_through(
            [send],
            "-subscription-registration",
            self.registration_topic,
            self.foreign_key,
            SubscriptionSerde(self.primary_key),
            None if partitioner is None else _by_key_alone(partitioner, self.name),
        )
        self.graph.copartition(self.right.source_names | {source.name})
        return source

    def answering(self, subscriptions: SourceLogicalNode) -> list[ProcessorLogicalNode]:
        """Return the right side: the node that answers subscriptions, and the one for updates."""
        key = CombinedKeySerde(
            self.foreign_key, self.primary_key, registration_topic=self.registration_topic
        )
        spec = StoreSpec(
            self._name_with_suffix(
                "-subscription-store", "KTABLE-FK-JOIN-SUBSCRIPTION-STATE-STORE-"
            ),
            "foreign_key_subscription",
            key,
            SubscriptionSerde(self.primary_key),
            in_memory=self.left.builder.defaults.in_memory,
            declared_at=self.declared_at,
        )
        self.graph.add(self.graph.root, StoreLogicalNode(spec))
        receive = SubscriptionReceiveNode(
            self._name_with_suffix("-subscription-receive", _PROCESSOR),
            store_name=spec.name,
        )
        received = self._below(subscriptions, receive)
        join = SubscriptionJoinNode(
            self._name_with_suffix("-subscription-join-foreign", _PROCESSOR),
            right=self.right.node,
        )
        joined = self._below(received, join)
        update = SubscriptionUpdateNode(
            self._name_with_suffix("-foreign-join-subscription", _PROCESSOR),
            store_name=spec.name,
        )
        return [joined, self._below(self.right.logical, update)]

    def responding(
        self, answers: list[ProcessorLogicalNode], partitioner: Partitioner | None
    ) -> SourceLogicalNode:
        """The way back: where responses arrive."""
        source = self._send_through(
            answers,
            "-subscription-response",
            self._name_with_suffix("-subscription-response", _RESPONSE) + "-topic",
            self.primary_key,
            SubscriptionResponseSerde(self.right_value),
            _to_primary_partition if partitioner is None else _by_key_alone(partitioner, self.name),
        )
        self.graph.copartition(self.left.source_names | {source.name})
        return source

    def resolving(
        self,
        responses: SourceLogicalNode,
        joiner: Callable[[Any, Any, Any], Any],
        store: StoreSpec | None,
        value: Serde[Any] | None,
    ) -> T:
        """The left side again: the joined table; kept in ``store``, if there is one."""
        resolve = SubscriptionResolveNode(
            self._name_with_suffix("-subscription-response-resolver", _RESOLVER),
            left=self.left.node,
            value=self.left_value,
            registration_topic=self.registration_topic,
            joiner=joiner,
            is_left=self.is_left,
        )
        resolved = self._below(responses, resolve)
        node = TableSourceNode(
            self._name_with_suffix("-result", "KTABLE-FK-JOIN-OUTPUT-"),
            store=store,
        )
        if store is None:
            self.graph.names.skip_number()  # Kafka Streams makes up the name of a store here
        is_versioned = store is not None and store.is_versioned
        logical = ProcessorLogicalNode(node, output_versioned=is_versioned)
        self.graph.add(resolved, logical)
        return self.left._derive(
            node.name,
            logical,
            source_names=self.left.source_names | {responses.name},
            key=self.primary_key,
            value=value if store is None else store.value,
            node=node,
        )

    def _name_with_suffix(self, suffix: str, prefix: str) -> str:
        """The join's name with a suffix; a number is used up all the same."""
        return self.graph.names.suffixed(self.name, suffix, prefix)

    def _below(self, parent: LogicalNode, node: ProcessorNode) -> ProcessorLogicalNode:
        logical = ProcessorLogicalNode(node)
        self.graph.add(parent, logical)
        return logical

    def _send_through(
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
        sink = SinkNode(
            self._name_with_suffix(f"{suffix}-sink", "KSTREAM-SINK-"),
            ref,
            key,
            value,
            partitioner=partitioner,
        )
        written = _InternalSinkLogicalNode(sink)
        self.graph.add(list(parents), written)
        source = SourceNode(
            self._name_with_suffix(f"{suffix}-source", "KSTREAM-SOURCE-"),
            (ref,),
            key,
            value,
        )
        read = SourceLogicalNode(source)
        self.graph.add(written, read)
        return read


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
        if chosen is None or type(chosen) is int:
            return chosen
        given_by = f"the partitioner of foreign-key join {name!r} returned"
        found = partitions_of(chosen, given_by)
        if len(found) != 1:
            raise ProcessingError(
                f"{given_by} {shown(chosen)} for topic"
                f" {topic!r} and key {key!r}; a join needs exactly one partition, or None for the"
                " default. Otherwise a row would be answered twice or never",
                topic=topic,
                node=name,
            )
        return found[0]

    return place
