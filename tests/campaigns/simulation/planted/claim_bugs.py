"""Bugs of the claims and locks in a state directory."""

from __future__ import annotations

from logstate.changelog import directory, task_lock
from logstate.changelog.directory import StateDirectory
from tests.campaigns.simulation.directory_claims import DirectoryClaims
from tests.campaigns.simulation.planted.bug import Patch, scenario_bug
from tests.campaigns.simulation.planted.edit import edit


@scenario_bug(DirectoryClaims.of)
def a_slot_is_held_by_its_lock_file_alone(patch: Patch) -> None:
    """Where the lock file is deleted, the next instance takes the slot of one that runs."""
    edit(patch, StateDirectory, "__init__", "self._lock_and_keep(self._id_path)", "pass")


@scenario_bug(DirectoryClaims.of)
def a_deleted_lock_file_is_not_made_again(patch: Patch) -> None:
    """A holder that looks does not hold the file that is there now."""
    old = "_place(path) != (held.st_dev, held.st_ino)"
    edit(patch, StateDirectory, "check", old, "False")


@scenario_bug(DirectoryClaims.of)
def a_directory_counts_as_used_by_its_own_worker_only(patch: Patch) -> None:
    """A directory is locked for the moment of opening it, so others remove it as unused."""
    old = "return TaskLock(file)"
    new = "lock = TaskLock(file); lock.release(); return lock"
    edit(patch, task_lock, "use", old, new, also=directory)


@scenario_bug(DirectoryClaims.of)
def an_id_that_was_deleted_is_not_written_again(patch: Patch) -> None:
    """The file of the id is made again without the id, so the next start makes another one."""
    old = "text = self.instance_id if path == self._id_path else json.dumps(self._holder)"
    edit(patch, StateDirectory, "_describe", old, "text = json.dumps(self._holder)")
