"""Bugs of what becomes of records whose results the brokers refuse."""

from __future__ import annotations

from logstate.contracts.errors import RefusedError
from logstate.task import handler_outcomes
from logstate.task.error_handlers import Decision, FailedRecord
from logstate.task.handler_outcomes import HandlerOutcomes
from logstate.task.record_guard import RecordGuard
from logstate.worker.poison_record import PoisonRecordSearch, _culprit, _TransactionPart
from tests.campaigns.simulation.planted.bug import Patch, bug, scenario_bug
from tests.campaigns.simulation.planted.edit import edit
from tests.campaigns.simulation.refused_results import RefusedResults


@scenario_bug(RefusedResults.of)
def state_of_a_refused_record_is_kept(patch: Patch) -> None:
    """What a refused record sent is left out, and what it wrote stays."""
    patch(RecordGuard, "_passes_over_refused", lambda self: False)


@scenario_bug(RefusedResults.of)
def refused_records_are_not_counted(patch: Patch) -> None:
    """A record is skipped in silence."""
    carry_out = HandlerOutcomes.carry_out

    def wrong(self: HandlerOutcomes, decision: Decision, failed: FailedRecord) -> bool:
        counted = self._task.skipped_total
        is_done = carry_out(self, decision, failed)
        self._task.skipped_total = counted
        return is_done

    patch(HandlerOutcomes, "carry_out", wrong)


@scenario_bug(RefusedResults.of)
def two_records_are_as_good_as_one(patch: Patch) -> None:
    """The last record of a part of two is blamed, whichever it was."""
    refused_part = PoisonRecordSearch._refused_part

    def wrong(self: PoisonRecordSearch, part: _TransactionPart, cause: RefusedError) -> None:
        if part.records != 2:
            refused_part(self, part, cause)
            return
        self._searches[part.owned.task_id].limit = None
        part.owned.task.guard.refusals.of_record(_culprit(part), cause, part.sent)

    patch(PoisonRecordSearch, "_refused_part", wrong)


@scenario_bug(RefusedResults.of)
def decisions_are_forgotten_with_the_abort(patch: Patch) -> None:
    """A replay meets the refused record as if nothing had been decided."""

    def wrong(self: handler_outcomes.RefusedResults) -> None:
        self._decided.clear()
        self._settled.clear()

    patch(handler_outcomes.RefusedResults, "discard", wrong)


@bug
def a_commit_under_way_forgets_the_calls_passed_over_since(patch: Patch) -> None:
    """What is decided about a call of a schedule is forgotten before the call is committed."""
    old = "return source in self._committing"
    edit(patch, handler_outcomes.RefusedResults, "_is_past", old, f"{old} | self._settled")


@bug
def a_call_that_went_well_after_all_counts_as_refused(patch: Patch) -> None:
    """A schedule has as many attempts as it ever was refused, not as this call was."""
    edit(
        patch, handler_outcomes.RefusedResults, "drop_results", "self._settled.add(source)", "pass"
    )
