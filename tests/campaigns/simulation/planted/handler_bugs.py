"""Bugs of error handlers, and of functions that are slower than a transaction may be."""

from __future__ import annotations

from logstate.task.handler_outcomes import HandlerOutcomes, RefusedResults
from logstate.task.record_guard import RecordGuard
from logstate.worker.processing import Processing
from logstate.worker.slow_calls import SlowCalls
from tests.campaigns.simulation.dead_letters import DeadLetters
from tests.campaigns.simulation.planted.bug import Patch, bug, scenario_bug
from tests.campaigns.simulation.planted.edit import edit
from tests.campaigns.simulation.slow_functions import SlowFunctions


@scenario_bug(DeadLetters.of)
def a_refused_record_leaves_no_dead_letter(patch: Patch) -> None:
    """What is skipped in a replay is counted, and its dead letter is not sent."""
    old = "self._decisions.carry_out(decision, self._describe(record, error), source)"
    new = "self._task.skipped_total += 1"
    edit(patch, RefusedResults, "carry_out", old, new)


@scenario_bug(DeadLetters.of)
def a_dead_letter_goes_without_its_record(patch: Patch) -> None:
    """A refused record is dead-lettered, and tried again all the same."""
    old = "self.refusals.carry_out(source, record)\n    return True"
    new = "self.refusals.carry_out(source, record)\n    return self.refusals._attempts[source] > 1"
    edit(patch, RecordGuard, "_passes_over_refused", old, new)


@scenario_bug(DeadLetters.of)
def every_attempt_is_the_first(patch: Patch) -> None:
    """A handler that gives up after some attempts never does."""
    old = "self._attempts[source] += 1"
    edit(patch, RefusedResults, "_decide", old, "self._attempts[source] = 1")


@bug
def a_skipped_record_leaves_its_outputs(patch: Patch) -> None:
    """What a record sent before it failed goes out."""
    edit(patch, RecordGuard, "_end_recording", "del task.outputs[undo.outputs :]", "pass")


@bug
def a_skipped_record_leaves_its_schedules(patch: Patch) -> None:
    """What a record scheduled before it failed is called."""
    edit(
        patch, RecordGuard, "_end_recording", "task.punctuations.go_back_to(undo.schedules)", "pass"
    )


@bug
def a_retry_goes_on_with_half_a_record(patch: Patch) -> None:
    """What an attempt wrote is there when the next one begins."""
    old, new = "rollback=not (keeps", "rollback=decision.action is not Action.RETRY and not (keeps"
    edit(patch, RecordGuard, "_answer", old, new)


@bug
def a_skipped_dead_letter_is_counted_as_sent(patch: Patch) -> None:
    """A handler that says dead letter skips."""
    old = "task.send(dead_letter_record(topic, failed, refused=refused, trace=trace))"
    edit(patch, HandlerOutcomes, "carry_out", old, "pass")


@scenario_bug(SlowFunctions.of)
def what_a_careful_worker_kept_is_dropped(patch: Patch) -> None:
    """Outputs that waited for the end of a slow turn are not sent."""
    edit(patch, Processing, "turn", "if self._kept:", "if self._kept is Ellipsis:")


@scenario_bug(SlowFunctions.of)
def a_careful_worker_sends_twice(patch: Patch) -> None:
    """Outputs that wait for the end of a slow turn are sent at once as well."""
    edit(patch, Processing, "_process_share", "if self._kept is None:", "if True:")


@bug
def no_worker_is_careful(patch: Patch) -> None:
    """A slow function is called inside an open transaction again and again."""
    patch(SlowCalls, "was_slow_recently", lambda self, now_ms: False)


@bug
def half_the_limit_is_not_slow(patch: Patch) -> None:
    """Only a call that lasts longer than both limits counts as slow."""
    edit(patch, SlowCalls, "__init__", "_TOLD_SHARE * min(", "1e9 + max(")
