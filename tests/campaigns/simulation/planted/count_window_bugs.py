"""Bugs of count windows."""

from __future__ import annotations

from logstate.topology.operators.aggregates import count_window
from logstate.topology.operators.aggregates.count_window import Timers
from tests.campaigns.simulation.count_windows import CountWindows
from tests.campaigns.simulation.planted.bug import Patch, bug, scenario_bug
from tests.campaigns.simulation.planted.edit import edit


@scenario_bug(CountWindows.of)
def timers_of_count_windows_that_an_earlier_process_set_are_forgotten(patch: Patch) -> None:
    """The first timer is remembered by the process, which knows only those that it sets."""
    old = 'task.time_cell(f"earliest:{spec.name}")'
    edit(patch, Timers, "__init__", old, 'type(task.time_cell("observed"))(MAX_TIME_MS)')


@scenario_bug(CountWindows.of)
def a_timer_of_count_windows_is_deleted_in_memory_only(patch: Patch) -> None:
    """A timer that closed windows is not deleted from the log, and runs again after a restart."""
    new = (
        "self.ran = getattr(self, 'ran', set())\n"
        "            if timer in self.ran:\n"
        "                continue\n"
        "            self.ran.add(timer)"
    )
    edit(patch, Timers, "due", "self._store.put(timer, None)", new)


@bug
def every_value_of_a_batch_delays_it(patch: Patch) -> None:
    """The time of a batch begins with its last value instead of its first one."""
    old = "at_ms = row[0][1] if from_first and number % step else now"
    edit(patch, count_window, "_buffering", old, "at_ms = now")
