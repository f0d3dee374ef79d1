"""Bugs of deltas."""

from __future__ import annotations

from logstate.topology.operators.aggregates import emit_on_commit, fold
from tests.campaigns.simulation.deltas import Deltas
from tests.campaigns.simulation.planted.bug import Patch, scenario_bug
from tests.campaigns.simulation.planted.edit import edit


@scenario_bug(Deltas.of)
def what_was_emitted_last_is_remembered_by_the_process(patch: Patch) -> None:
    """After a restart a delta is the whole value, and after an abort one is left out."""
    new = "sent = globals().setdefault('_sent', {}).setdefault(id(forward), {})\n"
    new += "        old, sent[key] = sent.get(key), new\n        if not is_latest:"
    edit(patch, emit_on_commit, "_deltas", "if not is_latest:", new)


@scenario_bug(Deltas.of)
def a_delta_is_of_the_last_update_only(patch: Patch) -> None:
    """A row that changes twice between two commits sends only the second change."""
    old = "old = earlier[_OLD]  # the value of the previous emission"
    edit(patch, emit_on_commit, "hold_rows_until_commit", old, "pass", also=fold)


@scenario_bug(Deltas.of)
def a_session_that_grew_takes_nothing_back(patch: Patch) -> None:
    """A deleted row sends no delta, so the sum of its old window stays."""
    edit(patch, emit_on_commit, "_deltas", "if not is_latest:", "if new is None:")
