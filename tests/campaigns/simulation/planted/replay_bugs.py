"""Bugs of what a replay or a rollback leaves in memory: orders, numbers, times, clocks."""

from __future__ import annotations

from logstate.changelog.rows.rows import Rows
from logstate.changelog.state import TaskState
from logstate.changelog.stores.join_buffer import JoinBuffer
from logstate.changelog.stores.segmented import SegmentedStore
from logstate.changelog.stores.suppress_buffer import SuppressBuffer
from logstate.changelog.stores.versioned import TaskVersionedStore, _Versions
from logstate.changelog.stores.window import TaskWindowStore
from logstate.task.punctuation import Punctuations
from tests.campaigns.simulation.planted.bug import Patch, bug
from tests.campaigns.simulation.planted.edit import edit


@bug
def the_order_of_a_suppress_buffer_outlives_a_replay(patch: Patch) -> None:
    """The change that a replay counts makes rows look like those that were given up."""
    edit(patch, SuppressBuffer, "restore", "self._version = -1", "pass")


@bug
def a_replay_changes_no_order(patch: Patch) -> None:
    """A suppress buffer does not notice that a replay brought rows."""
    old = "self._count_change(self._stored_version())\n    self._version = -1"
    edit(patch, SuppressBuffer, "restore", old, "pass")


@bug
def a_rolled_back_record_counts_as_a_change(patch: Patch) -> None:
    """A suppress buffer takes the order of a record that was rolled back for that of its rows."""
    old = "self._rows.put(_VERSION_ROW, _VERSION.pack(version + 1))"
    new = (
        "journal, self._rows._journal = self._rows._journal, None; "
        f"{old}; self._rows._journal = journal"
    )
    edit(patch, SuppressBuffer, "_count_change", old, new)


@bug
def a_rolled_back_record_moves_the_clock_of_versioned_rows(patch: Patch) -> None:
    """The clock that committed versions stand for is moved by a put, not by its commit."""
    old = "valid_to = _Versions("
    new = "self.restored.cell.time = max(self.restored.cell.time, timestamp); " + old
    edit(patch, TaskVersionedStore, "_put", old, new)


@bug
def a_rolled_back_record_ends_a_version(patch: Patch) -> None:
    """A version that a record ended stays in the segment of its end when that is rolled back."""
    old = "self._put_row(number, with_newest(row, valid_from, valid_to, value))"
    new = (
        "journal, self._rows._journal = self._rows._journal, None; "
        f"{old}; self._rows._journal = journal"
    )
    edit(patch, _Versions, "_end_version", old, new)


@bug
def a_replay_of_what_waits_learns_no_sequence_number(patch: Patch) -> None:
    """Where no cut names the number, the next record replaces one that waits."""
    old = "self._sequence.time = _SEQUENCE.unpack(key[-_SEQUENCE.size :])[0]"
    edit(patch, JoinBuffer, "restore", old, "pass")


@bug
def a_replay_of_duplicates_learns_no_sequence_number(patch: Patch) -> None:
    """Where no cut names the number, the next row of a window replaces another."""
    old = "self._sequence.time = self.schema.times_of(records[-1][0])[1]"
    edit(patch, TaskWindowStore, "restore", old, "pass")


@bug
def what_waits_may_be_older_after_a_replay(patch: Patch) -> None:
    """A buffer keeps to the oldest record that it knew before others came by a replay."""
    edit(patch, JoinBuffer, "restore", "self._earliest.time = -1", "pass")


@bug
def a_replay_does_not_move_the_clock_of_what_waits(patch: Patch) -> None:
    """Where no cut names the clock, what is too late waits."""
    old = "self.observed.time = max(self.observed.time, timestamp)"
    edit(patch, JoinBuffer, "restore", old, "pass")


@bug
def a_replay_gives_up_what_no_cut_names(patch: Patch) -> None:
    """Clocks and numbers that a replay has learnt do not count where no cut has them."""
    old = "self._show_replayed()"
    new = f"self.set_clocks(self._committed_clocks); {old}"
    edit(patch, TaskState, "restored", old, new)


@bug
def a_standby_learns_no_clock_from_its_disk(patch: Patch) -> None:
    """What a standby that is opened again has on the disk is hidden or shown for too long."""
    edit(patch, TaskState, "followed", "segments.reach(self._rows[name])", "pass")


@bug
def a_standby_learns_no_clock_of_versions(patch: Patch) -> None:
    """Versions on the disk of a standby are shown as of no time."""
    old = "cell.time = max(cell.time, row_clock.time)"
    edit(patch, TaskState, "followed", old, "pass")


@bug
def a_standby_shows_the_clocks_it_had_as_an_owner(patch: Patch) -> None:
    """Of clocks that a standby has learnt and those of the last cut here, the cut's count."""
    old = "{**self._committed_clocks, **learnt}"
    edit(patch, TaskState, "_show_replayed", old, "{**learnt, **self._committed_clocks}")


@bug
def a_load_leaves_what_was_read_before(patch: Patch) -> None:
    """Rows that came by a load are not seen where others were read before it."""
    edit(patch, TaskState, "_show_replayed", "self._rows[store].drop_cache()", "pass")


@bug
def clocks_that_no_cut_names_stay(patch: Patch) -> None:
    """A clock that the committed cut does not know keeps what an aborted attempt had seen."""
    old = "cell.time = self._committed_clocks.get(name, -1)"
    edit(patch, TaskState, "set_clocks", old, "cell.time = clocks.get(name, cell.time)")


@bug
def a_rolled_back_record_expires(patch: Patch) -> None:
    """What a record's time expired is gone although the record was rolled back."""
    old = "del self._current.ranges[self._journaled_ranges :]"
    edit(patch, Rows, "end_journal", old, "pass")


@bug
def what_expired_in_a_cache_lingers(patch: Patch) -> None:
    """Rows of a deleted range are still found where they had been read."""
    edit(patch, Rows, "applied", "self._cache.clear()", "pass")


@bug
def a_schedule_that_is_undone_keeps_its_due_time(patch: Patch) -> None:
    """A record that makes a schedule, fails and is tried again starts it anew."""
    edit(patch, Punctuations, "go_back_to", "self._committed = then.committed", "pass")


@bug
def a_replay_leaves_the_rows_of_a_key_that_were_read(patch: Patch) -> None:
    """Windows of one key that were read together do not show what a replay brought."""
    edit(patch, SegmentedStore, "restore", "self._groups.forget()", "pass")


@bug
def a_replay_leaves_the_windows_that_were_held(patch: Patch) -> None:
    """A window that is held as an object does not show what a replay brought."""
    edit(patch, SegmentedStore, "restore", "self._behind.forget_known()", "pass")


@bug
def a_replay_forgets_where_its_segments_begin(patch: Patch) -> None:
    """A changelog is trimmed below rows that came by a replay."""
    edit(
        patch,
        TaskState,
        "restore",
        "self.needed.wrote(store, layer, self.positions.get(store, 0))",
        "pass",
    )


@bug
def segments_begin_behind_their_commit(patch: Patch) -> None:
    """A segment seems to begin where the commit that wrote it ends."""
    edit(
        patch,
        TaskState,
        "committed",
        "for name, layer in",
        "self._advance(positions)\n    for name, layer in",
    )
