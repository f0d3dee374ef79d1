"""How long a worker waits for a directory that another one has open."""

from __future__ import annotations

import pytest

from logstate.contracts.clock import ManualClock
from logstate.contracts.errors import DirectoryInUseError
from logstate.contracts.records import TaskId
from logstate.restore.directory_locks import DirectoryLocks
from logstate.task.owned_task import OwnedTask

HELD = DirectoryInUseError("it is open in process 17")


def given() -> OwnedTask:
    """A task, as the group gives it once."""
    return OwnedTask(TaskId(0, 3), (), 1)


def test_it_is_tried_again_a_moment_later_and_given_up_after_two_minutes() -> None:
    clock, owned = ManualClock(), given()
    held = DirectoryLocks(clock)
    held.wait(owned, HELD)
    assert not held.may_try(owned)
    clock.advance(200)
    assert held.may_try(owned)
    clock.advance(120_000)
    with pytest.raises(DirectoryInUseError, match="process 17"):
        held.wait(owned, HELD)


def test_a_task_that_is_given_again_later_waits_anew() -> None:
    clock = ManualClock()
    held = DirectoryLocks(clock)
    held.wait(given(), HELD)  # and it was taken away before it could be opened
    clock.advance(600_000)
    again = given()
    held.wait(again, HELD)
    assert not held.may_try(again)
