"""Stores with a TTL by the wall clock, and declarations that change the clock."""

from __future__ import annotations

from dataclasses import replace

from logstate.changelog.commit_of_task import clock_of_store
from logstate.changelog.store_fingerprint import fingerprint, keeps_local_rows, store_changes
from logstate.contracts.compatibility import Verdict
from tests.unit.changelog.store_bench import StoreBench
from tests.unit.changelog.stores.test_expiring_stores import PLAIN, TTL_MS, KeptRows, put

BY_WALL_CLOCK = replace(PLAIN, ttl_by="wall_clock")
#: far ahead of the times of records
NOW_MS = 1_000_000


def test_by_stream_time_from_now_on_rows_keep_the_times_of_the_wall_clock() -> None:
    disk = KeptRows()
    old = StoreBench(BY_WALL_CLOCK, watch=lambda _: disk)
    old.context.set_wall_clock_ms = NOW_MS - TTL_MS
    put(old, "a", 1, 100)
    old.commit()
    old.context.set_wall_clock_ms = NOW_MS
    put(old, "b", 2, 150)
    old.commit()
    assert [write.value for write in old.log if write.key == b"a"][-1] is None

    new = StoreBench(PLAIN, watch=lambda _: disk)
    assert not new.state.positions  # the rows come from the changelog
    new.log = old.log
    new.state.set_clocks({name: cell.time for name, cell in old.context.cells.items()})
    new.state.restore("store", new.log, len(new.log))
    new.state.followed()  # a standby does not learn the wall clock as its stream time
    put(new, "c", 3, 160)
    new.commit()
    assert [key for key, _ in new.store.all()] == ["b", "c"]
    new.context.see(160 + TTL_MS)
    assert [key for key, _ in new.store.all()] == ["b"]
    new.context.see(NOW_MS + TTL_MS)
    assert not list(new.store.all())


def test_by_the_wall_clock_from_now_on_rows_keep_the_times_of_their_records() -> None:
    disk = KeptRows()
    old = StoreBench(PLAIN, watch=lambda _: disk)
    put(old, "a", 1, NOW_MS - 1)
    put(old, "b", 2, NOW_MS + TTL_MS)  # ahead of the wall clock
    old.commit()

    new = StoreBench(BY_WALL_CLOCK, watch=lambda _: disk)
    new.context.set_wall_clock_ms = NOW_MS
    new.state.set_clocks({name: cell.time for name, cell in old.context.cells.items()})
    new.state.restore("store", old.log, len(old.log))
    new.state.followed()
    assert [key for key, _ in new.store.all()] == ["b"]  # "a" was deleted by stream time
    put(new, "c", 3, 0)
    assert new.state.expiry.is_due(0) is False
    new.context.set_wall_clock_ms = NOW_MS + TTL_MS
    assert [key for key, _ in new.store.all()] == ["b"]
    new.context.set_wall_clock_ms = NOW_MS + 2 * TTL_MS
    assert not list(new.store.all())


def test_an_idle_task_looks_for_rows_that_expired_about_once_a_second() -> None:
    bench = StoreBench(BY_WALL_CLOCK)
    bench.context.set_wall_clock_ms = NOW_MS
    put(bench, "a", 1, 0)
    bench.commit()
    expiry = bench.state.expiry
    assert not expiry.is_due_while_idle(0, NOW_MS)
    bench.context.set_wall_clock_ms = NOW_MS + TTL_MS
    assert not expiry.is_due_while_idle(0, NOW_MS + TTL_MS)
    bench.context.set_wall_clock_ms = NOW_MS + 1_000
    assert expiry.is_due_while_idle(0, NOW_MS + 1_000)
    assert not expiry.is_due_while_idle(0, NOW_MS + 1_001)
    assert StoreBench(PLAIN).state.expiry.is_due_while_idle(NOW_MS, NOW_MS) is False


def test_another_clock_is_a_compatible_change_that_rebuilds_the_local_rows() -> None:
    sides = [fingerprint(spec) for spec in (PLAIN, BY_WALL_CLOCK)]
    for before, after in (sides, sides[::-1]):
        (change,) = store_changes("seen", before, after)
        assert (change.verdict, change.part) == (Verdict.COMPATIBLE, "ttl_by")
        assert not keeps_local_rows([change])
    assert "ttl_by" not in sides[0]


def test_readers_take_the_clock_by_which_rows_expire() -> None:
    clocks = {"store:seen": 5, "wall_clock:seen": 7, "task:stream_time": 6}
    entry = {"name": "seen", "ttl_ms": 10}
    assert clock_of_store(entry, clocks) == 5
    assert clock_of_store({**entry, "ttl_by": "wall_clock"}, clocks) == 7
    assert clock_of_store({**entry, "ttl_by": "wall_clock"}, {"task:stream_time": 6}) is None
