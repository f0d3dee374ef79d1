"""Which tasks follow from which partitions."""

from __future__ import annotations

import pytest

from logstate.contracts.records import TaskId, TopicPartition
from logstate.worker.assignment import Assignment

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)
B0, B1 = TopicPartition("b", 0), TopicPartition("b", 1)
JOIN_0, JOIN_1, ALONE_0 = TaskId(0, 0), TaskId(0, 1), TaskId(1, 0)
C0 = TopicPartition("c", 0)


@pytest.fixture
def assignment() -> Assignment:
    return Assignment({JOIN_0: (A0, B0), JOIN_1: (A1, B1), ALONE_0: (C0,)})


def test_a_task_exists_once_its_last_partition_has_come(assignment: Assignment) -> None:
    assert assignment.gain([A0]) == []
    assert not assignment.is_complete(JOIN_0)
    assert assignment.gain([B0]) == [JOIN_0]
    assert assignment.is_complete(JOIN_0)


def test_tasks_that_are_complete_are_named_in_order(assignment: Assignment) -> None:
    assert assignment.gain([C0, B1, A1, B0, A0]) == [JOIN_0, JOIN_1, ALONE_0]


def test_only_tasks_touched_by_the_gain_are_named(assignment: Assignment) -> None:
    assignment.gain([A0, B0])
    assert assignment.gain([C0]) == [ALONE_0]


def test_losing_one_partition_stops_the_whole_task(assignment: Assignment) -> None:
    assignment.gain([A0, B0, A1, B1])
    assert assignment.lose([B0]) == [JOIN_0]
    assert assignment.owned == {A0, A1, B1}
    assert not assignment.is_complete(JOIN_0)
    assert assignment.is_complete(JOIN_1)
    assert assignment.gain([B0]) == [JOIN_0]


def test_losing_what_is_not_owned_stops_nothing(assignment: Assignment) -> None:
    assignment.gain([C0])
    assert assignment.lose([A0, B0]) == []
    assert assignment.owned == {C0}


def test_the_task_of_a_partition_that_came_alone_is_named_when_it_goes(
    assignment: Assignment,
) -> None:
    """It never ran; whoever stops it finds nothing to stop."""
    assignment.gain([A0])
    assert assignment.lose([A0]) == [JOIN_0]


def test_a_partition_of_no_task_is_owned_and_makes_no_task(assignment: Assignment) -> None:
    stray = TopicPartition("a", 7)
    assert assignment.gain([stray]) == []
    assert assignment.lose([stray]) == []


def test_every_change_is_a_new_epoch(assignment: Assignment) -> None:
    epochs = [assignment.epoch]
    for change in (assignment.gain, assignment.gain, assignment.lose, assignment.gain):
        change([A0])
        epochs.append(assignment.epoch)
    assert epochs == [0, 1, 2, 3, 4]


def test_the_partitions_of_a_task_are_known_before_they_are_owned(assignment: Assignment) -> None:
    assert assignment.inputs(JOIN_1) == (A1, B1)
