"""A task that moves between two instances: one has it, the other follows or keeps what it had.

Everything that is done to the state of a task is done as workers do it: commits whose end comes
later, records that are rolled back, standbys that are promoted, directories that come back old,
changelogs that are compacted and trimmed meanwhile.
"""

from __future__ import annotations

from operator import itemgetter
from typing import Any, NamedTuple

from logstate.changelog.backend.memory import MemoryBackend
from logstate.changelog.rows.indexed_rows import IndexedRows
from logstate.changelog.rows.writes import LoggedFields, StateChanges
from logstate.changelog.state import TaskState
from logstate.changelog.stores.kinds import kind_of, reader_maker
from logstate.commit.output_buffer import NO_TIMESTAMP
from logstate.restore.restore import logged_fields
from logstate.testing.fake.fetched import StoredRecord
from tests.unit.changelog.store_bench import BenchContext, open_state
from tests.unit.changelog.store_kinds import Input, KindUnderTest


class Disk(MemoryBackend):
    """Rows that survive their state."""

    def close(self) -> None:
        """Nothing is lost."""

    def copy(self) -> Disk:
        """The same rows, changing on their own."""
        disk = Disk()
        disk.write(dict(self.scan(b"", b"\xff")))
        return disk


class Log:
    """A changelog: what is committed, and what compaction and its owner have left of it."""

    def __init__(self) -> None:
        self.records: list[LoggedFields] = []
        self.start = 0
        self._removed: set[int] = set()

    def compact(self) -> None:
        """Only the last record of each key stays."""
        last = {record[0]: offset for offset, record in enumerate(self.records)}
        self._removed |= set(range(len(self.records))) - set(last.values())

    def between(self, position: int, end: int) -> list[StoredRecord]:
        """What can be read of a range."""
        offsets = range(max(position, self.start), end)
        return [self._record(offset) for offset in offsets if offset not in self._removed]

    def _record(self, offset: int) -> StoredRecord:
        key, value, timestamp, headers = self.records[offset]
        # As the producer sends it: time 0 travels as none, none is stamped by the producer.
        sent = 1_000_000 if timestamp is None else timestamp or NO_TIMESTAMP
        return StoredRecord("log", 0, offset, key, value, sent, headers)


class Place:
    """What one instance has of the task: its directory, and a state where it is open."""

    def __init__(self) -> None:
        self.disk = Disk()
        #: what was on the disk once
        self.old_disk = Disk()
        self.state: TaskState | None = None
        #: queries may be answered by it
        self.is_shown = False
        self.context = BenchContext()


class Replay(NamedTuple):
    """How a replay goes."""

    batch: int = 1_000
    writes_between: bool = False
    #: the process dies in the middle, and another one goes on
    dies: bool = False


