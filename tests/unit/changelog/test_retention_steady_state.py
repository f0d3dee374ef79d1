"""Stores with a retention after a long time at steady load: no larger, no slower than at first.

Every store gets the operations that its operator makes of a record: an aggregate reads the row it
replaces, a session takes out the one it extends, a join looks for partners and keeps the record.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from logstate import serdes
from logstate.changelog.backend.backend import StoreBackend
from logstate.contracts.records import Windowed
from logstate.contracts.stores import StoreSpec, ValueAndTimestamp
from tests.steps import nothing_collected
from tests.unit.changelog.counting_backend import CountingBackend
from tests.unit.changelog.store_bench import StoreBench

PERIODS = 200
RECORDS_PER_PERIOD = 120
COMMIT_EVERY = 30
KEYS = 15
#: of the least processor times, which a busy machine still makes differ: caches, clock rates
SLOWER_MAX = 3
#: the operations of one record; returns the row that is there now and those that are not any more
Update = Callable[[Any, str, int, int], tuple[Any, list[Any]]]


def update_window(store: Any, key: str, time_ms: int, step_ms: int) -> tuple[Any, list[Any]]:
    start_ms = time_ms - time_ms % (10 * step_ms)
    before = store.fetch(key, start_ms)
    count = 1 if before is None else before.value + 1
    store.put(key, ValueAndTimestamp(count, time_ms), start_ms)
    return (start_ms, key), []


def update_session(store: Any, key: str, time_ms: int, step_ms: int) -> tuple[Any, list[Any]]:
    """Keys come every ``KEYS`` steps; every third time they make a pause."""
    found = []
    if time_ms // (KEYS * step_ms) % 3:
        gap_ms = (KEYS + 1) * step_ms
        found = [session for session, _ in store.find_sessions(key, time_ms - gap_ms, time_ms)]
    for session in found:
        store.remove(session)
    start_ms = min([time_ms, *(session.start_ms for session in found)])
    store.put(Windowed(key, start_ms, time_ms), 1)
    return (time_ms, key), [(session.end_ms, key) for session in found]


def update_join(store: Any, key: str, time_ms: int, step_ms: int) -> tuple[Any, list[Any]]:
    retention_ms = RECORDS_PER_PERIOD * step_ms
    for _ in store.fetch_range(key, time_ms - retention_ms, time_ms):
        pass
    store.put(key, time_ms, time_ms)
    return (time_ms, key), []


LOADS: dict[str, tuple[Update, dict[str, Any]]] = {
    "window": (update_window, {"kind": "timestamped_window"}),
    "results on close": (
        update_window,
        {"kind": "timestamped_window", "keep_at_retention": True},
    ),
    "session": (update_session, {"kind": "session"}),
    "join": (update_join, {"kind": "window", "retain_duplicates": True}),
}


class SteadyLoad:
    """One store under a steady load, with what of it is live."""

    def __init__(self, kind: str, retention_ms: int, directory: Path | None) -> None:
        self.update, options = LOADS[kind]
        self.retention_ms = retention_ms
        self.step_ms = retention_ms // RECORDS_PER_PERIOD
        self.backends: list[CountingBackend] = []
        self.spec = StoreSpec(
            "store",
            key=serdes.string,
            value=serdes.int64,
            # The stores in memory do without the backend that counts.
            in_memory=directory is None,
            window_size_ms=10 * self.step_ms,
            retention_ms=retention_ms,
            **options,
        )
        self.bench = StoreBench(self.spec, directory, watch=self._watched)
        self.records = 0
        self.live: dict[Any, None] = {}
        self.most_rows_per_live_row = 0.0

    def _watched(self, backend: StoreBackend) -> StoreBackend:
        self.backends.append(CountingBackend(backend))
        return self.backends[-1]

    @property
    def backend(self) -> CountingBackend:
        return self.backends[-1]

    def run_period(self, *, measures: bool = False) -> None:
        for _ in range(RECORDS_PER_PERIOD):
            self.run_record()
            if self.records % COMMIT_EVERY == 0:
                self.bench.commit()
            if measures and self.records % COMMIT_EVERY == 0:
                ratio = len(self.rows()) / len(self.live_rows())
                self.most_rows_per_live_row = max(self.most_rows_per_live_row, ratio)

    def run_record(self) -> None:
        time_ms = self.records * self.step_ms
        self.bench.context.timestamp = time_ms
        key = f"key-{self.records % KEYS}"
        row, gone = self.update(self.bench.store, key, time_ms, self.step_ms)
        self.live[row] = None
        for old in gone:
            self.live.pop(old, None)
        self.records += 1

    def live_rows(self) -> dict[Any, None]:
        """What reads still show: rows by (time, key)."""
        newest = max(row[0] for row in self.live)
        self.live = {row: None for row in self.live if row[0] > newest - self.retention_ms}
        return self.live

    def rows(self) -> list[tuple[bytes, bytes]]:
        """The rows as they lie; stores in memory have another backend of their own."""
        backend = self.bench.state._memory if self.spec.in_memory else self.backend.backend
        rows = list(backend.scan(b"\x01", b"\x02"))
        if self.spec.keep_at_retention:  # has an index besides, of keys without a value
            rows = [row for row in rows if row[1]]
        return rows


@pytest.fixture(params=["memory", "rocks"])
def directory(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    return None if request.param == "memory" else tmp_path / "db"


@pytest.mark.slow
@pytest.mark.parametrize("retention_ms", [3_600_000, 24_000], ids=["an hour", "seconds"])
@pytest.mark.parametrize("kind", LOADS)
def test_a_store_is_no_larger_and_no_dearer_after_200_retention_periods(
    kind: str, retention_ms: int, directory: Path | None
) -> None:
    load = SteadyLoad(kind, retention_ms, directory)
    work, held = [], []
    for period in range(PERIODS):
        before = load.backend.work
        load.run_period(measures=period % 20 == 19)
        work.append(load.backend.work - before)
        held.append(load.bench.state.cached_rows())
    assert load.most_rows_per_live_row <= 2
    assert max(work[1:]) <= 1.2 * work[0]
    assert max(held) <= 1.2 * max(held[:20])
    load.bench.close()


@pytest.mark.parametrize("kind", LOADS)
def test_expiry_writes_nothing_to_the_changelog(kind: str, directory: Path | None) -> None:
    load = SteadyLoad(kind, 3_600_000, directory)
    for _ in range(10):
        load.run_period()
    rows, logged = len(load.rows()), len(load.bench.log)
    load.records += 100 * RECORDS_PER_PERIOD
    load.run_record()
    assert len(load.bench.commit()) == 1
    assert len(load.bench.log) == logged + 1
    assert (rows > 1, len(load.rows())) == (True, 1)
    load.bench.close()


@pytest.mark.parametrize("kind", LOADS)
def test_a_restart_and_a_restore_bring_no_expired_rows_back(kind: str, tmp_path: Path) -> None:
    load = SteadyLoad(kind, 3_600_000, tmp_path / "db")
    for _ in range(5):
        load.run_period()
    contents = list(load.bench.store.all())
    rows = load.rows()
    load.bench.reopen()
    assert (list(load.bench.store.all()), load.rows()) == (contents, rows)
    other = load.bench.restored(batch=100)
    assert list(other.store.all()) == contents
    assert len(other.rows()) == len(list(load.backend.backend.scan(b"\x01", b"\x02")))
    load.bench.close()


@pytest.fixture
def loads(tmp_path: Path) -> Iterator[Callable[[str], tuple[SteadyLoad, SteadyLoad]]]:
    made: list[SteadyLoad] = []

    def make(kind: str) -> tuple[SteadyLoad, SteadyLoad]:
        made.extend(SteadyLoad(kind, 3_600_000, tmp_path / name) for name in ("old", "new"))
        return made[0], made[1]

    yield make
    for load in made:
        load.bench.close()


def calls_of(work: Callable[[], object]) -> int:
    """How many functions, of Python and of C, are called meanwhile in this thread."""
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    with nothing_collected():
        sys.setprofile(count)
        try:
            work()
        finally:
            sys.setprofile(before)
    return calls


def seconds_of(work: Callable[[], object]) -> float:
    """Processor time of this thread: only the least of several says anything."""
    begin = time.thread_time()
    work()
    return time.thread_time() - begin


@pytest.mark.slow
@pytest.mark.parametrize("kind", LOADS)
def test_records_are_no_more_work_after_200_retention_periods_than_in_the_second(
    kind: str, loads: Callable[[str], tuple[SteadyLoad, SteadyLoad]]
) -> None:
    """The second period: in the first, a store is only being filled and reads find less."""
    old, new = loads(kind)
    for load, periods in ((old, PERIODS), (new, 1)):
        for _ in range(periods):
            load.run_period()
    calls: dict[SteadyLoad, list[int]] = {old: [], new: []}
    seconds: dict[SteadyLoad, list[float]] = {old: [], new: []}
    for _ in range(30):
        for load in (old, new):
            calls[load].append(calls_of(lambda load=load: run_two_commits(load)))
            seconds[load].append(seconds_of(lambda load=load: run_two_commits(load)))
    assert statistics.median(calls[old]) <= 1.2 * statistics.median(calls[new])
    assert min(seconds[old]) <= SLOWER_MAX * min(seconds[new])


class DeferredWrites:
    """A store whose writes wait, so that they are measured without the reads around them."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self._waiting: list[tuple[Callable[..., None], tuple[Any, ...]]] = []

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)
        if name not in ("put", "remove"):
            return method
        return lambda *arguments: self._waiting.append((method, arguments))

    def write(self) -> None:
        """Make the writes."""
        waiting, self._waiting = self._waiting, []
        for method, arguments in waiting:
            method(*arguments)


