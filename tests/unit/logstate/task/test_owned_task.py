"""The stages of a task, as a table."""

from __future__ import annotations

import itertools

import pytest

from logstate.contracts.errors import LogstateError
from logstate.contracts.records import TaskId, TopicPartition
from logstate.task.owned_task import SUCCESSORS, IllegalTransition, OwnedTask, Stage

A, R, S, RUN, C = Stage.ASSIGNED, Stage.RESTORING, Stage.STARTING, Stage.RUNNING, Stage.CLOSED
BY = Stage.STANDBY
LEGAL = {(A, R), (R, S), (S, RUN), (R, A), (S, A), (RUN, A), (A, C), (R, C), (S, C), (RUN, C)}
LEGAL |= {(A, BY), (BY, A), (BY, C)}
WAY_TO = {A: (), R: (R,), S: (R, S), RUN: (R, S, RUN), C: (C,), BY: (BY,)}


def owned_at(stage: Stage) -> OwnedTask:
    owned = OwnedTask(TaskId(0, 3), (TopicPartition("in", 3),), 1)
    for step in WAY_TO[stage]:
        owned.move_to(step)
    return owned


@pytest.mark.parametrize(("before", "after"), sorted(LEGAL, key=str), ids=str)
def test_a_task_goes_through_its_stages(before: Stage, after: Stage) -> None:
    owned = owned_at(before)
    owned.move_to(after)
    assert owned.stage is after
    assert owned.history[-1] is before


ILLEGAL = [pair for pair in itertools.product(Stage, Stage) if pair not in LEGAL]


@pytest.mark.parametrize(("before", "after"), ILLEGAL, ids=str)
def test_every_other_way_is_refused(before: Stage, after: Stage) -> None:
    owned = owned_at(before)
    with pytest.raises(IllegalTransition):
        owned.move_to(after)
    assert owned.stage is before


def test_no_stage_is_forgotten_in_the_table() -> None:
    assert set(SUCCESSORS) == set(Stage)
    assert {(a, b) for a, after in SUCCESSORS.items() for b in after} == LEGAL


def test_the_refusal_tells_the_story_so_far() -> None:
    owned = owned_at(RUN)
    with pytest.raises(
        IllegalTransition,
        match="task 0_3 cannot go to STARTING; its history is"
        " ASSIGNED -> RESTORING -> STARTING -> RUNNING",
    ):
        owned.move_to(S)


def test_the_refusal_is_an_error_of_the_library() -> None:
    assert issubclass(IllegalTransition, LogstateError)


def test_the_story_is_bounded_however_often_a_task_starts_over() -> None:
    owned = owned_at(A)
    for _ in range(50):
        for stage in (R, S, RUN, A):
            owned.move_to(stage)
    assert len(owned.history) <= 21
    assert owned.history[-3:] == [R, S, RUN]


def test_a_task_without_its_task_object_is_not_running() -> None:
    with pytest.raises(AssertionError):
        _ = owned_at(A).task
