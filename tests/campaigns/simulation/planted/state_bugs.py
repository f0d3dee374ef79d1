"""Bugs of local state: layers, caches, writes, positions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from logstate.changelog.rows.layers import Layer
from logstate.changelog.rows.rows import Rows
from logstate.changelog.rows.writes import ChangelogWrites
from logstate.changelog.state import TaskState
from logstate.task.owned_task import Stage
from logstate.testing.simulation.disk import DiskBackend
from logstate.worker.worker import Worker
from tests.campaigns.simulation.planted.bug import Patch, bug, faults, rare_bug


@bug
def an_abort_keeps_uncommitted_rows(patch: Patch) -> None:
    """Rows of an aborted transaction stay in the task's view."""

    def wrong(self: Rows) -> None:
        self._frozen = []
        self._current = Layer()

    patch(Rows, "discard", wrong)


@bug
def an_abort_keeps_unlogged_writes(patch: Patch) -> None:
    """Changelog records of an aborted transaction are written with the next one."""

    def wrong(self: TaskState) -> None:
        for rows in self._rows.values():
            rows.discard()
        self.set_clocks(self._committed_clocks)

    patch(TaskState, "discard", wrong)


@rare_bug(lambda s: 2 * faults(s, "exit") + (s.commit_interval_ms >= 30))
def a_closed_task_applies_what_was_not_committed(patch: Patch) -> None:
    """Closing a task flushes everything it holds."""
    close_task = Worker._close_task

    def wrong(self: Worker, task_id: Any, **how: bool) -> None:
        owned = self._tasks.all().get(task_id)
        if owned is not None and owned.task_or_none is not None and owned.stage is Stage.RUNNING:
            state = owned.task_or_none.state
            state.committed(state.freeze(), {})
        close_task(self, task_id, **how)

    patch(Worker, "_close_task", wrong)


@bug
def positions_are_written_before_rows(patch: Patch) -> None:
    """A crash between two writes leaves a position ahead of its rows."""
    write = DiskBackend.write

    def wrong(self: DiskBackend, rows: Mapping[bytes, bytes | None], ranges: Any = ()) -> None:
        meta = {key: value for key, value in rows.items() if key.startswith(b"\x00")}
        write(self, meta)
        write(self, {key: value for key, value in rows.items() if key not in meta}, ranges)

    patch(DiskBackend, "write", wrong)


@rare_bug(lambda s: faults(s, "crash_in_write"))
def rows_are_written_before_positions(patch: Patch) -> None:
    """A crash between two writes leaves rows ahead of their position."""
    write = DiskBackend.write

    def wrong(self: DiskBackend, rows: Mapping[bytes, bytes | None], ranges: Any = ()) -> None:
        meta = {key: value for key, value in rows.items() if key.startswith(b"\x00")}
        write(self, {key: value for key, value in rows.items() if key not in meta}, ranges)
        write(self, meta)

    patch(DiskBackend, "write", wrong)


@bug
def deletions_are_not_applied(patch: Patch) -> None:
    """A deleted row stays in the local store."""
    write = DiskBackend.write

    def wrong(self: DiskBackend, rows: Mapping[bytes, bytes | None], ranges: Any = ()) -> None:
        write(self, {key: value for key, value in rows.items() if value is not None}, ranges)

    patch(DiskBackend, "write", wrong)


@bug
def produced_positions_count_as_committed(patch: Patch) -> None:
    """The position of a store is advanced when its records are delivered, not when they commit."""
    from logstate.commit.commit import Committer

    positions_of = Committer._positions

    def wrong(self: Committer, commit: Any, delivered: Any) -> dict[str, int]:
        positions = positions_of(self, commit, delivered)
        owned = _TASKS[commit.task_id, id(commit.changes)]
        owned.state.positions.update(positions)
        return positions

    from logstate.task.task import Task

    freeze = Task.freeze

    def remembering(self: Task) -> Any:
        taken = freeze(self)
        _TASKS[taken.task_id, id(taken.changes)] = self
        return taken

    patch(Task, "freeze", remembering)
    patch(Committer, "_positions", wrong)


_TASKS: dict[Any, Any] = {}


@bug
def a_position_lies_beyond_the_commit(patch: Patch) -> None:
    """The stored position counts records that are still to come."""
    from logstate.commit.commit import Committer

    positions_of = Committer._positions

    def wrong(self: Committer, commit: Any, delivered: Any) -> dict[str, int]:
        found = positions_of(self, commit, delivered)
        return {store: position + 2 for store, position in found.items()}

    patch(Committer, "_positions", wrong)


@bug
def rows_are_taken_for_their_keys(patch: Patch) -> None:
    """Records of one window, or one duplicate, replace each other in the changelog."""
    add = ChangelogWrites.add

    def wrong(self: ChangelogWrites, identity: bytes, write: Any, **rest: Any) -> None:
        add(self, identity[:2], write, **rest)

    patch(ChangelogWrites, "add", wrong)


@bug
def the_first_write_of_a_row_is_logged(patch: Patch) -> None:
    """Of several writes of a row in one commit the changelog gets the first."""
    add = ChangelogWrites.add

    def wrong(self: ChangelogWrites, identity: bytes, write: Any, **rest: Any) -> None:
        if identity not in self._last:
            add(self, identity, write, **rest)

    patch(ChangelogWrites, "add", wrong)


@bug
def a_cache_outlives_its_assignment(patch: Patch) -> None:
    """The directory of a slot hands out the rows its task had before it moved away."""
    from logstate.testing.simulation.disk import Batch, Disk

    open_directory = Disk.open

    def wrong(self: Disk, task_id: Any, process: Any) -> DiskBackend:
        backend = open_directory(self, task_id, process)
        meta = backend.get(b"\x00meta")
        kept: dict[Any, bytes | None] = self.__dict__.setdefault("kept_meta", {})
        newest = kept.get(task_id)
        if newest is not None and meta is not None:
            backend._directory.write(Batch({b"\x00meta": newest}))
        kept[task_id] = meta if newest is None else newest
        return backend

    patch(Disk, "open", wrong)
