"""One store of one task on a bench: put, commit, apply, discard, reopen, restore.

The bench keeps the changelog that the store's commits would have produced, and can build a second
store from it: restoring the log must give the same store.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from logstate.changelog.backend.backend import StoreBackend
from logstate.changelog.backend.memory import MemoryBackend
from logstate.changelog.backend.rocks import RocksBackend
from logstate.changelog.rows.writes import LoggedWrite
from logstate.changelog.state import TaskState
from logstate.contracts.drops import Drop
from logstate.contracts.processing import STREAM_TIME, TaskContext, TimeCell
from logstate.contracts.records import Headers, TaskId
from logstate.contracts.stores import StoreSpec

MEDIA = ("memory", "rocks")


class BenchContext:
    """What a store uses of its task; the test sets the times of the record at hand."""

    def __init__(self) -> None:
        self.application_id = "app"
        self.task_id = TaskId(0, 0)
        self.timestamp = 0
        self.headers: Headers = None
        self.topic: str | None = "in"
        self.partition = 0
        self.offset = 0
        #: stream time is one of them, as in a cut
        self.cells: dict[str, TimeCell] = {STREAM_TIME: TimeCell()}
        self.dropped: Counter[str] = Counter()
        self.set_wall_clock_ms: int | None = None

    @property
    def stream_time(self) -> int:
        return self.cells[STREAM_TIME].time

    def see(self, time: int) -> None:
        """A record with this time arrives."""
        cell = self.cells[STREAM_TIME]
        cell.time = max(cell.time, time)

    def wall_clock_ms(self) -> int:
        """As late as the records are, unless a test sets it: stores by both clocks do the same."""
        return self.stream_time if self.set_wall_clock_ms is None else self.set_wall_clock_ms

    def time_cell(self, name: str) -> TimeCell:
        return self.cells.setdefault(name, TimeCell())

    def store_dropper(self, store: str) -> Drop:
        def drop(late_ms: int = 0) -> None:
            self.dropped["expired"] += 1

        return drop

    def topic_name(self, name: str, *, is_internal: bool) -> str:
        return f"app-{name}" if is_internal else name


class StoreBench:
    """A store over memory or over RocksDB in ``directory``."""

    def __init__(
        self,
        spec: StoreSpec,
        directory: Path | None = None,
        *,
        logs_every_write: bool = False,
        watch: Callable[[StoreBackend], StoreBackend] = lambda backend: backend,
    ) -> None:
        self.spec = spec
        self._watch = watch
        self.directory = directory
        self.log: list[LoggedWrite] = []
        self._logs_every_write = logs_every_write
        self._open()

    def _open(self) -> None:
        self.context = BenchContext()
        backend: StoreBackend = (
            MemoryBackend() if self.directory is None else RocksBackend(self.directory)
        )
        self.state = open_state(
            self.spec, self.context, self._watch(backend), self._logs_every_write
        )
        self.store: Any = self.state.stores[self.spec.name]

    def commit(self, *, applies: bool = True) -> list[LoggedWrite]:
        """One commit; returns what it logged."""
        self.state.expiry.delete(self.context.stream_time)
        changes = self.state.freeze()
        written = list(map(LoggedWrite._make, changes.writes[self.spec.name]))
        self.log += written
        self.state.committed(changes, {self.spec.name: len(self.log)})
        if applies:
            self.state.apply()
        return written

    def discard(self) -> None:
        """Forget what is not committed, as an abort does."""
        self.state.discard()

    def begin_record(self) -> None:
        """Start one record whose effects may be undone."""
        self._clocks = {name: cell.time for name, cell in self.context.cells.items()}
        self.state.begin_journal()

    def end_record(self, *, rollback: bool) -> None:
        """End the record; with ``rollback`` nothing of it remains."""
        self.state.end_journal(rollback=rollback)
        for name, time in self._clocks.items() if rollback else ():
            self.context.cells[name].time = time

    def reopen(self, *, log_start: int = 0) -> None:
        """Close and open again over the same directory, replaying what was not applied.

        Records below ``log_start`` were trimmed from the changelog meanwhile.
        """
        self.state.discard()
        clocks = {name: cell.time for name, cell in self.context.cells.items()}
        self.state.close()
        self._open()
        self.state.set_clocks(clocks)
        self.state.expire()
        position = max(self.state.positions.get(self.spec.name, 0), log_start)
        self.state.restore(self.spec.name, self.log[position:], len(self.log))

    def rows(self) -> list[tuple[bytes, bytes]]:
        """The store's committed and applied rows as they lie."""
        self.state.apply()
        return list(self.state._rows[self.spec.name].scan())

    def restored(self, batch: int = 1_000_000, *, with_clocks: bool = False) -> StoreBench:
        """A new store in memory, built from the log alone; the cut may give it the clocks."""
        other = StoreBench(self.spec)
        other.log = list(self.log)
        for start in range(0, len(self.log), batch):
            records = self.log[start : start + batch]
            other.state.restore(self.spec.name, records, start + len(records))
        if with_clocks:
            clocks = {name: cell.time for name, cell in self.context.cells.items()}
            other.state.set_clocks(clocks)
        return other

    def close(self) -> None:
        self.state.close()


def open_state(
    spec: StoreSpec, context: BenchContext, backend: StoreBackend, logs_every_write: bool
) -> TaskState:
    """A task state whose clocks are the context's."""
    state = TaskState(
        [spec],
        cast(TaskContext, context),
        backend=backend,
        logs_every_write=logs_every_write,
        publishes_views=False,
    )
    state.cells = context.cells
    return state
