"""Which member reads which partition: ranges per topic, members in order of their ids. Pure.

Topics with equal partition counts are co-partitioned: a member gets the same numbers of each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from logstate.contracts.records import TopicPartition


def assign_ranges(
    subscriptions: Mapping[str, Iterable[str]], partition_counts: Mapping[str, int]
) -> dict[str, set[TopicPartition]]:
    """Member id -> its partitions.

    >>> found = assign_ranges({"a": ["t"], "b": ["t"]}, {"t": 3})
    >>> [sorted(tp.partition for tp in found[m]) for m in "ab"]
    [[0, 1], [2]]
    """
    assigned: dict[str, set[TopicPartition]] = {member: set() for member in subscriptions}
    readers: dict[str, list[str]] = {}
    for member in sorted(subscriptions):
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
