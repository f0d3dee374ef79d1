"""Bugs of stores with a TTL."""

from __future__ import annotations

from logstate.changelog.expiry import ExpiringStore, WallClockContext
from logstate.changelog.rows import expiring_rows
from logstate.changelog.rows.expiring_rows import ExpiringRows
from logstate.changelog.rows.indexed_rows import IndexedExpiringRows
from logstate.changelog.stores import elements, key_value
from logstate.task import batch_loop
from logstate.task.task_progress import TaskProgress
from tests.campaigns.simulation.expired_by_wall_clock import ExpiredByWallClock
from tests.campaigns.simulation.expired_rows import ExpiredRows
from tests.campaigns.simulation.expiry import Expiry as Schedules
from tests.campaigns.simulation.expiry import IndexedExpiry
from tests.campaigns.simulation.planted.bug import Patch, scenario_bug
from tests.campaigns.simulation.planted.edit import edit
from tests.campaigns.simulation.wall_clock_expiry import WallClockExpiry


@scenario_bug(Schedules.of)
def rows_that_expired_stay_in_the_log(patch: Patch) -> None:
    """A row that has expired is deleted without a tombstone, and a restore brings it back."""
    old = "self._writes.add(key, (key, None, now, rows.expired_headers))"
    edit(patch, ExpiringStore, "delete", old, "pass")


@scenario_bug(Schedules.of)
def restored_rows_have_the_time_of_the_restore(patch: Patch) -> None:
    """A replay gives rows the time 0 instead of that of their records, and they expire at once."""
    old, new = "pack_time(timestamp or 0)", "pack_time(0)"
    edit(patch, expiring_rows, "restore_rows", old, new, also=key_value)


@scenario_bug(Schedules.of)
def a_row_that_was_written_again_loses_its_entry(patch: Patch) -> None:
    """An entry that is due is dropped where its row was written again: the row never expires."""
    edit(
        patch, ExpiringRows, "_has_expired",
        "self._move_entry(entry, row)", "self.index.put(entry, None)",
    )  # fmt: skip


@scenario_bug(Schedules.of)
def a_row_that_has_an_earlier_time_keeps_its_entry(patch: Patch) -> None:
    """A late write leaves the entry where it is: the row is deleted too late."""
    old = "(index_time := old[:TIME_BYTES]) <= value"
    edit(patch, ExpiringRows, "put_rows", old, "(index_time := old[:TIME_BYTES])")


@scenario_bug(Schedules.of)
def a_replay_leaves_the_entries_of_deleted_rows(patch: Patch) -> None:
    """A replayed tombstone deletes the row and not its entry: the index of a standby grows."""
    old = "if old is not None:\n        self.index.put(old[:TIME_BYTES] + key, None)"
    edit(patch, ExpiringRows, "_indexed", old, "pass")
    edit(patch, ExpiringRows, "loaded", "found[index + index_time + key] = None", "pass")


@scenario_bug(Schedules.of)
def an_undone_attempt_has_searched_the_index(patch: Patch) -> None:
    """After an abort the search continues where the undone attempt ended."""
    edit(patch, ExpiringRows, "discard", 'self._searched = b""', "pass")


@scenario_bug(IndexedExpiry.of)
def a_row_that_expires_leaves_its_entry(patch: Patch) -> None:
    """The entries of a row stay in the indexes when a commit deletes it because it expired."""
    edit(patch, IndexedExpiringRows, "remove", "self.writes.replay(self, removed)", "pass")


@scenario_bug(IndexedExpiry.of)
def a_replay_of_expiring_rows_makes_no_entries(patch: Patch) -> None:
    """A replay of a store with a TTL writes the rows, and no entries of their indexes."""
    edit(patch, IndexedExpiringRows, "put_replayed", "self.writes.replay(self, whole)", "pass")


