"""Bugs of operators that order records."""

from __future__ import annotations

from logstate.topology.operators.aggregates import top_n
from logstate.topology.operators.aggregates.top_n import Ranking, TopNNode
from logstate.topology.operators.streams.sample import SampleEveryNode
from logstate.topology.operators.streams.sort_by_time import SortByTimeNode, WaitingRecords
from tests.campaigns.simulation.ordered_records import OrderedRecords
from tests.campaigns.simulation.planted.bug import Patch, scenario_bug
from tests.campaigns.simulation.planted.edit import edit, edit_clock, edit_once
from tests.campaigns.simulation.rankings import Rankings


@scenario_bug(OrderedRecords.of)
def a_sort_begins_with_the_process(patch: Patch) -> None:
    """After a restart records are sent that are older than those sent before."""
    edit_clock(patch, SortByTimeNode, "compile", 'task.time_cell(f"sent:{name}")')


@scenario_bug(OrderedRecords.of)
def records_that_a_process_has_sorted_are_not_deleted_again(patch: Patch) -> None:
    """A record that an undone attempt has sent stays in the log, and is sent once more."""
    edit_once(patch, WaitingRecords, "forward_until", "put(row_key, None)", "row_key")


@scenario_bug(OrderedRecords.of)
def the_greatest_values_are_those_of_the_process(patch: Patch) -> None:
    """Whether a list has changed is decided by the list that the process sent last."""
    old = "before, newest = None, timestamp"
    new = (
        f"{old}\n"
        "        lists = globals().setdefault('_lists', {})\n"
        "        if lists.get(key) == best:\n"
        "            return\n"
        "        lists[key] = best"
    )
    edit(patch, TopNNode, "_compile_send", old, new)


@scenario_bug(OrderedRecords.of)
def values_behind_the_greatest_are_deleted_once_per_process(patch: Patch) -> None:
    """A value that an undone attempt has removed stays in the log."""
    old = "self._store.put(row_key, (more, timestamp, None) if more else None)"
    edit_once(patch, Ranking, "keep_best", old, "row_key")


@scenario_bug(OrderedRecords.of)
def every_nth_record_is_counted_by_the_process(patch: Patch) -> None:
    """After a restart the count begins again, and an abort does not take it back."""
    edit_clock(patch, SampleEveryNode, "compile", 'task.time_cell(f"count:{self.name}")')


@scenario_bug(Rankings.of)
def a_value_leaves_its_group_once_per_process(patch: Patch) -> None:
    """A value that an undone attempt has taken out of a group stays in it."""
    old = "self._store.put(row_key, (total, timestamp, None) if total else None)"
    new = (
        "left = globals().setdefault('_left', set())\n"
        "    if total or row_key not in left:\n"
        f"        {old}\n"
        "    if not total:\n"
        "        left.add(row_key)"
    )
    edit(patch, Ranking, "add", old, new)


@scenario_bug(Rankings.of)
def the_list_of_the_last_commit_is_remembered_by_the_process(patch: Patch) -> None:
    """A list that an undone commit has sent counts as sent."""
    old = "if new != old:"
    new = (
        "sent = globals().setdefault('_sent_lists', {})\n"
        "        if sent.get(key) != new:\n"
        "            sent[key] = new"
    )
    edit(patch, top_n, "_if_changed", old, new)


@scenario_bug(Rankings.of)
def the_next_value_does_not_enter_the_list(patch: Patch) -> None:
    """A row that leaves a full list leaves a gap."""
    edit(patch, TopNNode, "compile", "ranking.best(key)", "ranking.best(key)[: len(best or [0])]")
