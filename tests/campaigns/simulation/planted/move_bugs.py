"""Bugs of moves to other partitions."""

from __future__ import annotations

from logstate.admin.reshard import Resharding
from logstate.admin.row_copies import RowCopies
from logstate.admin.stopped_application import StoppedApplication
from tests.campaigns.simulation import reshards
from tests.campaigns.simulation.planted.bug import Patch, scenario_bug
from tests.campaigns.simulation.planted.edit import edit


@scenario_bug(reshards.Reshards.of)
def a_move_goes_on_with_a_producer_whose_commit_may_come_twice(patch: Patch) -> None:
    """A late copy of the request that ends a transaction ends the handover before its offsets."""
    edit(patch, StoppedApplication, "_committed_whole", "producer.must_be_replaced()", "False")


@scenario_bug(reshards.Reshards.of)
def a_handover_is_two_transactions(patch: Patch) -> None:
    """The manifest that names the new changelogs is committed before the offsets are sent."""
    old, new = "producer.flush()", "producer.flush(); producer.commit(); producer.begin()"
    edit(patch, Resharding, "_switch_topics", old, new)


@scenario_bug(reshards.Reshards.of)
def a_move_copies_final_results_that_were_sent(patch: Patch) -> None:
    """Windows that one old task has sent, and the slowest has not, are sent again by a new one."""
    edit(patch, RowCopies, "_sent_early", "final is None or emitted == by_all", "True")


@scenario_bug(reshards.Reshards.of)
def topics_of_an_attempt_that_died_are_left(patch: Patch) -> None:
    """A move does not delete what an attempt before it has made."""
    edit(patch, Resharding, "_delete_unfinished", "if topics:", "if not topics:")


@scenario_bug(reshards.Reshards.of)
def a_move_begins_without_a_mark(patch: Patch) -> None:
    """Nothing says that the state is being moved, so no later attempt knows of the topics."""
    edit(patch, Resharding, "_mark_manifest", "application.write_manifest(mark)", "pass")
