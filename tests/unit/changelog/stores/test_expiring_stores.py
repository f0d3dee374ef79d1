"""Stores with a TTL: expired rows are hidden, and then deleted, a limited number at a time."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings

from logstate.changelog.backend.memory import MemoryBackend
from logstate.changelog.backend.rocks import RocksBackend
from logstate.changelog.rows import expiring_rows
from logstate.changelog.rows.expiring_rows import EXPIRED_HEADERS, ExpiringRows
from logstate.changelog.rows.indexed_rows import IndexedExpiringRows
from logstate.changelog.rows.writes import LoggedWrite
from logstate.changelog.state import TaskState
from logstate.changelog.store_fingerprint import fingerprint, store_changes
from logstate.changelog.stores.kinds import reader_maker
from logstate.contracts.compatibility import Verdict
from logstate.contracts.errors import UpgradeError
from logstate.contracts.processing import TaskContext
from logstate.contracts.stores import StoreSpec, ValueAndTimestamp
from logstate.restore.restore import logged_fields
from logstate.testing.fake.fetched import StoredRecord
from tests.examples_tried import at_most
from tests.unit.changelog.kind_under_test import INDEXES, indexed_entries_of, spec_of
from tests.unit.changelog.store_bench import MEDIA, BenchContext, StoreBench, open_state
from tests.unit.changelog.store_kinds import KINDS, RETENTION_MS, Input, KindUnderTest
from tests.unit.changelog.stores.test_every_kind_of_store import STEPS, Bout

TTL_MS = RETENTION_MS
EXPIRING = [kind for kind in KINDS if kind.spec.ttl_ms is not None]
PLAIN = spec_of("key_value", ttl_ms=TTL_MS)
TABLE = spec_of("timestamped_key_value", ttl_ms=TTL_MS)


def put(bench: StoreBench, key: str, value: int | None, time: int) -> None:
    """Process a record that puts a row."""
    bench.context.see(time)
    bench.context.timestamp = time
    if bench.spec.kind == "key_value" or value is None:
        bench.store.put(key, value)
    else:
        bench.store.put(key, ValueAndTimestamp(value, time))


def entries(bench: StoreBench) -> list[bytes]:
    """The entries of the index, as they lie."""
    bench.state.apply()
    rows = bench.state._rows["store"]
    assert isinstance(rows, ExpiringRows)
    return [entry for entry, _ in rows.index.scan()]


@pytest.fixture
def one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit looks at one entry of the index: most rows that have expired are still there."""
    monkeypatch.setattr(expiring_rows, "_DELETED_MIN", 1)
    monkeypatch.setattr(expiring_rows, "_DELETED_PER_ROW", 0)


@pytest.mark.usefixtures("one_at_a_time")
@pytest.mark.parametrize("medium", MEDIA)
@pytest.mark.parametrize("kind", EXPIRING, ids=lambda kind: kind.name.replace(" ", "-"))
@settings(max_examples=at_most(50))
@given(steps=STEPS)
def test_a_row_that_has_expired_is_never_shown_before_it_is_deleted(
    kind: KindUnderTest, medium: str, steps: list[tuple[Any, ...]]
) -> None:
    if medium == "memory":
        Bout(kind, None, logs_every=False).run(steps)
        return
    with tempfile.TemporaryDirectory() as directory:
        Bout(kind, Path(directory) / "db", logs_every=False).run(steps)


class Followed:
    """A task that commits, and a standby that reads its changelog."""

    def __init__(self, kind: KindUnderTest) -> None:
        self.kind = kind
        self.log: list[LoggedWrite] = []
        self.owner, self.context = self._opened()
        self.standby, _ = self._opened()
        self.reader = reader_maker(kind.spec, "app")

    def _opened(self) -> tuple[TaskState, BenchContext]:
        context = BenchContext()
        state = TaskState([self.kind.spec], cast(TaskContext, context), backend=MemoryBackend())
        state.cells = context.cells
        state.apply()
        return state, context

    def process(self, one: Input) -> None:
        self.context.timestamp = one.time
        self.kind.process(self.owner.stores["store"], one, self.context)

    def commit(self) -> None:
        self.owner.expiry.delete(self.context.stream_time)
        changes = self.owner.freeze()
        self.log += map(LoggedWrite._make, changes.writes["store"])
        self.owner.committed(changes, {"store": len(self.log)})

    def follow(self, *, loads: bool) -> None:
        state = self.standby
        begin = state.positions.get("store", 0)
        records = [
            StoredRecord("log", 0, begin + at, w.key, w.value, w.timestamp or -1, w.headers)
            for at, w in enumerate(self.log[begin:])
        ]
        if records and not (loads and state.load("store", records, len(self.log))):
            state.restore("store", logged_fields(self.kind.spec, records), len(self.log))
        state.apply(1)
        state.followed()

    def found(self, state: TaskState) -> Any:
        reader = self.reader(state.view.rows["store"], state.view.clocks)
        return self.kind.answers(reader, 0)


