"""Bugs of interval joins and as-of joins."""

from __future__ import annotations

from logstate.changelog.stores.join_buffer import JoinBuffer
from logstate.topology.operators.joins import stream_table_grace, stream_table_join
from logstate.topology.operators.joins.interval_join import IntervalRightNode, IntervalSideNode
from tests.campaigns.simulation.interval_joins import AsOfJoins, IntervalJoins
from tests.campaigns.simulation.planted.bug import Patch, bug, scenario_bug
from tests.campaigns.simulation.planted.edit import edit, edit_once


@scenario_bug(IntervalJoins.of)
def stream_time_of_an_interval_join_begins_with_the_process(patch: Patch) -> None:
    """The clock that closes intervals is not that of the committed cut."""
    old = "return observed_cell(task, self.clock)"
    new = "return task.__dict__.setdefault(self.clock, TimeCell())"
    edit(patch, IntervalSideNode, "_stream_time", old, new)


@scenario_bug(IntervalJoins.of)
def what_an_interval_join_has_sent_is_remembered_by_the_process(patch: Patch) -> None:
    """A record that an undone attempt has joined is not joined again."""
    old = "forward(waiting.key, waiting.value, waiting.timestamp, waiting.headers)"
    edit_once(patch, JoinBuffer, "forward_expired", old, "waiting[:3]")


@bug
def a_record_is_kept_before_the_intervals_that_it_closes_are_joined(patch: Patch) -> None:
    """It advances the clock of its store, and partners of records that wait expire."""
    old = "            close()"
    new = "            put(key, value, timestamp)\n            close()"
    edit(patch, IntervalRightNode, "compile", old, new)


@bug
def records_of_both_sides_close_intervals(patch: Patch) -> None:
    """Stream time is that of the task, which left records advance."""
    old = "observed.time - wait_ms"
    new = "max(observed.time, task.stream_time) - wait_ms"
    edit(patch, IntervalRightNode, "_compile_closing", old, new)


@scenario_bug(AsOfJoins.of)
def late_records_of_a_join_by_time_are_emitted_once_per_process(patch: Patch) -> None:
    """A late record that was emitted by an attempt that an abort undid is not emitted again."""
    old = "emit_late(key, value, timestamp, headers, missed, late_ms)"
    edit_once(patch, IntervalRightNode, "compile", old, "(key, value, timestamp)")


@scenario_bug(AsOfJoins.of)
def records_of_a_join_by_time_are_kept_once_per_process(patch: Patch) -> None:
    """A record that an undone attempt has kept is not kept again."""
    old = "        put(key, value, timestamp)"
    edit_once(patch, IntervalRightNode, "compile", old, "(key, value, timestamp)")


@bug
def a_match_must_be_younger_than_the_tolerance(patch: Patch) -> None:
    """A row that is exactly as old as the tolerance is not found."""
    old, new = "row[1] < timestamp - oldest_ms", "row[1] <= timestamp - oldest_ms"
    edit(patch, stream_table_join, "tolerant", old, new, also=stream_table_grace)
