"""Bugs of versioned stores: what is too old, where versions lie, what a restore makes of them."""

from __future__ import annotations

from logstate.changelog.state import TaskState
from logstate.changelog.stores import version_segment, versioned
from logstate.changelog.stores.versioned import TaskVersionedStore, _Versions
from logstate.changelog.stores.versioned_reads import VersionedReads
from tests.campaigns.simulation.histories import Histories
from tests.campaigns.simulation.planted.bug import Patch, scenario_bug
from tests.campaigns.simulation.planted.edit import edit


@scenario_bug(Histories.of)
def a_version_as_old_as_the_history_is_not_restored(patch: Patch) -> None:
    """A restore leaves out what is exactly as old as the history."""
    old = "not restored.reaches(time)"
    edit(patch, TaskVersionedStore, "restore", old, "not restored.reaches(time - 1)")


@scenario_bug(Histories.of)
def a_version_as_old_as_the_history_is_not_put(patch: Patch) -> None:
    """What is exactly as old as the history is dropped."""
    old = "segments.reaches(timestamp)"
    edit(patch, TaskVersionedStore, "_put", old, "segments.reaches(timestamp - 1)")


@scenario_bug(Histories.of)
def a_version_as_old_as_the_history_is_not_read(patch: Patch) -> None:
    """What is exactly as old as the history is hidden."""
    old = "not self.segments.reaches(as_of)"
    edit(patch, VersionedReads, "get", old, "not self.segments.reaches(as_of - 1)")


@scenario_bug(Histories.of)
def a_restore_measures_age_by_the_clock_of_the_cut(patch: Patch) -> None:
    """What was in time when it was written is too late for the clock the store has by now."""
    old = "restored = self.restored"
    edit(patch, TaskVersionedStore, "restore", old, "restored = self.segments")


@scenario_bug(Histories.of)
def the_clock_of_versioned_rows_is_not_stored(patch: Patch) -> None:
    """A restore goes on from rows on disk as if nothing had been put into them."""
    old = "self.meta.clocks = {name: cell.time for name, cell in self._row_clocks.items()}"
    edit(patch, TaskState, "apply", old, "pass")


@scenario_bug(Histories.of)
def the_clock_of_versioned_rows_is_that_of_now(patch: Patch) -> None:
    """Rows of a commit get the clock of what was processed while it was under way."""
    old = "changes.clocks[self.specs[name].clock_name]"
    edit(patch, TaskState, "committed", old, 'self.cells[f"store:{name}"].time')


@scenario_bug(Histories.of)
def expired_versions_stay_after_a_restore(patch: Patch) -> None:
    """A restore moves the clock and leaves the rows it expires."""
    old = "restored.advance(time, self._rows)"
    edit(patch, TaskVersionedStore, "restore", old, "restored.cell.time = time")


@scenario_bug(Histories.of)
def an_ended_version_lies_where_it_began(patch: Patch) -> None:
    """A version goes to the segment of its start, where nobody looks for it."""
    old = "number = valid_to // self._segments.interval_ms"
    edit(patch, _Versions, "_end_version", old, old.replace("valid_to", "valid_from"))


@scenario_bug(Histories.of)
def versions_are_merged_across_a_deletion(patch: Patch) -> None:
    """What was put before and after a deletion shares a place in the changelog."""
    old = "identity = key + _IDENTITY.pack(timestamp, self._deletions)"
    edit(patch, TaskVersionedStore, "_log", old, "identity = key + _IDENTITY.pack(0, 0)")


@scenario_bug(Histories.of)
def a_gap_between_versions_belongs_to_the_older(patch: Patch) -> None:
    """What was deleted for a while seems to have been there all the time."""
    old = "elif next_ms < valid_from:"
    edit(patch, version_segment, "with_newest", old, "elif next_ms < valid_to < 0:", also=versioned)
