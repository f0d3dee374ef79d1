"""Bugs of operators that close on idle behind others that do."""

from __future__ import annotations

from logstate.changelog import cut
from logstate.task.idle_ticks import IdleTicks, _Entry
from logstate.worker.idle_tasks import IdleTasks
from tests.campaigns.simulation.idle_chains import IdleChains
from tests.campaigns.simulation.planted.bug import Patch, bug, scenario_bug
from tests.campaigns.simulation.planted.edit import edit


@scenario_bug(IdleChains.of)
def an_operator_does_not_wait_for_those_above_it(patch: Patch) -> None:
    """Windows close on idle although an operator above, in the same task, has batches open."""
    edit(patch, _Entry, "look_above", "if any(one.is_open() for one in self.above):", "if False:")


@scenario_bug(IdleChains.of)
def the_cuts_of_tasks_above_do_not_matter(patch: Patch) -> None:
    """Windows close on idle although an operator of a task above has batches open."""
    edit(patch, IdleTasks, "_tick", "is_open_above=is_open", "is_open_above=False")


@scenario_bug(IdleChains.of)
def a_cut_says_that_nothing_is_open(patch: Patch) -> None:
    """What is open is not part of the cut, only that the operator exists."""
    edit(patch, IdleTicks, "note_open", "int(any(one.is_open() for one in operators))", "0")


@bug
def the_idle_time_does_not_wait_for_those_above(patch: Patch) -> None:
    """When the last result above has left, the idle time below counts from the last record."""
    edit(patch, _Entry, "time", "max(idle.since_ms, self.open_above_ms)", "idle.since_ms")


@bug
def a_pointer_to_a_large_cut_does_not_say_what_is_open(patch: Patch) -> None:
    """Tasks below one with a large cut wait for ever."""
    patch(cut, "OPEN_CLOCK", "never:")
