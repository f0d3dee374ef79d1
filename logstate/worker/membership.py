"""The worker's membership in the consumer group, with a consumer that can be replaced.

A client that was removed for good (a broker that no longer knows it, an id that is still in use)
returns the same error forever. The next consumer joins as a new member; the partitions of the old
one are lost and are assigned again by a rebalance, if at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from logstate.contracts.clients import (
    Cluster,
    Committed,
    GroupConsumer,
    Polled,
    Rebalance,
    Step,
    Steps,
)
from logstate.contracts.errors import ErrorCollector
from logstate.contracts.records import TopicPartition
from logstate.contracts.topic_names import cuts_topic

#: how long the group may take to assign the partitions of a static member to others
GIVE_UP_S = 10.0


class Membership:
    """A :class:`logstate.contracts.clients.GroupConsumer` that can be replaced."""

    def __init__(self, cluster: Cluster, group_id: str, instance_id: str | None) -> None:
        self._cluster = cluster
        self._group_id = group_id
        self._instance_id = instance_id
        self._current: GroupConsumer | None = None
        #: a static member leaves the group for good
        self.leaves_group = False
        self._subscription: tuple[Sequence[str], Callable[[Rebalance], None]] | None = None

    @classmethod
    def joined(cls, cluster: Cluster, group_id: str, instance_id: str | None) -> Steps[Membership]:
        """Create a membership with its first consumer."""
        membership = cls(cluster, group_id, instance_id)
        membership._current = yield Step("group_consumer", membership._new_consumer)
        return membership

    def renew(self) -> Steps[None]:
        """Replace the consumer and join again. The caller has released its tasks."""
        closing = ErrorCollector()  # errors when closing an unusable client do not matter
        yield from closing.steps(self._closed())
        self._current = yield Step("group_consumer", self._new_consumer)
        if self._subscription is not None:
            yield Step("subscribe", self._consumer.subscribe, self._subscription)

    def _closed(self) -> Steps[None]:
        yield Step("close_consumer", self._consumer.close)

    def _new_consumer(self) -> GroupConsumer:
        return self._cluster.group_consumer(group_id=self._group_id, instance_id=self._instance_id)

    @property
    def _consumer(self) -> GroupConsumer:
        assert self._current is not None, "joined() makes it"
        return self._current

    # ------------------------------------------------------------------ GroupConsumer

    def subscribe(self, topics: Sequence[str], on_rebalance: Callable[[Rebalance], None]) -> None:
        self._subscription = topics, on_rebalance
        self._consumer.subscribe(topics, on_rebalance)

    def poll(self, max_records: int, timeout_s: float) -> Polled:
        assert self._current is not None, "joined() makes it"
        return self._current.poll(max_records, timeout_s)

    def stay(self, is_still: Callable[[], bool]) -> None:
        """Keep the current consumer in the group; does nothing before there is one. Thread-safe."""
        current = self._current
        if current is not None:
            current.stay(is_still)

    def ask_group(self) -> None:
        self._consumer.ask_group()

    def committed(
        self, partitions: Sequence[TopicPartition], timeout_s: float
    ) -> dict[TopicPartition, Committed]:
        return self._consumer.committed(partitions, timeout_s)

    def start(self, positions: Mapping[TopicPartition, int]) -> None:
        self._consumer.start(positions)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        self._consumer.pause(partitions)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        self._consumer.resume(partitions)

    def known_ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self._consumer.known_ends(partitions)

    def group_metadata(self) -> object:
        return self._consumer.group_metadata()

    def member_id(self) -> str:
        return self._consumer.member_id()

    def close(self) -> None:
        if self.leaves_group and self._instance_id is not None and self._subscription is not None:
            self._consumer.give_up(cuts_topic(self._group_id), GIVE_UP_S)
        self._consumer.close()

    def give_up(self, topic: str, timeout_s: float) -> None:
        self._consumer.give_up(topic, timeout_s)