def run_record_but_its_writes(load: SteadyLoad) -> DeferredWrites:
    store = load.bench.store
    deferred = DeferredWrites(store)
    load.bench.store = deferred
    load.run_record()
    load.bench.store = store
    return deferred


@pytest.mark.slow
@pytest.mark.parametrize("kind", LOADS)
def test_a_put_is_as_much_work_after_200_retention_periods_as_in_the_first(
    kind: str, tmp_path: Path
) -> None:
    """It is compared with the first period of new stores. Not with reads: they find less.

    The middle one of all puts: two in a period remove what expired, and encode what the next commit
    would have. That they are no more work in total is what the test of all operations counts.
    """
    old = SteadyLoad(kind, 3_600_000, tmp_path / "old")
    for _ in range(PERIODS):
        old.run_period()
    medians: dict[bool, list[float]] = {True: [], False: []}
    for round_number in range(10):
        new = SteadyLoad(kind, 3_600_000, tmp_path / f"new-{round_number}")
        counts = round_number % 2 == 0
        puts: dict[SteadyLoad, list[float]] = {old: [], new: []}
        for number in range(1, RECORDS_PER_PERIOD + 1):
            for load in (old, new):
                write = run_record_but_its_writes(load).write
                puts[load].append(calls_of(write) if counts else seconds_of(write))
                if number % COMMIT_EVERY == 0:
                    load.bench.commit()
        if counts:
            assert statistics.median(puts[old]) <= 1.2 * statistics.median(puts[new])
        else:
            medians[True].append(statistics.median(puts[old]))
            medians[False].append(statistics.median(puts[new]))
        new.bench.close()
    old.bench.close()
    assert min(medians[True]) <= SLOWER_MAX * min(medians[False])


def run_two_commits(load: SteadyLoad) -> None:
    for _ in range(2):
        for _ in range(COMMIT_EVERY):
            load.run_record()
        load.bench.commit()