@pytest.mark.usefixtures("one_at_a_time")
@pytest.mark.parametrize("loads", [False, True], ids=["restored", "loaded"])
@pytest.mark.parametrize("kind", EXPIRING, ids=lambda kind: kind.name.replace(" ", "-"))
@settings(max_examples=at_most(50))
@given(steps=STEPS)
def test_a_standby_hides_the_rows_that_its_owner_hides(
    kind: KindUnderTest, loads: bool, steps: list[tuple[Any, ...]]
) -> None:
    followed = Followed(kind)
    now = 0
    for what, key, value, advance, delay, choice in steps:
        now += advance
        followed.process(Input(key, value, max(0, now - delay), choice))
        if what.startswith("commit"):
            followed.commit()
            followed.follow(loads=loads)
            task = kind.answers(followed.owner.stores["store"], 0)
            assert followed.found(followed.owner) == task
            assert followed.found(followed.standby) == task
    followed.owner.close()
    followed.standby.close()


@pytest.mark.parametrize("spec", [PLAIN, TABLE], ids=["plain", "table"])
def test_a_commit_writes_a_tombstone_for_a_row_that_has_expired(spec: StoreSpec) -> None:
    bench = StoreBench(spec)
    put(bench, "a", 1, 0)
    put(bench, "b", 2, 50)
    bench.commit()
    put(bench, "b", 3, TTL_MS)

    tombstone, update = sorted(bench.commit(), key=lambda write: write.value is not None)

    assert tombstone == (b"a", None, TTL_MS, EXPIRED_HEADERS)
    assert (update.key, update.timestamp) == (b"b", TTL_MS)
    assert [key for key, _ in bench.rows()] == [b"b"]
    assert len(entries(bench)) == 1
    bench.close()


@pytest.mark.parametrize("spec", [PLAIN, TABLE], ids=["plain", "table"])
@pytest.mark.parametrize("commits_between", [False, True])
def test_a_late_write_does_not_restore_a_row_that_was_removed(
    spec: StoreSpec, commits_between: bool
) -> None:
    bench = StoreBench(spec)
    put(bench, "a", 1, 100)
    bench.commit()
    put(bench, "b", 1, 100 + TTL_MS)  # "a" has expired
    if commits_between:
        bench.commit()

    put(bench, "a", 2, 99)
    put(bench, "a", 3, 100)

    assert bench.store.get("a") is None
    assert bench.context.dropped["expired"] == 2
    bench.commit()
    assert bench.log[-1].value is None or bench.log[-1].key == b"b"
    assert bench.restored().store.get("a") is None
    bench.close()


def test_a_late_write_leaves_a_row_that_is_newer() -> None:
    bench = StoreBench(PLAIN)
    put(bench, "a", 1, 1_000)
    put(bench, "a", 2, 1_000 - TTL_MS)
    assert bench.store.get("a") == 1
    put(bench, "a", 3, 1_000 - TTL_MS + 1)  # late, but not expired: as in a store without TTL
    assert bench.store.get("a") == 3
    bench.close()


def test_a_commit_deletes_a_limited_number_and_says_that_there_are_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(expiring_rows, "_DELETED_MIN", 10)
    bench = StoreBench(PLAIN)
    for number in range(25):
        put(bench, f"key-{number}", 1, number % 5)
    bench.commit()
    bench.context.see(1_000)

    deleted, has_more = [], True
    while has_more:
        has_more = bench.state.expiry.delete(bench.context.stream_time)
        assert not list(bench.store.all())
        changes = bench.state.freeze()
        deleted.append(len(changes.writes["store"]))
        bench.state.committed(changes, {})

    assert deleted == [10, 10, 5]
    assert not bench.rows()
    assert not entries(bench)
    bench.close()


@pytest.mark.parametrize("spec", [PLAIN, TABLE], ids=["plain", "table"])
@pytest.mark.parametrize("is_applied", [False, True])
def test_the_entries_of_an_index_go_with_the_row_that_expires(
    spec: StoreSpec, is_applied: bool
) -> None:
    bench = StoreBench(replace(spec, indexes=INDEXES))
    put(bench, "a", 1, 0)
    put(bench, "b", 3, 0)  # not in the index "odd"
    put(bench, "c", 1, 50)
    bench.commit()
    if is_applied:
        bench.state.apply()
    bench.context.see(TTL_MS)
    assert [key for key, _ in bench.store.by("odd", 1)] == ["c"]
    put(bench, "b", 5, TTL_MS)  # over a row that has expired and is not deleted yet

    bench.commit()

    indexed_entries_of(bench.store, 0)
    bench.state.apply()
    rows = cast(IndexedExpiringRows, bench.state._rows["store"])
    assert len(list(rows.entries.scan())) == 4  # two rows in two indexes
    bench.close()


