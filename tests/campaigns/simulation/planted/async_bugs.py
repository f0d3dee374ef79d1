"""Bugs of asynchronous mappers."""

from __future__ import annotations

from logstate.topology.operators.streams.async_mapper import PendingCalls
from tests.campaigns.simulation.async_calls import AsyncCalls
from tests.campaigns.simulation.planted.bug import Patch, scenario_bug
from tests.campaigns.simulation.planted.edit import edit


@scenario_bug(AsyncCalls.of)
def a_single_call_before_a_commit_is_left_for_the_next_one(patch: Patch) -> None:
    """A crash between them loses its result: the offset of its record is committed."""
    edit(patch, PendingCalls, "emit", "if not self._pending:", "if len(self._pending) < 2:")


@scenario_bug(AsyncCalls.of)
def results_of_calls_are_forwarded_in_another_order(patch: Patch) -> None:
    """The call that began last comes first."""
    edit(patch, PendingCalls, "emit", "pending.popleft()", "pending.pop()")


@scenario_bug(AsyncCalls.of)
def a_record_that_is_undone_leaves_its_call(patch: Patch) -> None:
    """A skipped record has a result."""
    edit(patch, PendingCalls, "end_journal", "if rollback and before", "if not rollback and before")
