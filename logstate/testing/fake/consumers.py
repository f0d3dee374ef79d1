"""The consumers of the fake cluster: the group's member, and the reader of logs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from logstate.contracts.clients import Committed, Polled, Rebalance
from logstate.contracts.errors import RetriableError
from logstate.contracts.records import TopicPartition
from logstate.testing.fake.brokers import FakeBrokers
from logstate.testing.fake.client import FakeClient, ProcessLife, client_call
from logstate.testing.fake.fetcher import Fetcher
from logstate.testing.fake.group import Member


class FakeLogConsumer(FakeClient):
    """Assign-only, read committed (see :class:`logstate.contracts.clients.LogConsumer`)."""

    fault_prefix = "log_"

    def __init__(self, cluster: FakeBrokers, process: ProcessLife | None) -> None:
        super().__init__(cluster, process)
        self._fetcher = Fetcher(cluster.log_or_none)

    @client_call
    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        self._fetcher.replace(positions)

    @client_call
    def poll(self, max_records: int, timeout_s: float) -> Polled:
        polled = Polled()
        limit = self._cluster.fetch_limit(max_records)
        self.wait_for(lambda: self._fetcher.fetch(polled, limit), timeout_s)
        return polled

    @client_call
    def position(self, partition: TopicPartition) -> int | None:
        return self._fetcher.position(partition)

    @client_call
    def close(self) -> None:
        self._fetcher.replace({})


class FakeGroupConsumer(FakeClient):
    """A group member (see :class:`logstate.contracts.clients.GroupConsumer`).

    Changes of the assignment come in ``Polled.rebalances``; the worker handles them before the
    next poll, which confirms them to the coordinator.
    """

    def __init__(
        self,
        cluster: FakeBrokers,
        process: ProcessLife | None,
        group_id: str,
        instance_id: str | None,
    ) -> None:
        super().__init__(cluster, process)
        self._group = cluster.group(group_id)
        self._instance_id = instance_id
        self._fetcher = Fetcher(cluster.log_or_none)
        self._topics: tuple[str, ...] = ()
        self._member: Member | None = None
        self._epoch = -1
        self._member_id = ""
        self._leaving: set[TopicPartition] = set()

    @client_call
    def subscribe(self, topics: Sequence[str], on_rebalance: Callable[[Rebalance], None]) -> None:
        del on_rebalance  # changes are in Polled.rebalances, so that each one is a step
        self._topics = tuple(topics)

    @client_call
    def poll(self, max_records: int, timeout_s: float) -> Polled:
        polled = Polled()
        limit = self._cluster.fetch_limit(max_records)

        def check() -> bool:
            self._heartbeat(polled)
            return self._fetcher.fetch(polled, limit) or bool(polled.rebalances)

        self.wait_for(check, timeout_s)
        return polled

    @client_call
    def stay(self, is_still: Callable[[], bool]) -> None:
        if self._member is not None and is_still():
            self._member.last_seen_ms = self._cluster.now_ms()

    @client_call
    def ask_group(self) -> None:
        pass  # every poll does

    @client_call
    def committed(
        self, partitions: Sequence[TopicPartition], timeout_s: float
    ) -> dict[TopicPartition, Committed]:
        found: dict[TopicPartition, Committed] = {}

        def check() -> bool:
            try:
                found.update(self._group.offsets.fetch(partitions))
            except RetriableError:
                return False
            return True

        self.wait_for(check, timeout_s)
        return found or self._group.offsets.fetch(partitions)

    @client_call
    def start(self, positions: Mapping[TopicPartition, int]) -> None:
        missing = [str(tp) for tp in positions if tp not in self._fetcher]
        if missing:
            raise RetriableError(f"cannot seek: {missing} are not assigned")
        for partition, position in positions.items():
            self._fetcher.seek(partition, position)
        self._fetcher.resume(positions)

    @client_call
    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        self._fetcher.pause(partitions)

    @client_call
    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        self._fetcher.resume(partitions)

    def known_ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        logs = {tp: self._cluster.log_or_none(tp) for tp in partitions if tp in self._fetcher}
        return {tp: log.end for tp, log in logs.items() if log is not None}

    @client_call
    def group_metadata(self) -> object:
        return self._group, self._member_id, self._epoch

    def member_id(self) -> str:
        if not self._member_id and self._cluster.is_incremental:
            self._member_id = self._group.new_member_id()  # the member chooses it (KIP-848)
        return self._member_id

    @client_call
    def give_up(self, topic: str, timeout_s: float) -> None:  # noqa: ARG002  done at once
        if self._member is not None:
            self._group.leave(self._member.id)
        self._member = None

    @client_call
    def close(self) -> None:
        # A static member only goes offline; its partitions wait for its return.
        if self._member is not None and self._instance_id is None:
            self._group.leave(self._member.id)
        self._member = None
        self._fetcher.replace({})

    # ------------------------------------------------------------------ membership

    def _heartbeat(self, polled: Polled) -> None:
        now_ms = self._cluster.now_ms()
        if self._leaving:  # revoked in the last poll, and handled by now
            self._fetcher.remove(self._leaving)
            self._leaving = set()
        if not self._topics or self._must_rejoin(polled, now_ms):
            return
        assert self._member is not None
        for rebalance in self._group.heartbeat(self._member, now_ms):
            if rebalance.kind == "assigned":
                self._fetcher.add_paused(rebalance.partitions)
            else:
                self._leaving = set(rebalance.partitions)
                self._fetcher.pause(rebalance.partitions)
            polled.rebalances.append(rebalance)
        self._epoch = self._member.epoch

    def _must_rejoin(self, polled: Polled, now_ms: int) -> bool:
        """Join, or report that the membership was lost and join at the next poll."""
        member = self._member
        if member is not None and self._group.members.get(member.id) is member:
            return False
        self._member = None
        lost = self._fetcher.partitions
        if lost:
            self._leaving = set(lost)
            self._fetcher.pause(lost)
            polled.rebalances.append(Rebalance("lost", sorted(lost)))
            return True
        keeps_id = self._cluster.is_incremental
        self._member = self._group.join(
            self._topics,
            self._instance_id,
            now_ms,
            member_id=self._member_id if keeps_id else "",
        )
        self._member_id = self._member.id
        self._epoch = -1
        return False
