"""Bugs of timers per key."""

from __future__ import annotations

from logstate.changelog import cut
from logstate.task import batch_loop, task
from logstate.task.punctuation import Punctuations
from logstate.task.record_guard import RecordGuard
from logstate.topology.operators.streams.process import OperatorContext
from logstate.topology.processor.key_timers import KeyTimers
from tests.campaigns.simulation.planted.bug import Patch, bug, scenario_bug
from tests.campaigns.simulation.planted.edit import edit
from tests.campaigns.simulation.skipped_results import SkippedResults
from tests.campaigns.simulation.timers import Timers


@bug
def timers_run_after_the_record_that_makes_them_due(patch: Patch) -> None:
    """A record is processed before the timers that it makes due."""
    old = "punctuations.next_timers <= timestamp:"
    new = "punctuations.next_timers <= stream_time:"
    edit(patch, batch_loop, "run_queue", old, new, also=task)


@bug
def timers_run_without_their_record(patch: Patch) -> None:
    """Stream time stays advanced when timers must be retried, so the record runs without them."""
    old = "task.stream_time = before\n"
    edit(patch, batch_loop, "_run_timers", old, "pass\n")


@bug
def a_timer_that_a_callback_sets_waits_for_the_next_record(patch: Patch) -> None:
    """A look calls only the timers that were due when it began."""
    edit(patch, KeyTimers, "set", "self._must_read_again = True", "pass")


@scenario_bug(Timers.of)
def timers_of_an_earlier_process_are_forgotten(patch: Patch) -> None:
    """A look begins at the first timer that was set since the start."""
    old = "self._looked_at = now_ms"
    new = f"{old}\n    if not hasattr(self, 'own'):\n        return"
    edit(patch, KeyTimers, "_run_due", old, new)
    edit(patch, KeyTimers, "set", "at_ms = _time(at_ms)", "at_ms = _time(at_ms); self.own = True")


@scenario_bug(Timers.of)
def looks_for_timers_begin_again_after_a_restart(patch: Patch) -> None:
    """When timers were looked for last is not part of the cut."""
    old = "for s in self._all_schedules() if not s.is_cancelled"
    new = "for s in self._by_kind['stream_time'] + self._by_kind['wall_clock']"
    edit(patch, Punctuations, "next_times", old, new)


@scenario_bug(Timers.of)
def looks_for_timers_are_restored_in_the_order_of_their_names(patch: Patch) -> None:
    """The cut has schedules by name, so those that are due together change places at a restart."""
    edit(patch, cut, "_content", "dict(cut.clocks)", "_in_order(cut.clocks)")


@scenario_bug(SkippedResults.of)
def a_timer_that_fails_stops_the_others(patch: Patch) -> None:
    """The handler decides about the whole look, whose timers all stay."""
    edit(patch, OperatorContext, "_skip_timers_that_fail", "look.call = ", "_ = ")


@scenario_bug(SkippedResults.of)
def a_timer_that_fails_keeps_what_it_sent(patch: Patch) -> None:
    """A look is not undone before it is repeated without the timer that failed."""
    old = "except LateResultFailed as late:\n            self._end_recording(rollback=True)"
    edit(patch, RecordGuard, "guarded_callback", old, old.replace("True", "False"))


@scenario_bug(Timers.of)
def a_timer_is_deleted_in_memory_only(patch: Patch) -> None:
    """A timer that ran is not deleted from the log, and runs again after a restart."""
    old = "self._store.put(timer, None)"
    new = "self.ran = getattr(self, 'ran', set())\n    if timer in self.ran:\n        return\n"
    edit(patch, KeyTimers, "_run", old, new + "    self.ran.add(timer)")
