"""Bugs of secondary indexes."""

from __future__ import annotations

from logstate.changelog.rows.indexed_rows import IndexWrites
from logstate.changelog.stores.key_value import TaskKeyValueStore
from tests.campaigns.simulation.indexes import Indexes
from tests.campaigns.simulation.planted.bug import Patch, scenario_bug
from tests.campaigns.simulation.planted.edit import edit


@scenario_bug(Indexes.of)
def a_replaced_row_is_found_by_its_old_value(patch: Patch) -> None:
    """The entry of the row that is replaced stays in the index."""
    edit(patch, IndexWrites, "flush", "if removed is not None:", "if False:")


@scenario_bug(Indexes.of)
def a_restored_row_has_no_entry(patch: Patch) -> None:
    """A replay writes rows and no entries of their indexes."""
    old = "if self.index_writes is not None:"
    edit(patch, TaskKeyValueStore, "_put_replayed", old, "if False:")


@scenario_bug(Indexes.of)
def a_replay_keeps_the_entries_of_replaced_rows(patch: Patch) -> None:
    """A replay over rows on the disk adds entries, and removes none."""
    old = "entries[entry[0]] = None"
    edit(patch, IndexWrites, "replay", old, "pass")
