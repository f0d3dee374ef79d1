"""Assign standbys: a task's state is copied to the members that would get the task next.

The assignor is a function of the members (:mod:`logstate.contracts.range_assignor`), so the next
owner of a task is known in advance. The first standbys are placed there: the owner after the death
of the task's own instance, then the owners after the death of any other instance, which can move
the task as well. The rest of ``replicas`` is spread over the instances with the fewest standbys,
other racks first, as in Kafka Streams (KIP-441, KIP-708). A standby is never placed on the instance
that runs the task, because both share a disk.

All members compute the same result from the same list. While their lists differ, a task has one
standby too many or too few; this affects only the duration of a restore.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from logstate.contracts.range_assignor import assign_ranges
from logstate.contracts.records import TaskId, TopicPartition


@dataclass(frozen=True)
class Peer:
    """A member of the group as listed in the instance directory."""

    #: empty for a static member that has not joined yet
    member_id: str
    #: ``group.instance.id`` of a static member
    instance_id: str | None
    #: instance of the worker: its members fail together and share a disk
    instance: str
    rack: str = ""

    @property
    def id(self) -> str:
        """The id of the member; for a static member also known before it has joined."""
        return self.instance_id or self.member_id


@dataclass(frozen=True)
class TaskOwner:
    """An instance: the ids of its members, and the tasks that it reports to own."""

    members: frozenset[str]
    tasks: frozenset[str]


@dataclass(frozen=True)
class GroupView:
    """What the instance directory shows of the group."""

    peers: tuple[Peer, ...] = ()
    #: None: unknown
    holders: tuple[TaskOwner, ...] | None = None
    #: transactional ids of instances with a recent heartbeat
    present: frozenset[str] = frozenset()
    #: transactional ids of instances that stopped without a final message
    silent: frozenset[str] = frozenset()


EMPTY_GROUP = GroupView()


@dataclass(frozen=True)
class Inputs:
    """The inputs of the group: partitions of each task, partition count of each topic."""

    tasks: Mapping[TaskId, Sequence[TopicPartition]]
    partition_counts: Mapping[str, int]

    def owners(self, peers: Iterable[Peer]) -> dict[TaskId, Peer]:
        """Map each task to its owner in a group of exactly these members."""
        by_id = {peer.id: peer for peer in peers}
        topics = sorted({tp.topic for inputs in self.tasks.values() for tp in inputs})
        static = {peer.id: peer.instance_id for peer in by_id.values() if peer.instance_id}
        ranges = assign_ranges(dict.fromkeys(by_id, topics), self.partition_counts, static)
        reader = {tp: by_id[member] for member, found in ranges.items() for tp in found}
        found = {}
        for task, inputs in self.tasks.items():
            readers = {reader.get(tp) for tp in inputs}
            if len(readers) == 1 and (only := readers.pop()) is not None:
                found[task] = only
        return found


def standby_assignment(
    inputs: Inputs, peers: Sequence[Peer], replicas: int
) -> dict[TaskId, tuple[Peer, ...]]:
    """Map each task to the members that keep its standbys, the likeliest next owner first."""
    if not replicas:
        return {}
    owners = inputs.owners(peers)
    instances = sorted({peer.instance for peer in peers})
    after = {
        dead: inputs.owners(peer for peer in peers if peer.instance != dead) for dead in instances
    }
    kept: Counter[str] = Counter()
    places: dict[TaskId, tuple[Peer, ...]] = {}
    for task in sorted(owners):
        own = owners[task]
        deaths = [own.instance, *(dead for dead in instances if dead != own.instance)]
        next_owners = [after[dead][task] for dead in deaths if task in after[dead]]
        chosen: dict[str, Peer] = {}
        while len(chosen) < replicas:
            left = [p for p in peers if p.instance not in chosen and p.instance != own.instance]
            if not left:
                break
            likeliest = next((peer for peer in next_owners if peer in left), None)
            peer = likeliest or min(left, key=lambda p: _cost(p, own, chosen.values(), kept))
            chosen[peer.instance] = peer
            kept[peer.id] += 1
        places[task] = tuple(chosen.values())
    return places


def _cost(
    peer: Peer, own: Peer, chosen: Iterable[Peer], kept: Counter[str]
) -> tuple[bool, int, str]:
    racks = {own.rack, *(other.rack for other in chosen)}
    return peer.rack in racks, kept[peer.id], peer.id
