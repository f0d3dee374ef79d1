"""Bugs of what becomes of records whose results the brokers refuse."""

from __future__ import annotations

from logstate.contracts.errors import RefusedError
from logstate.task import decisions
from logstate.task.decisions import Decisions
from logstate.task.error_handlers import Decision, FailedRecord
from logstate.task.record_guard import RecordGuard
from logstate.worker.poison_record import PoisonRecordSearch, _culprit, _Part
from tests.simulation.planted.bug import Patch, scenario_bug
from tests.simulation.refused_results import RefusedResults


@scenario_bug(RefusedResults.of)
def state_of_a_refused_record_is_kept(patch: Patch) -> None:
    """What a refused record sent is left out, and what it wrote stays."""
    patch(RecordGuard, "_passes_over_refused", lambda self: False)


@scenario_bug(RefusedResults.of)
def refused_records_are_not_counted(patch: Patch) -> None:
    """A record is passed over in silence."""
    carry_out = Decisions.carry_out

    def wrong(self: Decisions, decision: Decision, failed: FailedRecord) -> bool:
        counted = self._task.skipped_total
        is_done = carry_out(self, decision, failed)
        self._task.skipped_total = counted
        return is_done

    patch(Decisions, "carry_out", wrong)


@scenario_bug(RefusedResults.of)
def two_records_are_as_good_as_one(patch: Patch) -> None:
    """The last record of a part of two is blamed, whichever it was."""
    refused_part = PoisonRecordSearch._refused_part

    def wrong(self: PoisonRecordSearch, part: _Part, cause: RefusedError) -> None:
        if part.records != 2:
            refused_part(self, part, cause)
            return
        self._searches[part.owned.task_id].limit = None
        part.owned.task.guard.refusals.of_record(_culprit(part), cause, part.sent)

    patch(PoisonRecordSearch, "_refused_part", wrong)


@scenario_bug(RefusedResults.of)
def decisions_are_forgotten_with_the_abort(patch: Patch) -> None:
    """A replay meets the refused record as if nothing had been decided."""

    def wrong(self: decisions.RefusedResults) -> None:
        self._decided.clear()
        self._passed_over.clear()

    patch(decisions.RefusedResults, "discard", wrong)