def test_a_row_that_is_put_again_after_a_commit_deleted_it_is_in_the_index() -> None:
    bench = StoreBench(replace(TABLE, indexes=INDEXES))
    put(bench, "a", 1, 0)
    bench.commit()
    bench.context.see(TTL_MS)
    bench.commit()
    put(bench, "a", 1, TTL_MS)
    assert [key for key, _ in bench.store.by("odd", 1)] == ["a"]
    bench.close()


# --- declarations that change -------------------------------------------------------------------


def left(spec: StoreSpec, backend: MemoryBackend) -> StoreBench:
    """A store with two rows, closed."""
    bench = StoreBench(spec, watch=lambda _: backend)
    put(bench, "a", 1, 100)
    put(bench, "b", 2, 150)
    bench.commit()
    return bench


class KeptRows(MemoryBackend):
    """Rows that survive their state."""

    def close(self) -> None:
        """Nothing is lost."""


WITHOUT = [replace(spec, ttl_ms=None) for spec in (PLAIN, TABLE)]


@pytest.mark.parametrize("before", WITHOUT, ids=["plain", "table"])
@pytest.mark.parametrize("is_switched_on", [True, False])
def test_a_ttl_is_switched_on_and_off_for_a_store_with_rows(
    before: StoreSpec, is_switched_on: bool
) -> None:
    disk, after = KeptRows(), replace(before, ttl_ms=TTL_MS)
    if not is_switched_on:
        before, after = after, before
    old = left(before, disk)

    new = StoreBench(after, watch=lambda _: disk)
    assert not new.state.positions  # the rows come from the changelog, with their times
    new.log = old.log
    new.state.restore("store", new.log, len(new.log))
    new.context.see(200)
    shown = [key for key, _ in new.store.all()]
    new.commit()

    assert shown == (["b"] if is_switched_on else ["a", "b"])
    assert [key.decode() for key, _ in new.rows()] == shown
    index = list(disk.scan(b"\x02", b"\x03"))
    assert len(index) == is_switched_on


@pytest.mark.parametrize("spec", [PLAIN, TABLE], ids=["plain", "table"])
@pytest.mark.parametrize(("ttl_ms", "shown"), [(60, ["b"]), (1_000, ["a", "b"])])
def test_another_ttl_uses_the_local_rows_as_they_are(
    spec: StoreSpec, ttl_ms: int, shown: list[str]
) -> None:
    disk = KeptRows()
    old = left(spec, disk)
    bench = StoreBench(replace(spec, ttl_ms=ttl_ms), watch=lambda _: disk)
    assert bench.state.positions == {"store": 2}
    bench.log = old.log
    bench.context.see(165)
    assert [key for key, _ in bench.store.all()] == shown
    bench.commit()
    assert [key.decode() for key, _ in bench.rows()] == shown


@pytest.mark.parametrize(("before", "after"), [(None, 5), (5, None), (5, 7), (7, 5)])
def test_every_change_of_a_ttl_is_compatible(before: int | None, after: int | None) -> None:
    sides = [fingerprint(replace(PLAIN, ttl_ms=ttl_ms)) for ttl_ms in (before, after)]
    changes = store_changes("seen", *sides)
    assert {change.verdict for change in changes} == {Verdict.COMPATIBLE}
    assert "ttl_ms" in {change.part for change in changes}
    assert ("layout" in {change.part for change in changes}) is (None in (before, after))


def test_the_fingerprint_of_a_store_without_a_ttl_does_not_mention_it() -> None:
    assert "ttl_ms" not in fingerprint(replace(PLAIN, ttl_ms=None))


def test_a_ttl_is_refused_for_rows_without_times_that_exist_nowhere_else() -> None:
    disk = KeptRows()
    left(spec_of("key_value", is_logged=False), disk)
    with pytest.raises(UpgradeError, match="ttl"):
        StoreBench(spec_of("key_value", is_logged=False, ttl_ms=TTL_MS), watch=lambda _: disk)


def test_rows_without_a_changelog_expire_in_the_commit_that_prepares_them(tmp_path: Path) -> None:
    spec = spec_of("key_value", is_logged=False, ttl_ms=TTL_MS)

    def opened() -> tuple[TaskState, BenchContext]:
        context = BenchContext()
        backend = RocksBackend(tmp_path / "db")
        return open_state(spec, context, backend, False), context

    state, context = opened()
    for time, key in ((0, "a"), (50, "b")):
        context.see(time)
        context.timestamp = time
        store: Any = state.stores["store"]
        store.put(key, 1)
        state.expiry.delete(time)
        changes = state.freeze()
        state.prepare(changes, "member")
        state.committed(changes, {})
    state.close()  # before the rows of the second commit were applied

    state, context = opened()
    assert not state.local.lost({"store": 2}, "member")
    context.see(TTL_MS)
    state.expiry.delete(TTL_MS)
    state.committed(state.freeze(), {})
    state.apply()
    assert [key for key, _ in state._rows["store"].scan()] == [b"b"]
    state.close()
