"""The group coordinator: members, epochs, and the owner of each partition.

Two protocols:

- ``consumer`` (KIP-848): a change of membership creates a new target assignment; a member first
  gives back its revoked partitions, and then gets free ones. Other members are not affected.
- ``classic`` with the eager range assignor: every member gives back all partitions, and once all
  have responded, all partitions are assigned again.

A member communicates only through :meth:`Group.heartbeat`, which its consumer calls at each poll. A
change in the response of one heartbeat counts as handled at the next one: until then no other
member gets a partition that is being revoked.

As in Kafka, offsets of a transaction are checked against the MEMBER (known, current epoch), never
against what the member owns.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from logstate.contracts.clients import Rebalance
from logstate.contracts.errors import AbortableError
from logstate.contracts.range_assignor import assign_ranges
from logstate.contracts.records import TopicPartition
from logstate.testing.fake.group_offsets import GroupOffsets


@dataclass
class Member:
    """One member in the coordinator's state."""

    id: str
    instance_id: str | None
    topics: tuple[str, ...]
    last_seen_ms: int
    epoch: int = -1
    owned: set[TopicPartition] = field(default_factory=set)
    #: requested revocations that are not confirmed yet
    revoking: set[TopicPartition] = field(default_factory=set)
    #: classic: gave back all partitions and waits for the new generation
    has_joined: bool = False


class Group:
    """One consumer group."""

    def __init__(
        self,
        name: str,
        *,
        is_incremental: bool,
        session_timeout_ms: int,
        partition_counts: Callable[[], Mapping[str, int]],
        chosen: Callable[[set[TopicPartition]], set[TopicPartition]],
    ) -> None:
        self.name = name
        self.epoch = 0
        self.members: dict[str, Member] = {}
        self.offsets = GroupOffsets()
        self._is_incremental = is_incremental
        self._session_timeout_ms = session_timeout_ms
        self._partition_counts = partition_counts
        #: chooses the partitions that are assigned or revoked now; the others follow later
        self._chosen = chosen
        self._target: dict[str, set[TopicPartition]] = {}
        self._is_preparing = False
        self._numbers = itertools.count(1)

    # ------------------------------------------------------------------ membership

    def join(
        self, topics: Sequence[str], instance_id: str | None, now_ms: int, *, member_id: str = ""
    ) -> Member:
        """Add a new member, or one that returns with its old id."""
        for old in list(self.members.values()):
            if instance_id is not None and old.instance_id == instance_id:
                self._remove(old.id)
        identity = member_id or self.new_member_id()
        member = Member(identity, instance_id, tuple(topics), now_ms)
        self.members[identity] = member
        self._bump_epoch()
        return member

    def new_member_id(self) -> str:
        """Return an id for a new member."""
        return f"{self.name}-member-{next(self._numbers):04d}"

    def leave(self, member_id: str) -> None:
        """Remove a member that leaves or is removed: its partitions are free at once."""
        if member_id in self.members:
            self._remove(member_id)
            self._bump_epoch()

    def expire(self, now_ms: int) -> None:
        """Remove members without a heartbeat for the session time-out."""
        latest_ms = now_ms - self._session_timeout_ms
        for silent in [m.id for m in self.members.values() if m.last_seen_ms < latest_ms]:
            self.leave(silent)

    def rebalance(self) -> None:
        """Compute a new assignment without a change of membership."""
        self._bump_epoch()

    def _remove(self, member_id: str) -> None:
        del self.members[member_id]
        self._target.pop(member_id, None)

    def _bump_epoch(self) -> None:
        self.epoch += 1
        if self._is_incremental:
            self._target = self._assignment()
        else:
            self._is_preparing = True
            for member in self.members.values():
                member.has_joined = not member.owned
            self._complete_if_all_joined()

    def _assignment(self) -> dict[str, set[TopicPartition]]:
        subscriptions = {m.id: m.topics for m in self.members.values()}
        static = {m.id: m.instance_id for m in self.members.values() if m.instance_id is not None}
        return assign_ranges(subscriptions, self._partition_counts(), static)

    # ------------------------------------------------------------------ heartbeats

    def heartbeat(self, member: Member, now_ms: int) -> list[Rebalance]:
        """Return the changes for a member, which has handled all earlier ones."""
        member.last_seen_ms = now_ms
        if self._is_incremental:
            return self._incremental_heartbeat(member)
        return self._eager_heartbeat(member)

    def _incremental_heartbeat(self, member: Member) -> list[Rebalance]:
        if member.revoking:
            member.owned -= member.revoking
            member.revoking = set()
        target = self._target[member.id]
        if member.owned == target:
            is_news = member.epoch == -1  # a client receives an empty assignment, too
            member.epoch = self.epoch
            return [Rebalance("assigned", [])] if is_news else []
        surplus = member.owned - target
        if surplus:
            member.revoking = self._chosen(surplus)
            return [Rebalance("revoked", sorted(member.revoking))]
        member.epoch = self.epoch
        taken = {tp for m in self.members.values() for tp in m.owned}
        free = self._chosen(target - taken)
        if not free:
            return []
        member.owned |= free
        return [Rebalance("assigned", sorted(free))]

    def _eager_heartbeat(self, member: Member) -> list[Rebalance]:
        if member.revoking:
            member.owned = set()
            member.revoking = set()
            member.has_joined = True
            self._complete_if_all_joined()
        if self._is_preparing and member.owned:
            member.revoking = set(member.owned)
            return [Rebalance("revoked", sorted(member.owned))]
        if self._is_preparing or member.epoch == self.epoch:
            return []
        member.epoch = self.epoch
        member.owned = set(self._target[member.id])
        return [Rebalance("assigned", sorted(member.owned))]

    def _complete_if_all_joined(self) -> None:
        if self._is_preparing and all(m.has_joined for m in self.members.values()):
            self._is_preparing = False
            self.epoch += 1
            self._target = self._assignment()

    # ------------------------------------------------------------------ fencing

    def check_member(self, member_id: str, epoch: int) -> None:
        """What a transaction's offsets are checked for; raises AbortableError.

        As in Kafka, a consumer that never joined commits without an id, and is not checked.
        """
        if not member_id and epoch == -1:
            return
        member = self.members.get(member_id)
        if member is None:
            raise AbortableError(
                f"group {self.name!r} does not know member {member_id!r}: UNKNOWN_MEMBER_ID"
            )
        if member.epoch != epoch:
            raise AbortableError(
                f"member {member_id!r} of group {self.name!r} is at epoch {member.epoch}, not"
                f" {epoch}: STALE_MEMBER_EPOCH"
            )
