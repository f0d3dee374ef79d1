"""Who keeps a copy of which task's state: whoever would get the task. Pure.

The assignor is a function of the members (:mod:`logstate.contracts.range_assignor`), so where a
task goes after a death is known before it. A standby is put there first: after the death of the
task's own instance, then after the death of any other one, which can move the task as well. What
is left of ``replicas`` is spread over the instances that have the fewest, in other racks first, as
in Kafka Streams (KIP-441, KIP-708). Never on the instance that runs the task: it shares its disk.

All members come to the same result from the same list. Where their lists differ for a while, a task
has one standby too many or too few; nothing but the time of a restore depends on it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from logstate.contracts.range_assignor import assign_ranges
from logstate.contracts.records import TaskId, TopicPartition


@dataclass(frozen=True)
class Peer:
    """A member of the group, as the directory tells of it."""

    #: empty for a static one that has not joined yet
    member_id: str
    #: ``group.instance.id`` of a static one
    instance_id: str | None
    #: whose worker it is: what dies together, and has one disk
    instance: str
    rack: str = ""

    @property
    def id(self) -> str:
        """What it is known by: a static one before it has joined, too."""
        return self.instance_id or self.member_id


@dataclass(frozen=True)
class TaskOwner:
    """An instance: its members, by what they are known by, and the tasks that it says it has."""

    members: frozenset[str]
    tasks: frozenset[str]


@dataclass(frozen=True)
class GroupView:
    """What the directory tells of the group."""

    peers: tuple[Peer, ...] = ()
    #: None: not known
    holders: tuple[TaskOwner, ...] | None = None
    #: transactional ids of instances that were heard of lately
    present: frozenset[str] = frozenset()
    #: transactional ids of instances that ended without a word
    silent: frozenset[str] = frozenset()


EMPTY_GROUP = GroupView()


@dataclass(frozen=True)
class Inputs:
    """What the group reads: the partitions of each task, the partition counts of each topic."""

    tasks: Mapping[TaskId, Sequence[TopicPartition]]
    partition_counts: Mapping[str, int]

    def owners(self, peers: Iterable[Peer]) -> dict[TaskId, Peer]:
        """Task -> who would have it in a group of just these members."""
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
    """Task -> the members that keep a copy of its state, the likeliest heir first."""
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
        heirs = [after[dead][task] for dead in deaths if task in after[dead]]
        chosen: dict[str, Peer] = {}
        while len(chosen) < replicas:
            left = [p for p in peers if p.instance not in chosen and p.instance != own.instance]
            if not left:
                break
            heir = next((peer for peer in heirs if peer in left), None)
            peer = heir or min(left, key=lambda p: _badness(p, own, chosen.values(), kept))
            chosen[peer.instance] = peer
            kept[peer.id] += 1
        places[task] = tuple(chosen.values())
    return places


def _badness(
    peer: Peer, own: Peer, chosen: Iterable[Peer], kept: Counter[str]
) -> tuple[bool, int, str]:
    racks = {own.rack, *(other.rack for other in chosen)}
    return peer.rack in racks, kept[peer.id], peer.id
