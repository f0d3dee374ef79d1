"""What other threads read: one commit, fixed, for as long as they hold it or the task is open."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

import pytest

from logstate import serdes
from logstate.changelog.backend.backend import StoreBackend
from logstate.changelog.backend.memory import MemoryBackend, MemorySnapshot
from logstate.changelog.backend.rocks import RocksBackend
from logstate.changelog.rows.layers import Layer
from logstate.changelog.state import TaskState
from logstate.changelog.view import CommittedRows, SnapshotLease, StateView, close_leases
from logstate.contracts.errors import StoreUnavailableError
from logstate.contracts.processing import TaskContext
from logstate.contracts.stores import StoreSpec
from tests.patience import PATIENCE_S, until
from tests.unit.changelog.store_bench import MEDIA, BenchContext

PREFIX = b"\x01\x00\x00"


def committed_rows(stored: dict[bytes, bytes], *layers: dict[bytes, bytes | None]) -> CommittedRows:
    backend = MemoryBackend()
    backend.write({PREFIX + key: value for key, value in stored.items()})
    return CommittedRows(PREFIX, map(layer_of, layers), SnapshotLease(backend.snapshot()))


def layer_of(rows: dict[bytes, bytes | None]) -> Layer:
    layer = Layer()
    layer.rows = rows
    return layer


def test_the_newest_committed_layer_wins_over_older_ones_and_the_snapshot() -> None:
    rows = committed_rows(
        {b"a": b"stored", b"b": b"stored", b"c": b"stored", b"d": b"stored"},
        {b"b": b"old", b"c": b"old", b"d": None},
        {b"c": b"new", b"e": b"new"},
    )
    expected = [(b"a", b"stored"), (b"b", b"old"), (b"c", b"new"), (b"e", b"new")]
    assert [(key, rows.get(key)) for key, _ in expected] == expected
    assert rows.get(b"d") is None
    assert list(rows.scan()) == expected
    assert list(rows.scan(reverse=True)) == expected[::-1]


def test_a_scan_keeps_to_its_bounds_in_layers_and_snapshot() -> None:
    rows = committed_rows({b"a": b"1", b"c": b"1"}, {b"b": b"2", b"d": b"2"})
    assert [key for key, _ in rows.scan(b"b", b"d")] == [b"b", b"c"]
    assert [key for key, _ in rows.scan(b"c")] == [b"c", b"d"]


# --- leases ---------------------------------------------------------------------------------------


@pytest.fixture
def snapshot() -> MemorySnapshot:
    backend = MemoryBackend()
    backend.write({b"a": b"1"})
    return backend.snapshot()


def test_a_closed_lease_lets_nobody_in_and_gives_the_snapshot_back(
    snapshot: MemorySnapshot,
) -> None:
    lease = SnapshotLease(snapshot)
    lease.close()
    with pytest.raises(StoreUnavailableError, match="look the owner up again"), lease.read():
        pass
    with pytest.raises(StoreUnavailableError):
        snapshot.get(b"a")


def test_closing_waits_for_the_readers_that_are_inside(snapshot: MemorySnapshot) -> None:
    lease = SnapshotLease(snapshot)
    found: list[bytes | None] = []
    inside, may_read = threading.Event(), threading.Event()

    def read() -> None:
        with lease.read() as held:
            inside.set()
            may_read.wait(PATIENCE_S)
            found.append(held.get(b"a"))

    with ThreadPoolExecutor(2) as pool:
        reader = pool.submit(read)
        assert inside.wait(PATIENCE_S)
        closing = pool.submit(lease.close, PATIENCE_S)
        until(lambda: lease._is_closed)
        with pytest.raises(StoreUnavailableError), lease.read():
            pass
        assert not closing.done()
        may_read.set()
        reader.result(PATIENCE_S)
        closing.result(PATIENCE_S)
    assert found == [b"1"]


def test_a_reader_that_stays_too_long_gets_an_error_not_a_short_answer(
    snapshot: MemorySnapshot,
) -> None:
    lease = SnapshotLease(snapshot)
    with lease.read() as held:
        lease.close(wait_s=0.01)
        with pytest.raises(StoreUnavailableError):
            held.get(b"a")


def test_several_leases_are_waited_for_together_not_one_after_the_other(
    snapshot: MemorySnapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, waited = [100.0], []
    monkeypatch.setattr("time.monotonic", lambda: now[0])

    class Read(SnapshotLease):
        """Its readers stay for as long as it would wait."""

        def close(self, wait_s: float = 0.0) -> None:
            waited.append(wait_s)
            now[0] += wait_s
            super().close(0)

    leases = [Read(snapshot) for _ in range(50)]
    with ExitStack() as readers:
        for lease in leases:
            readers.enter_context(lease.read())
        close_leases(leases, 2.0)
    assert waited == [2.0] + [0.0] * 49


# --- views of a task ------------------------------------------------------------------------------


@pytest.fixture(params=MEDIA)
def state(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[TaskState]:
    backend: StoreBackend | None = None
    if request.param == "rocks":
        backend = RocksBackend(tmp_path / "db")
    specs = [StoreSpec("a", "key_value", serdes.string, serdes.string)]
    made = TaskState(specs, cast(TaskContext, BenchContext()), backend=backend)
    made.restored()
    yield made
    made.close()


def write(state: TaskState, count: int, value: str) -> None:
    store: Any = state.stores["a"]
    for number in range(count):
        store.put(f"{number:05d}", value)
    state.committed(state.freeze(), {})


def values(view: StateView) -> list[bytes]:
    return [value for _, value in view.rows["a"].scan()]


def test_a_reader_that_took_a_view_reads_it_though_rows_were_applied_since(
    state: TaskState,
) -> None:
    write(state, 50, "old")
    state.apply()
    view = state.view
    scan = view.rows["a"].scan()
    for value in ("new", "newer"):
        write(state, 50, value)
        state.apply()
    assert [value for _, value in scan] == [b"old"] * 50
    assert view.rows["a"].get(b"00007") == b"old"
    assert values(state.view) == [b"newer"] * 50


def test_a_scan_that_has_begun_goes_on_over_any_number_of_applies(state: TaskState) -> None:
    write(state, 500, "old")
    state.apply()
    scan = state.view.rows["a"].scan()
    first = next(scan)
    for _ in range(3):
        write(state, 600, "new")
        state.apply()
    assert [first[1], *(value for _, value in scan)] == [b"old"] * 500


def test_a_scan_ends_with_an_error_where_the_task_was_closed_meanwhile(
    state: TaskState, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(close_leases, "__defaults__", (0.01,))
    write(state, 5_000, "old")
    state.apply()
    scan = state.view.rows["a"].scan()
    next(scan)
    state.close()
    with pytest.raises(StoreUnavailableError):
        list(scan)


@pytest.mark.parametrize("reverse", [False, True])
def test_a_scan_in_portions_has_every_row_once(state: TaskState, reverse: bool) -> None:
    write(state, 5_000, "old")
    state.apply()
    keys = [key for key, _ in state.view.rows["a"].scan(b"00003", b"04998", reverse=reverse)]
    assert keys == sorted((b"%05d" % n for n in range(3, 4_998)), reverse=reverse)


def test_a_scan_that_nobody_goes_on_with_keeps_nobody_waiting(state: TaskState) -> None:
    write(state, 500, "old")
    state.apply()
    scan = state.view.rows["a"].scan()
    next(scan)
    assert state._leases is not None
    assert [lease._readers for lease in state._leases] == [0, 0]
    scan.close()  # type: ignore[attr-defined]


def test_snapshots_that_no_view_uses_any_more_go_away(state: TaskState) -> None:
    write(state, 5, "old")
    state.apply()
    held = state.view
    leases = [weakref.ref(lease) for lease in state._leases or ()]
    assert leases
    write(state, 5, "new")
    state.apply()
    assert values(held) == [b"old"] * 5
    assert any(ref() is not None for ref in leases)
    del held
    gc.collect()
    assert [ref() for ref in leases] == [None, None]


def test_readers_in_other_threads_see_whole_commits_while_rows_are_applied(
    state: TaskState,
) -> None:
    write(state, 40, "0")
    state.apply()
    is_done = threading.Event()

    def read() -> int:
        reads = 0
        while not is_done.is_set() or reads == 0:
            found = values(state.view)
            assert len(found) == 40
            assert len(set(found)) == 1, "part of one commit, part of another"
            reads += 1
        return reads

    with ThreadPoolExecutor(2) as pool:
        readers = [pool.submit(read) for _ in range(2)]
        try:
            for number in range(1, 25):
                write(state, 40, str(number))
                if number % 3 == 0:
                    state.apply()
        finally:
            is_done.set()
        assert all(reader.result(PATIENCE_S) for reader in readers)
