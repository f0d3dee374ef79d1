"""The index of rows with a TTL: one entry for each row, which moves when it is due."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import msgspec
import pytest

from logstate.changelog.backend.backend import StoreBackend
from logstate.changelog.backend.memory import MemoryBackend
from logstate.changelog.backend.rocks import RocksBackend
from logstate.changelog.rows import expiring_rows
from logstate.changelog.rows.expiring_rows import ExpiringRows
from logstate.changelog.state import TaskState
from logstate.contracts.errors import UpgradeError
from logstate.contracts.processing import TaskContext
from logstate.contracts.stores import StoreSpec
from logstate.restore.restore import logged_fields
from logstate.testing.fake.fetched import StoredRecord
from tests.unit.changelog.counting_backend import CountingBackend
from tests.unit.changelog.kind_under_test import spec_of
from tests.unit.changelog.store_bench import MEDIA, BenchContext, StoreBench
from tests.unit.changelog.stores.test_expiring_stores import (
    PLAIN,
    TABLE,
    TTL_MS,
    KeptRows,
    entries,
    left,
    put,
)


@pytest.mark.parametrize("medium", MEDIA)
def test_a_row_that_is_put_again_and_again_has_one_entry_in_the_index(
    medium: str, tmp_path: Path
) -> None:
    bench = StoreBench(PLAIN, None if medium == "memory" else tmp_path / "db")
    for time in range(20):
        put(bench, "a", time, time)
        if time % 3 == 0:
            put(bench, "b", None if time % 2 else 1, time)
        bench.commit(applies=time % 4 == 0)
    rows = bench.rows()
    assert sorted(entries(bench)) == sorted(row[:8] + key for key, row in rows)
    bench.close()


@pytest.mark.parametrize("spec", [PLAIN, TABLE], ids=["plain", "table"])
def test_a_refreshed_row_writes_nothing_to_the_index_until_its_entry_is_due(
    spec: StoreSpec,
) -> None:
    bench = StoreBench(spec)
    put(bench, "a", 1, 0)
    bench.commit()
    first = entries(bench)
    for time in (1, 40, TTL_MS - 1):
        put(bench, "a", time, time)
        changes = bench.state.freeze()
        assert changes.layers["store"].index is not None
        assert changes.layers["store"].index.is_empty
        bench.state.committed(changes, {})
    assert entries(bench) == first

    bench.context.see(TTL_MS)  # the entry is due, and the row is not
    assert not bench.commit()

    assert [int.from_bytes(entry[:8], "big") for entry in entries(bench)] == [TTL_MS - 1]
    assert bench.store.get("a") is not None
    bench.context.see(2 * TTL_MS - 1)
    assert [write[:3] for write in bench.commit()] == [(b"a", None, 2 * TTL_MS - 1)]
    assert not entries(bench)
    bench.close()


@pytest.mark.parametrize("spec", [PLAIN, TABLE], ids=["plain", "table"])
def test_a_row_that_is_put_with_an_earlier_time_is_deleted_by_that(spec: StoreSpec) -> None:
    bench = StoreBench(spec)
    put(bench, "a", 1, 50)
    bench.commit()
    put(bench, "a", 2, 20)
    bench.commit()
    assert [entry[:8] for entry in entries(bench)] == [(20).to_bytes(8, "big")]
    put(bench, "b", 1, 20 + TTL_MS)
    assert (b"a", None) in [write[:2] for write in bench.commit()]
    bench.close()


@pytest.mark.parametrize("spec", [PLAIN, TABLE], ids=["plain", "table"])
def test_a_record_that_is_rolled_back_leaves_the_index_as_it_was(spec: StoreSpec) -> None:
    bench = StoreBench(spec)
    put(bench, "a", 1, 50)
    bench.commit()
    before = entries(bench)
    for key, time in (("a", 20), ("b", 60)):
        bench.begin_record()
        put(bench, key, 2, time)
        bench.state.encode_pending()
        bench.end_record(rollback=True)
    bench.commit()
    assert entries(bench) == before
    bench.close()


@pytest.mark.parametrize("loads", [False, True], ids=["restored", "loaded"])
@pytest.mark.parametrize("applies", [False, True])
def test_a_replay_leaves_one_entry_for_each_row(loads: bool, applies: bool) -> None:
    state = TaskState([PLAIN], cast(TaskContext, BenchContext()), backend=MemoryBackend())
    writes = [(b"a", 5), (b"b", 6), (b"a", 9), (b"b", None), (b"c", 3), (b"a", 4), (b"b", 8)]
    records = [
        StoredRecord("log", 0, at, key, None if time is None else b"1", time or 7, None)
        for at, (key, time) in enumerate(writes)
    ]
    for at, record in enumerate(records):
        if loads:
            assert state.load("store", [record], at + 1)
        else:
            state.restore("store", logged_fields(PLAIN, [record]), at + 1)
        if applies:
            state.apply()
    state.apply(1)
    rows = state._rows["store"]
    assert isinstance(rows, ExpiringRows)
    found = [entry for entry, _ in rows.index.scan()]
    assert found == sorted(row[:8] + key for key, row in rows.scan())
    assert [int.from_bytes(entry[:8], "big") for entry in found] == [3, 4, 8]
    state.close()


@pytest.mark.parametrize("spec", [PLAIN, TABLE], ids=["plain", "table"])
def test_rows_that_are_taken_and_rolled_back_are_taken_again(spec: StoreSpec) -> None:
    bench = StoreBench(spec)
    take = bench.store.expired_rows()
    put(bench, "b", 1, 0)
    put(bench, "a", 2, 0)
    put(bench, "c", 3, 0)
    put(bench, "c", 4, 60)  # its entry is at its first time
    bench.commit()
    bench.context.see(TTL_MS)

    bench.begin_record()
    first = take(TTL_MS)
    bench.end_record(rollback=True)
    bench.context.see(TTL_MS)

    assert take(TTL_MS) == first == [("a", 2, TTL_MS), ("b", 1, TTL_MS)]
    assert take(TTL_MS) == []
    assert {write.key for write in bench.commit() if write.value is None} == {b"a", b"b"}
    assert take(TTL_MS + 60) == [("c", 4, TTL_MS + 60)]
    assert not entries(bench)
    bench.close()


def test_a_commit_leaves_rows_that_are_taken() -> None:
    bench = StoreBench(PLAIN)
    take = bench.store.expired_rows()
    put(bench, "a", 1, 0)
    bench.context.see(TTL_MS)
    bench.commit()
    assert take(TTL_MS) == [("a", 1, TTL_MS)]
    bench.close()


def test_no_commit_is_due_for_rows_that_are_taken() -> None:
    bench = StoreBench(PLAIN)
    put(bench, "a", 1, 0)
    bench.commit()
    bench.context.see(TTL_MS)
    assert bench.state.expiry.is_due(TTL_MS)
    bench.store.expired_rows()
    assert not bench.state.expiry.is_due(TTL_MS)
    bench.close()


def test_the_entries_that_a_commit_moves_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expiring_rows, "_DELETED_MIN", 2)
    monkeypatch.setattr(expiring_rows, "_DELETED_PER_ROW", 0)
    bench = StoreBench(PLAIN)
    for time in (0, 50):
        for number in range(30):
            put(bench, f"key-{number}", time, time)
        bench.commit()
    put(bench, "old", 1, 50)

    bench.context.see(TTL_MS)
    moved, has_more = [], True
    while has_more:
        has_more = bench.state.expiry.delete(bench.context.stream_time)
        index = bench.state.freeze().layers["store"].index
        assert index is not None
        moved.append(sum(mark is not None for mark in index.rows.values()))

    assert moved[0] == 20 + 1  # ten times two, and that of the new row
    assert sum(moved) == 30 + 1
    bench.close()


def test_the_work_of_a_commit_does_not_depend_on_the_number_of_rows() -> None:
    costs = []
    for rows in (100, 2_000):
        backends: list[CountingBackend] = []

        def counted(backend: StoreBackend, kept: list[CountingBackend] = backends) -> StoreBackend:
            kept.append(CountingBackend(backend))
            return kept[-1]

        bench = StoreBench(PLAIN, watch=counted)
        for number in range(rows):
            put(bench, f"key-{number}", 1, 1_000 + number % 50)
        put(bench, "old", 1, 990)
        bench.commit()
        before = backends[0].work
        put(bench, "new", 1, 990 + TTL_MS)
        bench.commit()
        costs.append(backends[0].work - before)
        bench.close()
    assert costs[0] == costs[1]


def test_a_large_replay_makes_the_index_again(tmp_path: Path) -> None:
    spec = PLAIN
    state = TaskState(
        [spec], cast(TaskContext, BenchContext()), backend=RocksBackend(tmp_path / "db")
    )
    records = [
        StoredRecord("log", 0, at, b"key-%d" % (at % 30_000), b"1", 100 + at, None)
        for at in range(40_000)
    ]
    assert state.load("store", records, len(records))
    state.apply(1)
    state.restored()
    state.expiry.delete(40_000)
    changes = state.freeze()
    assert len(changes.writes["store"]) == 1_000
    assert changes.writes["store"][0][:3] == (b"key-10000", None, 40_000)
    state.close()


def test_a_task_that_starts_knows_whether_rows_wait_to_be_deleted() -> None:
    bench = StoreBench(PLAIN)
    put(bench, "a", 1, 50)
    bench.commit()
    found = {time: bench.restored().state.expiry.is_due(time) for time in (-1, 60, 149, 150)}
    assert found == {-1: False, 60: False, 149: False, 150: True}
    bench.context.see(150)
    bench.commit()
    assert not bench.restored().state.expiry.is_due(150)
    bench.close()


@pytest.mark.parametrize("is_logged", [True, False])
def test_rows_of_the_layout_with_one_time_are_restored_or_refused(is_logged: bool) -> None:
    disk, spec = KeptRows(), spec_of("key_value", ttl_ms=TTL_MS, is_logged=is_logged)
    old = left(spec, disk)
    stored = msgspec.json.decode(old.state.meta.fingerprints["store"])
    old.state.meta.fingerprints["store"] = msgspec.json.encode({**stored, "layout": 2})
    old.state.apply()

    if not is_logged:
        with pytest.raises(UpgradeError, match="layout: stored 2, declared 3"):
            StoreBench(spec, watch=lambda _: disk)
        return
    new = StoreBench(spec, watch=lambda _: disk)
    assert not new.state.positions
    assert not new.rows()
    assert not entries(new)
