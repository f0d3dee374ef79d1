"""The lives of one task's state: commits, applies, crashes, and what comes back after each.

Goes through a start as a task does: the clocks of the committed cut, expiry, the replay from the
position beside the rows in batches that may be written in between, the last write, and the views.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import itemgetter
from typing import Any

from logstate.changelog.backend.memory import MemoryBackend
from logstate.changelog.row_counts import is_counted
from logstate.changelog.rows.indexed_rows import IndexedRows
from logstate.changelog.rows.writes import LoggedFields
from logstate.commit.output_buffer import NO_TIMESTAMP
from logstate.restore.restore import logged_fields
from logstate.testing.fake.fetched import StoredRecord
from tests.unit.changelog.store_bench import BenchContext, open_state
from tests.unit.changelog.store_kinds import Input, KindUnderTest


class _Disk(MemoryBackend):
    """Rows that survive their state."""

    def close(self) -> None:
        """Nothing is lost."""


class Lives:
    """One store of one task, over all its lives."""

    def __init__(self, kind: KindUnderTest, *, logs_every_write: bool) -> None:
        self.kind = kind
        self.log: list[LoggedFields] = []
        #: what each logged; the order is that of each key, because reads encode what waits
        self.commits: list[list[LoggedFields]] = []
        self._logs_every_write = logs_every_write
        self._disk = _Disk()
        #: the clocks of the last commit, as a cut holds them
        self._cut: dict[str, int] = {}
        self._offset = 0
        self._committed_offset = 0
        self._open()
        self._start(replay_batch=1, writes_between=False, dies_half_way=False)

    def _open(self) -> None:
        self.context = BenchContext()
        self.state = open_state(self.kind.spec, self.context, self._disk, self._logs_every_write)
        self.store: Any = self.state.stores["store"]

    # ------------------------------------------------------------------ living

    def process(self, one: Input) -> None:
        """One record, at its place in the input."""
        context = self.context
        context.offset, context.timestamp, context.headers = self._offset, one.time, None
        self._offset += 1
        self.kind.process(self.store, one, context)

    def commit(self) -> None:
        """One commit."""
        self.state.expiry.delete(self.context.stream_time)
        changes = self.state.freeze()
        writes = changes.writes["store"]
        self.log += writes
        self._check_count(changes.clocks)
        self.commits.append(sorted(writes, key=itemgetter(0)))
        self.state.committed(changes, {"store": len(self.log)})
        self._cut = {name: time for name, time in changes.clocks.items() if time >= 0}
        self._committed_offset = self._offset

    def _check_count(self, clocks: Mapping[str, int]) -> None:
        """What a commit says of the number of rows is what its changelog has."""
        values = {key: value for key, value, _, _ in self.log}
        live = sum(value is not None for value in values.values())
        assert clocks.get("rows:store") == (live if is_counted(self.kind.spec) else None)

    def apply(self) -> None:
        """RocksDB takes over what is committed."""
        self.state.apply()

    # ------------------------------------------------------------------ dying

    def abort(self) -> None:
        """A transaction that failed: the state stays, and goes through a start."""
        self.state.release(2)  # of what is discarded, some before
        self.state.discard()
        self._start(replay_batch=1_000, writes_between=False, dies_half_way=False)

    def crash(
        self, *, loses_disk: bool, replay_batch: int, writes_between: bool, dies_half_way: bool
    ) -> None:
        """A process dies, and another one starts from what is committed and on the disk."""
        self.state.close()
        if loses_disk:
            self._disk = _Disk()
        self._open()
        self._start(replay_batch, writes_between=writes_between, dies_half_way=dies_half_way)
        if dies_half_way:
            self._open()
            self._start(replay_batch, writes_between=writes_between, dies_half_way=False)

    def _start(self, replay_batch: int, *, writes_between: bool, dies_half_way: bool) -> None:
        state = self.state
        self._offset = self._committed_offset
        state.set_clocks(self._cut)
        state.expire()
        position = state.positions.setdefault("store", 0)
        records = [self._record(offset) for offset in range(position, len(self.log))]
        for begin in range(0, len(records), replay_batch):
            if dies_half_way and begin > len(records) // 2:
                state.apply()
                state.close()
                return
            batch = records[begin : begin + replay_batch]
            if not state.load("store", batch, batch[-1].offset() + 1):
                fields = logged_fields(self.kind.spec, batch)
                state.restore("store", fields, batch[-1].offset() + 1)
            if writes_between:
                state.apply()
        state.apply(1)
        state.restored()

    def _record(self, offset: int) -> StoredRecord:
        key, value, timestamp, headers = self.log[offset]
        # As the producer sends it: time 0 travels as none, none is stamped by the producer.
        sent = 1_000_000 if timestamp is None else timestamp or NO_TIMESTAMP
        return StoredRecord("log", 0, offset, key, value, sent, headers)

    # ------------------------------------------------------------------ looking

    def answers(self, clock: int) -> Any:
        """All that can be read around a time, uncommitted rows included."""
        return self.kind.answers(self.store, clock)

    def rows(self) -> Any:
        """The rows as they lie; everything has to be committed."""
        self.state.apply()
        rows = self.state._rows["store"]
        rows.drop_cache()
        entries = list(rows.entries.scan()) if isinstance(rows, IndexedRows) else []
        return self.kind.rows(self.store, list(rows.scan())), entries

    def close(self) -> None:
        self.state.close()
