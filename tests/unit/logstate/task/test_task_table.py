"""Who owns which partition, and since which assignment."""

from __future__ import annotations

from logstate.contracts.records import TaskId, TopicPartition
from logstate.task.owned_task import OwnedTask, Stage
from logstate.task.task_table import TaskTable

A0, B0, A1 = TopicPartition("a", 0), TopicPartition("b", 0), TopicPartition("a", 1)


def task(number: int, *partitions: TopicPartition, epoch: int = 1) -> OwnedTask:
    return OwnedTask(TaskId(0, number), partitions, epoch)


def run(owned: OwnedTask) -> OwnedTask:
    for stage in (Stage.RESTORING, Stage.STARTING, Stage.RUNNING):
        owned.move_to(stage)
    return owned


def test_a_task_is_found_by_its_partitions_once_it_runs() -> None:
    table = TaskTable()
    owned = task(0, A0, B0)
    table.add(owned)
    assert table.running_owner(A0) is None
    run(owned)
    assert table.running_owner(A0) is owned
    assert table.running_owner(B0) is owned
    assert table.running_owner(A1) is None


def test_tasks_of_a_stage_come_in_the_order_they_were_added() -> None:
    table = TaskTable()
    first, second, third = task(2, A0), run(task(0, A1)), task(1, B0)
    for owned in (first, second, third):
        table.add(owned)
    assert table.in_stage(Stage.ASSIGNED) == [first, third]
    assert table.running() == [second]
    assert len(table) == 3
    assert list(table.all()) == [first.task_id, second.task_id, third.task_id]


def test_a_task_that_is_here_already_is_not_taken_over_again() -> None:
    table = TaskTable()
    first = task(0, A0, epoch=1)
    table.add(first)
    table.add(task(0, A0, epoch=2))
    assert table.all()[first.task_id] is first
    assert table.epochs == {A0: 1}


def test_epochs_are_those_of_the_assignment_and_end_when_a_partition_is_given_up() -> None:
    table = TaskTable()
    table.add(task(0, A0, B0, epoch=3))
    table.revoke([B0, A1])
    assert table.epochs == {A0: 3}


def test_a_task_that_goes_leaves_its_partitions_without_an_owner() -> None:
    table = TaskTable()
    owned = run(task(0, A0, B0))
    table.add(owned)
    assert table.remove(owned.task_id) is owned
    assert table.running_owner(A0) is None
    assert len(table) == 0
    assert table.remove(owned.task_id) is None
