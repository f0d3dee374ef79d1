"""Bugs of stores with a TTL."""

from __future__ import annotations

from logstate.changelog.expiry import Expiry
from logstate.changelog.rows.expiring_rows import ExpiringRows
from logstate.changelog.stores.key_value import TaskKeyValueStore
from tests.campaigns.simulation.expiry import Expiry as Schedules
from tests.campaigns.simulation.planted.bug import Patch, scenario_bug
from tests.campaigns.simulation.planted.edit import edit


@scenario_bug(Schedules.of)
def rows_that_expired_stay_in_the_log(patch: Patch) -> None:
    """A row that has expired is deleted without a tombstone, and a restore brings it back."""
    old = "writes.add(key, (key, None, cell.time, EXPIRED_HEADERS))"
    edit(patch, Expiry, "delete", old, "pass")


@scenario_bug(Schedules.of)
def restored_rows_have_the_time_of_the_restore(patch: Patch) -> None:
    """A replay gives rows the time 0 instead of that of their records, and they expire at once."""
    edit(patch, TaskKeyValueStore, "restore", "pack_time(timestamp or 0)", "pack_time(0)")


@scenario_bug(Schedules.of)
def a_row_that_is_written_again_is_not_in_the_index(patch: Patch) -> None:
    """Only the first write of a row is noted in the index: its last one never expires."""
    old = "if row is not None:"
    edit(patch, ExpiringRows, "_update_index", old, "if row is not None and old is None:")


@scenario_bug(Schedules.of)
def an_undone_attempt_has_searched_the_index(patch: Patch) -> None:
    """After an abort the search continues where the undone attempt ended."""
    edit(patch, ExpiringRows, "discard", 'self._searched = b""', "pass")