class MovingTask:
    """One store of one task, over all places and lives."""

    def __init__(self, kind: KindUnderTest, *, logs_every_write: bool) -> None:
        self.kind = kind
        self._logs_every_write = logs_every_write
        self.log = Log()
        #: what each commit logged; the order is that of each key, because reads encode what waits
        self.commits: list[list[LoggedFields]] = []
        self.places = (Place(), Place())
        self.owner = 0
        #: the clocks of the last commit, as a cut holds them
        self._cut: dict[str, int] = {}
        self._trim_point = 0
        self._offset = self.committed_offset = 0
        #: the commit whose transaction is open, and its input offset
        self._open_commit: tuple[StateChanges, int] | None = None
        spec = kind.spec
        self._reader = reader_maker(spec, "app") if kind_of(spec).reader else None
        self._start(Replay())

    @property
    def here(self) -> Place:
        """Where the task runs."""
        return self.places[self.owner]

    @property
    def there(self) -> Place:
        """Where it does not."""
        return self.places[1 - self.owner]

    @property
    def state(self) -> TaskState:
        """Of the task that runs."""
        state = self.here.state
        assert state is not None
        return state

    # ------------------------------------------------------------------ living

    def process(self, one: Input, *, fails: bool = False) -> None:
        """One record, at its place in the input; one that ``fails`` is rolled back."""
        context = self.here.context
        context.offset, context.timestamp, context.headers = self._offset, one.time, None
        self._offset += 1
        if fails:
            self.state.begin_journal()
        self.kind.process(self.state.stores["store"], one, context)
        if fails:
            self.state.end_journal(rollback=True)

    def skip(self) -> None:
        """A record that nothing came of."""
        self._offset += 1

    def begin_commit(self) -> None:
        """Up to the moment in which the transaction's end is asked for."""
        self.state.expiry.delete(self.here.context.stream_time)
        self._open_commit = self.state.freeze(), self._offset

    def end_commit(self) -> None:
        """The transaction is committed, and the task hears of it."""
        if self._open_commit is not None:
            changes, _ = self._open_commit
            self._decide()
            self.state.committed(changes, {"store": len(self.log.records)})

    def _decide(self) -> None:
        """The transaction is committed."""
        assert self._open_commit is not None
        changes, offset = self._open_commit
        self._open_commit = None
        writes = changes.writes["store"]
        self.log.records += writes
        self.commits.append(sorted(writes, key=itemgetter(0)))
        self._cut = {name: time for name, time in changes.clocks.items() if time >= 0}
        self.committed_offset = offset

    def apply(self) -> None:
        """RocksDB takes over what is committed."""
        self.state.apply()
        self.here.old_disk = self.here.disk.copy()

    def trim(self) -> None:
        """The owner deletes what had expired when it came by last."""
        self.log.start = max(self.log.start, self._trim_point)
        self._trim_point = self.state.trim_points().get("store", 0)

    # ------------------------------------------------------------------ dying and moving

    def end_of_transaction(self, *, is_committed: bool) -> None:
        """Nobody is there any more to hear how it ended."""
        if self._open_commit is not None:
            if is_committed:
                self._decide()
            self._open_commit = None

    def abort(self, replay: Replay) -> None:
        """A transaction that failed: the state stays, and goes through a start."""
        self.state.release(2)  # of what is discarded, some before
        self.state.discard()
        self._start(replay)

    def crash(self, disk: Disk | None, replay: Replay) -> None:
        """The process dies; another one finds the directory, or an older one, or none."""
        self._die()
        if disk is not None:
            self.here.disk = disk
        self._start(replay)

    def move(self, replay: Replay) -> None:
        """The process dies, and the other instance has the task."""
        self._die()
        self.owner = 1 - self.owner
        self._start(replay)

    def hand_over(self, replay: Replay) -> None:
        """The other instance has the task, and this one keeps what was committed as its standby."""
        self.state.discard()
        self.here.is_shown = False
        self.owner = 1 - self.owner
        self._start(replay)

    def _die(self) -> None:
        self.state.close()
        self.here.state = None

    def _opened(self, place: Place) -> TaskState:
        if place.state is None:
            place.context, place.is_shown = BenchContext(), False
            spec = self.kind.spec
            place.state = open_state(spec, place.context, place.disk, self._logs_every_write)
            place.state.publish_views()
        return place.state

    def _start(self, replay: Replay) -> None:
        self._offset = self.committed_offset
        state = self._opened(self.here)
        state.apply()  # of a standby, what it has
        state.set_clocks(self._cut)
        state.expire()
        end = len(self.log.records)
        if replay.dies:
            self._take(state, (state.positions.get("store", 0) + end) // 2, replay)
            state.apply()
            self._die()
            self._start(replay._replace(dies=False))
            return
        self._take(state, end, replay)
        state.apply(1)
        state.restored()
        self.here.is_shown = True

    def _take(self, state: TaskState, end: int, replay: Replay) -> None:
        position = state.positions.setdefault("store", 0)
        records = self.log.between(position, end)
        for begin in range(0, len(records), replay.batch):
            batch = records[begin : begin + replay.batch]
            following = batch[-1].offset() + 1
            if not state.load("store", batch, following):
                state.restore("store", logged_fields(self.kind.spec, batch), following)
            if replay.writes_between:
                state.apply()
        if end > state.positions["store"]:
            state.restore("store", (), end)  # holes

    def follow(self, lacks: int, replay: Replay) -> None:
        """The other instance follows as a standby, but for so many records, and can be asked."""
        state = self._opened(self.there)
        end = len(self.log.records) - lacks
        if end >= state.positions.get("store", 0):
            self._take(state, end, replay)
            state.apply(1)
            state.followed()
            self.there.is_shown = True

    # ------------------------------------------------------------------ looking

    def answers(self, clock: int) -> Any:
        """All that can be read around a time, uncommitted rows included."""
        return self.kind.answers(self.state.stores["store"], clock)

    def found(self, place: Place) -> Any:
        """What queries of the committed rows find there; None where nobody can ask."""
        state = place.state
        if self._reader is None or state is None or not place.is_shown:
            return None
        reader = self._reader(state.view.rows["store"], state.view.clocks)
        return self.kind.answers(reader, self._cut.get(self.kind.spec.clock_name, 0))

    def is_current(self, place: Place) -> bool:
        """Whether a standby has all that is committed, and has learnt the clock from it.

        It does not learn what only a trimmed record told, or a session in memory that was removed.
        """
        state = place.state
        if state is None or state.positions.get("store") != len(self.log.records):
            return False
        if self.kind.spec.ttl_ms is not None:
            return True  # the log has no row that its clock does not hide as the owner's does
        clock = self.kind.spec.clock_name
        return state.view.clocks.get(clock, -1) == self._cut.get(clock, -1)

    def rows(self) -> Any:
        """The rows as they lie; everything has to be committed."""
        self.state.apply()
        rows = self.state._rows["store"]
        rows.drop_cache()
        entries = list(rows.entries.scan()) if isinstance(rows, IndexedRows) else []
        return self.kind.rows(self.state.stores["store"], list(rows.scan())), entries

    def close(self) -> None:
        for place in self.places:
            if place.state is not None:
                place.state.close()
