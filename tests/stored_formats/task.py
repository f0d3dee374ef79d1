"""A task with stores of many kinds, over a state directory: it processes, is left, and restored."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import msgspec

from logstate.changelog.backend.rocks import RocksBackend
from logstate.changelog.directory import StateDirectory
from logstate.changelog.rows.writes import LoggedFields
from logstate.changelog.state import TaskState
from logstate.commit.output_buffer import NO_TIMESTAMP
from logstate.contracts.processing import TaskContext
from logstate.contracts.records import TaskId
from logstate.restore.restore import logged_fields
from logstate.testing.fake.fetched import StoredRecord
from tests.stored_formats.stores import COMMIT_EVERY, HEADERS, record_of_source
from tests.unit.changelog.store_bench import BenchContext
from tests.unit.changelog.store_kinds import Input, KindUnderTest

APPLICATION, TASK = "shop", TaskId(0, 0)
#: what RocksDB says about itself, and where
_ABOUT_THE_MACHINE = shutil.ignore_patterns("LOG*", "LOCK", "OPTIONS-*", "*.lock", "*.dbtmp")


class StoresOfTask:
    """One task of an application whose state directory is below ``root``."""

    def __init__(
        self, root: Path, kinds: Sequence[KindUnderTest], *, logs_every_write: bool = False
    ) -> None:
        self.root = root
        self.kinds = {kind.spec.name: kind for kind in kinds}
        self.context = BenchContext()
        self._directory = StateDirectory(root, APPLICATION)
        self.backend = RocksBackend(self._directory.task_path(TASK))
        self.state = TaskState(
            [kind.spec for kind in kinds],
            cast(TaskContext, self.context),
            backend=self.backend,
            logs_every_write=logs_every_write,
            publishes_views=False,
        )
        self.state.cells = self.context.cells
        self.logs: dict[str, list[LoggedFields]] = {name: [] for name in self.kinds}
        self._offset = 0

    # ------------------------------------------------------------------ processing

    def process(self, inputs: Iterable[Input]) -> None:
        """Give every store each of the records; commit as often as the fixtures do."""
        context = self.context
        for one in inputs:
            context.offset, context.timestamp = self._offset, one.time
            context.headers = HEADERS.get(one.choice)
            for name, kind in self.kinds.items():
                kind.process(self.state.stores[name], one, context)
                if kind.spec.source_topic is not None:
                    self.logs[name].append(record_of_source(kind.spec, one))
            self._offset += 1
            if self._offset % COMMIT_EVERY == 0:
                self.commit()

    def commit(self) -> None:
        """One commit, whose writes are the changelogs' next records."""
        changes = self.state.freeze()
        for name, log in self.logs.items():
            log += changes.writes[name]
        self.state.committed(changes, {name: len(log) for name, log in self.logs.items()})

    def leave(self, target: Path) -> None:
        """Apply, and copy the state directory as a killed process would leave it."""
        self.state.apply()
        shutil.copytree(self.root, target, ignore=_ABOUT_THE_MACHINE)

    # ------------------------------------------------------------------ restoring

    def start(self, clocks: Mapping[str, int]) -> None:
        """Take over the clocks of a cut, as a task does before its replay."""
        self.state.set_clocks(clocks)
        self.state.expire()

    def replay(self, store: str, log: Sequence[LoggedFields]) -> None:
        """Take over what the rows do not stand for yet of a changelog."""
        position = self.state.positions.setdefault(store, 0)
        records = [_record(offset, log[offset]) for offset in range(position, len(log))]
        if records and not self.state.load(store, records, len(log)):
            fields = logged_fields(self.kinds[store].spec, records)
            self.state.restore(store, fields, len(log))

    def started(self) -> None:
        """The replay of every store is over."""
        self.state.apply()
        self.state.restored()

    # ------------------------------------------------------------------ looking

    def clocks(self) -> dict[str, int]:
        """The clocks as a cut holds them."""
        return {name: cell.time for name, cell in self.context.cells.items() if cell.time >= 0}

    def answers(self, store: str, clock: int) -> Any:
        """All that can be read of a store, as JSON has it."""
        found = self.kinds[store].answers(self.state.stores[store], clock)
        return msgspec.json.decode(msgspec.json.encode(found))

    def rows(self, store: str) -> list[tuple[bytes, bytes]]:
        """The rows of a store as they lie."""
        self.state.apply()
        rows = self.state._rows[store]
        rows.drop_cache()
        return list(rows.scan())

    def lasting(self, store: str, rows: list[tuple[bytes, bytes]]) -> Any:
        """Of the rows what is the same after a replay."""
        return self.kinds[store].rows(self.state.stores[store], rows)

    def close(self) -> None:
        self.state.close()
        self._directory.close()


def rows_on_disk(root: Path) -> list[tuple[bytes, bytes]]:
    """All that lies in the task's database, with what stands beside the stores' rows."""
    backend = RocksBackend(root / APPLICATION / str(TASK))
    try:
        return list(backend.scan(b"", b"\xff"))
    finally:
        backend.close()


def _record(offset: int, write: LoggedFields) -> StoredRecord:
    key, value, timestamp, headers = write
    # As the producer sends it: time 0 travels as none, none is stamped by the producer.
    sent = 1_000_000 if timestamp is None else timestamp or NO_TIMESTAMP
    return StoredRecord("log", 0, offset, key, value, sent, headers)
