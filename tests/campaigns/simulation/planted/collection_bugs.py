"""Bugs of lists, maps, sets and counters."""

from __future__ import annotations

from logstate.changelog.stores.elements import TaskElementStore
from logstate.changelog.stores.lists import TaskListStore
from tests.campaigns.simulation.collection_stores import CollectionStores
from tests.campaigns.simulation.planted.bug import Patch, scenario_bug
from tests.campaigns.simulation.planted.edit import edit


@scenario_bug(CollectionStores.of)
def positions_of_an_undone_attempt_are_remembered(patch: Patch) -> None:
    """An abort does not drop the bounds of lists and the sizes of maps."""
    edit(patch, TaskElementStore, "forget", "self._known.clear()", "pass")


@scenario_bug(CollectionStores.of)
def an_element_beyond_the_bound_is_deleted_in_memory_only(patch: Patch) -> None:
    """A list that is too long deletes its oldest values without a tombstone."""
    old = "self._write(prefix + _POSITION.pack(position), None)"
    edit(patch, TaskListStore, "_drop_first", old, old.replace("_write(", "_rows.put("))
