"""The admin client of the fake cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from logstate.contracts.clients import Committed, NewTopic, TopicDescription
from logstate.contracts.errors import BrokerError, MembersLiveError, TopicError
from logstate.contracts.records import TopicPartition
from logstate.contracts.topic_names import name_conflict
from logstate.testing.fake.client import FakeClient, client_call


class FakeAdmin(FakeClient):
    """See :class:`logstate.contracts.clients.Admin`."""

    @client_call
    def describe_topics(
        self, topics: Sequence[str], beginning: str | None = None
    ) -> dict[str, TopicDescription]:
        known = self._cluster.topics
        return {
            name: TopicDescription(topic.topic_id, len(topic.logs))
            for name, topic in known.items()
            if name in topics or (beginning is not None and name.startswith(beginning))
        }

    @client_call
    def topic_names(self) -> list[str]:
        return list(self._cluster.topics)

    @client_call
    def create_topics(self, topics: Sequence[NewTopic]) -> set[str]:
        there = list(self._cluster.topics)
        made = set()
        for topic in topics:
            if topic.name not in there:
                why = name_conflict(topic.name, there)
                if why:
                    raise TopicError(why)
                self._cluster.create_topic(topic.name, topic.partitions, topic.config)
                made.add(topic.name)
        return made

    @client_call
    def delete_topics(self, topics: Sequence[str]) -> None:
        for name in topics:
            self._cluster.delete_topic(name)

    @client_call
    def topic_configs(self, topics: Sequence[str]) -> dict[str, dict[str, str]]:
        return {name: dict(self._cluster.topic(name).config) for name in topics}

    @client_call
    def start_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return {tp: self._cluster.log(tp).start for tp in partitions}

    @client_call
    def end_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return {tp: self._cluster.log(tp).end for tp in partitions}

    @client_call
    def stable_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return {tp: self._cluster.log(tp).lso for tp in partitions}

    @client_call
    def offsets_at(
        self, partitions: Sequence[TopicPartition], timestamp_ms: int
    ) -> dict[TopicPartition, int]:
        return {tp: self._cluster.log(tp).offset_at(timestamp_ms) for tp in partitions}

    @client_call
    def delete_records(self, before: Mapping[TopicPartition, int]) -> None:
        for partition, offset in before.items():
            if self._cluster.topic(partition.topic).cleanup_policy == {"compact"}:
                raise BrokerError(
                    f"records of {partition.topic!r} cannot be deleted: its cleanup.policy is"
                    " compact only (POLICY_VIOLATION)"
                )
            self._cluster.log(partition).delete_before(offset)

    @client_call
    def committed_so_far(
        self, group_id: str, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, Committed]:
        committed = self._cluster.group(group_id).offsets.committed
        return {tp: committed.get(tp, Committed(None, "")) for tp in partitions}

    @client_call
    def commit_without_members(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        group = self._cluster.group(group_id)
        if group.members:
            raise MembersLiveError(f"group {group_id!r} has members")
        for partition, offset in offsets.items():
            group.offsets.committed[partition] = Committed(offset, "")

    @client_call
    def close(self) -> None:
        """Nothing to release."""
