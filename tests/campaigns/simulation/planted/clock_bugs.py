"""Bugs of the clocks that decide results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from logstate.task.task import Task
from tests.campaigns.simulation.planted.bug import Patch, bug


def _forgetting(patch: Patch, forgets: Callable[[str], bool]) -> None:
    set_clocks = Task.set_clocks

    def wrong(self: Task, clocks: Mapping[str, int], times: Any) -> None:
        set_clocks(self, {n: t for n, t in clocks.items() if not forgets(n)}, times)

    patch(Task, "set_clocks", wrong)


@bug
def clocks_are_forgotten(patch: Patch) -> None:
    """Every clock starts at -1 after a crash or a move."""
    _forgetting(patch, lambda name: True)


@bug
def the_tasks_stream_time_is_forgotten(patch: Patch) -> None:
    """The largest time a task has seen starts at -1 after a crash or a move."""
    _forgetting(patch, lambda name: name == "task:stream_time")


@bug
def due_times_are_forgotten(patch: Patch) -> None:
    """Stream-time schedules start anew after a crash or a move."""
    _forgetting(patch, lambda name: name.startswith("schedule:"))


@bug
def sequence_numbers_are_forgotten(patch: Patch) -> None:
    """Stores that keep duplicates number them from 0 again and overwrite older ones."""
    _forgetting(patch, lambda name: name.startswith("sequence:"))


@bug
def clocks_of_operators_are_forgotten(patch: Patch) -> None:
    """Windows, joins and suppression lose the stream time they have observed."""
    _forgetting(patch, lambda name: not name.startswith(("task:", "schedule:", "sequence:")))


@bug
def clocks_run_ahead_of_the_commit(patch: Patch) -> None:
    """After an abort the clocks keep what the aborted attempt had seen."""
    set_clocks, discard = Task.set_clocks, Task.discard

    def remembering(self: Task) -> None:
        self.__dict__["seen"] = {name: cell.time for name, cell in self.state.cells.items()}
        discard(self)

    def wrong(self: Task, clocks: Mapping[str, int], times: Any) -> None:
        seen = self.__dict__.pop("seen", {})
        set_clocks(self, {**clocks, **seen}, times)

    patch(Task, "discard", remembering)
    patch(Task, "set_clocks", wrong)
