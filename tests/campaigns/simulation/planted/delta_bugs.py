"""Bugs of deltas, and of changes with both values."""

from __future__ import annotations

from logstate.topology.operators.aggregates import emit_on_commit, fold
from logstate.topology.operators.aggregates.session_aggregate import SessionAggregateNode
from logstate.topology.operators.tables.suppress import SuppressNode
from tests.campaigns.simulation.changes import Changes
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


@scenario_bug(Changes.of)
def a_change_below_suppress_has_the_old_value_of_the_last_update(patch: Patch) -> None:
    """It is not the value that was sent before, as in Kafka Streams."""
    edit(patch, SuppressNode, "_compile_emission", "_, old = prior(key)", "pass")


@scenario_bug(Changes.of)
def final_sessions_are_remembered_by_the_process(patch: Patch) -> None:
    """After a restart a final session that a later one takes in is not taken back."""
    old = "sent = sent_until(task, self.store.name)"
    new = (
        "cell = sent_until(task, self.store.name)\n"
        "    begun = cell.time\n"
        "    class Sent:\n"
        "        time = property(lambda self: cell.time if begun == -1 else -1)\n"
        "    sent = Sent()"
    )
    edit(patch, SessionAggregateNode, "_compile_retraction", old, new)