@scenario_bug(IndexedExpiry.of)
def a_put_over_an_expired_row_leaves_its_entry(patch: Patch) -> None:
    """A put takes a row that has expired and is not deleted yet for none."""
    old = "self._bound_get_of_all()"
    edit(patch, key_value.TaskKeyValueStore, "_put_with_indexes", old, "self.get")


@scenario_bug(IndexedExpiry.of)
def a_read_renews_a_row_without_the_log(patch: Patch) -> None:
    """A read gives a row a later time, and the changelog keeps the earlier one."""
    edit(patch, expiring_rows, "renewing_get", "log(key, fields)", "pass", also=key_value)


@scenario_bug(Schedules.of)
def a_read_renews_an_element_without_the_log(patch: Patch) -> None:
    """A read gives an element a later time, and the changelog keeps the earlier one."""
    edit(patch, expiring_rows, "renewing_get", "log(key, fields)", "pass", also=elements)


@scenario_bug(IndexedExpiry.of)
def a_late_read_shortens_the_life_of_a_row(patch: Patch) -> None:
    """A read by a late record gives the row that record's time, which is earlier."""
    edit(patch, ExpiringRows, "renewed", ">= timestamp", "== timestamp")


@scenario_bug(WallClockExpiry.of)
def the_wall_clock_of_a_store_is_not_in_the_cut(patch: Patch) -> None:
    """After a restart on a machine whose clock is behind, a row that had expired is found again."""
    edit(patch, ExpiringStore, "context", "self._cell", "TimeCell()")


@scenario_bug(WallClockExpiry.of)
def an_idle_task_keeps_rows_that_expire_by_the_wall_clock(patch: Patch) -> None:
    """Rows that expire by the wall clock wait for the next record to be deleted."""
    old = "self.state.expiry.is_due_while_idle(self.stream_time, now)"
    edit(patch, TaskProgress, "punctuate", old, "False")


@scenario_bug(ExpiredRows.of)
def a_row_that_was_emitted_stays_in_the_log(patch: Patch) -> None:
    """A row is emitted when it expires, a restore brings it back, and it is emitted again."""
    old = "log(key, (key, None, now, rows.expired_headers))"
    edit(patch, expiring_rows, "bound_take", old, "pass", also=key_value)


@scenario_bug(ExpiredRows.of)
def an_element_that_was_emitted_is_in_the_log(patch: Patch) -> None:
    """An element of a map or a set is emitted, a restore brings it back: it is emitted again."""
    old = "log(key, (key, None, now, rows.expired_headers))"
    edit(patch, expiring_rows, "bound_take", old, "pass", also=elements)


@scenario_bug(ExpiredRows.of)
def a_row_is_emitted_after_the_record_that_is_too_late_for_it(patch: Patch) -> None:
    """A row is emitted after the record that lets it expire, which may have written its key."""
    edit(patch, TaskProgress, "_schedule_look", '"expiry"', '"stream_time"')


@scenario_bug(ExpiredByWallClock.of)
def a_record_comes_before_the_look_by_the_wall_clock(patch: Patch) -> None:
    """A record is processed by the clock of the last turn, and writes over rows that expired."""
    edit(patch, batch_loop, "_after_look", "if is_due(task.wall_clock_ms()):", "if False:")


@scenario_bug(ExpiredByWallClock.of)
def an_idle_task_does_not_look_by_the_wall_clock(patch: Patch) -> None:
    """Rows that expire by the wall clock are emitted with the next record only."""
    old = "only in (None, LOOK_BY_WALL_CLOCK)"
    edit(patch, TaskProgress, "_look_for_expired", old, "only == LOOK_BY_WALL_CLOCK")


@scenario_bug(ExpiredByWallClock.of)
def rows_expire_between_two_looks(patch: Patch) -> None:
    """The clock of a store moves while a record is processed, and a row is hidden, not emitted."""
    old = "cell.time < 0 or not self._rows.are_taken"
    edit(patch, WallClockContext, "stream_time", old, "True")
