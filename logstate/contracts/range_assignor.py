"""Which member of a group reads which partition: Kafka's ``range`` assignor. Pure.

Members stand in the order of their ``group.instance.id``, those without one behind them in the
order of their member ids; of each topic they get contiguous blocks, the first ones one more where
it does not divide. Nothing of an earlier assignment counts, so who gets what after a death or a
join can be told beforehand. So the brokers of 4.3 do it (checked against their class), and the
clients of the classic protocol.

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
    """Member id -> its partitions. ``instance_ids``: of the members that are static.

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
