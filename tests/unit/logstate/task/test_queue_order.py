"""Which partition comes next, ties included."""

from __future__ import annotations

import random

from logstate.contracts.records import TopicPartition
from logstate.task.queues import QueueOrder

A, B, C, D = (TopicPartition(name, 0) for name in "abcd")


def order_of(times: dict[TopicPartition, int]) -> QueueOrder:
    order = QueueOrder(times.__getitem__)
    for partition in times:
        order.arrived(partition)
    order.admit(lambda partition: True)
    return order


def drained(order: QueueOrder) -> list[TopicPartition]:
    found = []
    while (partition := order.take()) is not None:
        found.append(partition)
    return found


def test_the_smallest_timestamp_comes_first() -> None:
    assert drained(order_of({A: 3, B: 1, C: 2})) == [B, C, A]


def test_of_two_equal_heads_the_one_that_came_first_is_first() -> None:
    assert drained(order_of({B: 1, A: 1})) == [B, A]


def test_of_more_equal_heads_the_last_follows_the_first_as_in_java() -> None:
    # java.util.PriorityQueue moves its last element to the top and leaves it there.
    assert drained(order_of({A: 1, B: 1, C: 1})) == [A, C, B]
    assert drained(order_of({A: 1, B: 1, C: 1, D: 1})) == [A, D, C, B]


def test_a_partition_with_more_records_enters_again_behind_its_equals() -> None:
    order = order_of({A: 1, B: 1})
    assert order.take() == A
    order.arrived(A)
    order.admit(lambda partition: True)
    assert drained(order) == [B, A]


def test_a_partition_whose_records_are_skipped_does_not_enter() -> None:
    order = QueueOrder({A: 1, B: 2}.__getitem__)
    order.arrived(A)
    order.arrived(B)
    order.admit(lambda partition: partition == B)
    assert drained(order) == [B]


def test_who_waits_is_kept_when_decoding_fails() -> None:
    order = QueueOrder({A: 1, B: 2}.__getitem__)
    order.arrived(B)
    order.arrived(A)

    def fails(partition: TopicPartition) -> bool:
        raise ValueError(partition)

    for has_head in (fails, lambda partition: True):
        try:
            order.admit(has_head)
        except ValueError:
            continue
    assert drained(order) == [A, B]


def test_a_partition_arrives_once_and_can_be_forgotten() -> None:
    order = order_of({A: 2, B: 1})
    order.arrived(A)
    order.admit(lambda partition: True)
    order.forget(B)
    assert drained(order) == [A]


def test_a_snapshot_is_gone_back_to() -> None:
    order = order_of({A: 2, B: 1})
    order.arrived(C)
    snapshot = order.snapshot()
    assert drained(order) == [B, A]
    order.restore(snapshot)
    assert drained(order) == [B, A]
    assert order.snapshot() == ([], [C])


def test_the_order_is_that_of_the_timestamps_whatever_comes_when() -> None:
    chance = random.Random(5)
    for _ in range(200):
        partitions = [TopicPartition("t", number) for number in range(chance.randint(1, 9))]
        times = {partition: chance.randint(0, 9) for partition in partitions}
        taken = [times[partition] for partition in drained(order_of(times))]
        assert taken == sorted(times.values())
        assert order_of(times).next_time() == min(times.values())
