"""The partitions of each group member, by Kafka's ``range`` assignor.

Members are sorted by their ``group.instance.id``, members without one after them by their member
ids; for each topic they get contiguous blocks, the first members one partition more if the division
has a remainder. Earlier assignments do not matter, so the assignment after a death or a join can be
predicted. The brokers of 4.3 (checked against their class) and the clients of the classic protocol
do the same.

Topics with equal partition counts are co-partitioned: a member gets the same numbers of each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from logstate.contracts.records import TopicPartition

_NONE: Mapping[str, str] = MappingProxyType({})


def assign_ranges(
    subscriptions: Mapping[str, Iterable[str]],
    partition_counts: Mapping[str, int],
    instance_ids: Mapping[str, str] = _NONE,
) -> dict[str, set[TopicPartition]]:
    """Return member id -> its partitions. ``instance_ids``: those of static members.

    >>> found = assign_ranges({"a": ["t"], "b": ["t"]}, {"t": 3})
    >>> [sorted(tp.partition for tp in found[m]) for m in "ab"]
    [[0, 1], [2]]
    >>> found = assign_ranges({"a": ["t"], "b": ["t"]}, {"t": 3}, {"b": "first"})
    >>> [sorted(tp.partition for tp in found[m]) for m in "ab"]
    [[2], [0, 1]]
    """

    def order(member: str) -> tuple[bool, str]:
        return member not in instance_ids, instance_ids.get(member, member)

    assigned: dict[str, set[TopicPartition]] = {member: set() for member in subscriptions}
    readers: dict[str, list[str]] = {}
    for member in sorted(subscriptions, key=order):
        for topic in subscriptions[member]:
            readers.setdefault(topic, []).append(member)
    for topic, members in readers.items():
        share, extra = divmod(partition_counts.get(topic, 0), len(members))
        first = 0
        for i, member in enumerate(members):
            count = share + (1 if i < extra else 0)
            assigned[member] |= {TopicPartition(topic, p) for p in range(first, first + count)}
            first += count
    return assigned
