"""Rows: a task reads its own writes, and what is not committed never reaches the backend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from logstate.changelog.backend.backend import KeyRange
from logstate.changelog.backend.memory import MemoryBackend
from logstate.changelog.rows.layers import Layer
from logstate.changelog.rows.rows import Rows

PREFIX = b"\x01\x00\x00"


class CountingBackend(MemoryBackend):
    """Counts what is asked of it."""

    def __init__(self) -> None:
        super().__init__()
        self.gets: list[bytes] = []

    def get(self, key: bytes) -> bytes | None:
        self.gets.append(key)
        return super().get(key)


@pytest.fixture
def backend() -> CountingBackend:
    return CountingBackend()


@pytest.fixture
def rows(backend: CountingBackend) -> Rows:
    return Rows(PREFIX, backend)


def commit(rows: Rows) -> Layer:
    layer = rows.freeze()
    rows.committed(layer)
    return layer


def apply(rows: Rows, backend: MemoryBackend) -> None:
    merged: dict[bytes, bytes | None] = {}
    ranges: list[KeyRange] = []
    for layer in rows.unapplied():
        merged.update({PREFIX + key: value for key, value in layer.rows.items()})
        ranges += [(PREFIX + lower, PREFIX + upper) for lower, upper in layer.ranges]
    backend.write(merged, ranges)
    rows.applied()


def put_all(rows: Rows, values: Mapping[bytes, bytes | None]) -> None:
    for key, value in values.items():
        rows.put(key, value)


def stored(backend: MemoryBackend) -> Sequence[tuple[bytes, bytes]]:
    return list(backend.scan(b"", b"\xff"))


# --- reads ----------------------------------------------------------------------------------------


def test_a_task_reads_its_own_writes_and_deletes(rows: Rows) -> None:
    rows.put(b"a", b"1")
    assert rows.get(b"a") == b"1"
    rows.put(b"a", None)
    assert rows.get(b"a") is None


def test_the_newest_layer_wins_over_frozen_over_unapplied_over_the_backend(
    rows: Rows, backend: CountingBackend
) -> None:
    put_all(rows, dict.fromkeys((b"a", b"b", b"c", b"d"), b"backend"))
    commit(rows)
    apply(rows, backend)
    put_all(rows, dict.fromkeys((b"b", b"c", b"d"), b"unapplied"))
    commit(rows)
    put_all(rows, dict.fromkeys((b"c", b"d"), b"frozen"))
    rows.freeze()
    rows.put(b"d", b"current")

    expected = [(b"a", b"backend"), (b"b", b"unapplied"), (b"c", b"frozen"), (b"d", b"current")]
    assert [(key, rows.get(key)) for key, _ in expected] == expected
    assert list(rows.scan()) == expected
    assert list(rows.scan(reverse=True)) == expected[::-1]


def test_a_deleted_row_hides_the_one_in_the_backend(rows: Rows, backend: CountingBackend) -> None:
    rows.put(b"a", b"1")
    commit(rows)
    apply(rows, backend)
    rows.put(b"a", None)
    assert rows.get(b"a") is None
    assert list(rows.scan()) == []


def test_a_row_is_read_from_the_backend_once_whether_it_is_there_or_not(
    rows: Rows, backend: CountingBackend
) -> None:
    backend.write({PREFIX + b"a": b"1"})
    for _ in range(3):
        assert rows.get(b"a") == b"1"
        assert rows.get(b"absent") is None
    assert backend.gets == [PREFIX + b"a", PREFIX + b"absent"]


def test_a_dropped_cache_is_read_again_and_writes_are_not_dropped(
    rows: Rows, backend: CountingBackend
) -> None:
    backend.write({PREFIX + b"a": b"1"})
    rows.get(b"a")
    rows.put(b"b", b"2")
    assert rows.cached_rows() == 2
    rows.drop_cache()
    assert rows.cached_rows() == 1
    assert (rows.get(b"a"), rows.get(b"b")) == (b"1", b"2")
    assert backend.gets == [PREFIX + b"a"] * 2


def test_applied_rows_are_clean_and_read_without_the_backend(
    rows: Rows, backend: CountingBackend
) -> None:
    put_all(rows, {b"a": b"1", b"b": b""})
    commit(rows)
    apply(rows, backend)
    assert (rows.get(b"a"), rows.get(b"b")) == (b"1", b"")
    assert backend.gets == []


@pytest.mark.parametrize("is_cached", [True, False])
def test_a_deleted_row_leaves_the_cache_when_its_deletion_is_applied(
    rows: Rows, backend: CountingBackend, is_cached: bool
) -> None:
    put_all(rows, {b"a": b"1", b"b": b"2"})
    commit(rows)
    apply(rows, backend)
    if not is_cached:
        rows.drop_cache()
    put_all(rows, {b"a": None, b"never there": None})
    commit(rows)
    apply(rows, backend)
    assert rows.cached_rows() == int(is_cached)
    assert (rows.get(b"a"), rows.get(b"b")) == (None, b"2")


def test_rows_that_come_and_go_leave_nothing_in_memory(
    rows: Rows, backend: CountingBackend
) -> None:
    for number in range(1_000):
        key = number.to_bytes(8, "big")
        rows.put(key, b"1")
        commit(rows)
        if number % 5 == 0:
            apply(rows, backend)
        rows.put(key, None)
        commit(rows)
    apply(rows, backend)
    rows.recount()
    assert (rows.cached_rows(), rows.cached_bytes()) == (0, 0)


def test_a_row_that_was_read_as_absent_is_seen_once_it_is_written(
    rows: Rows, backend: CountingBackend
) -> None:
    for is_replayed in (False, True):
        key = b"replayed" if is_replayed else b"written"
        assert rows.get(key) is None
        rows.put(key, b"1")
        layer = rows.freeze()
        layer.is_replayed = is_replayed
        rows.committed(layer)
        apply(rows, backend)
        assert rows.get(key) == b"1"


def test_replayed_rows_are_not_cached(rows: Rows, backend: CountingBackend) -> None:
    put_all(rows, {b"a": b"1"})
    layer = rows.freeze()
    layer.is_replayed = True
    rows.committed(layer)
    apply(rows, backend)
    assert rows.cached_rows() == 0


def test_a_scan_has_a_lower_bound_that_it_includes_and_an_upper_that_it_does_not(
    rows: Rows, backend: CountingBackend
) -> None:
    put_all(rows, {b"a": b"1", b"c": b"3"})
    commit(rows)
    apply(rows, backend)
    put_all(rows, {b"b": b"2", b"d": b"4"})
    assert [key for key, _ in rows.scan(b"b", b"d")] == [b"b", b"c"]
    assert [key for key, _ in rows.scan(b"b", b"d", reverse=True)] == [b"c", b"b"]
    assert [key for key, _ in rows.scan(b"c")] == [b"c", b"d"]


def test_a_scan_stays_within_the_rows_of_its_store(backend: CountingBackend) -> None:
    neighbours = [Rows(bytes([1, 0, number]), backend) for number in range(3)]
    for number, rows in enumerate(neighbours):
        backend.write({rows.prefix + b"\xff": bytes([number])})
    assert [list(rows.scan()) for rows in neighbours] == [
        [(b"\xff", bytes([number]))] for number in range(3)
    ]


def test_a_scan_sees_the_rows_as_of_its_opening(rows: Rows, backend: CountingBackend) -> None:
    put_all(rows, {b"a": b"1", b"b": b"2", b"c": b"3"})
    commit(rows)
    apply(rows, backend)
    scan = rows.scan()
    for key, _ in scan:
        rows.put(key, None)
        rows.put(key + b"+", b"new")
    assert list(rows.scan()) == [(b"a+", b"new"), (b"b+", b"new"), (b"c+", b"new")]


# --- commits --------------------------------------------------------------------------------------


def test_nothing_reaches_the_backend_before_it_is_committed(
    rows: Rows, backend: CountingBackend
) -> None:
    rows.put(b"a", b"frozen")
    rows.freeze()
    rows.put(b"b", b"current")
    apply(rows, backend)
    assert stored(backend) == []
    assert (rows.get(b"a"), rows.get(b"b")) == (b"frozen", b"current")


def test_a_frozen_layer_does_not_change_when_input_goes_on(rows: Rows) -> None:
    rows.put(b"a", b"1")
    layer = rows.freeze()
    put_all(rows, {b"a": b"2", b"b": b"2"})
    assert layer.rows == {b"a": b"1"}


def test_layers_commit_in_the_order_they_were_frozen(rows: Rows) -> None:
    rows.put(b"a", b"1")
    rows.freeze()
    rows.put(b"a", b"2")
    second = rows.freeze()
    with pytest.raises(AssertionError, match="in the order they were frozen"):
        rows.committed(second)


def test_applying_takes_over_committed_layers_only(rows: Rows, backend: CountingBackend) -> None:
    rows.put(b"a", b"1")
    commit(rows)
    rows.put(b"a", b"2")
    commit(rows)
    rows.put(b"a", b"3")
    apply(rows, backend)
    assert stored(backend) == [(PREFIX + b"a", b"2")]
    assert rows.unapplied() == []
    assert rows.get(b"a") == b"3"


def test_a_discard_goes_back_to_the_last_commit_applied_or_not(
    rows: Rows, backend: CountingBackend
) -> None:
    rows.put(b"a", b"applied")
    commit(rows)
    apply(rows, backend)
    rows.put(b"b", b"unapplied")
    commit(rows)
    put_all(rows, {b"a": b"frozen", b"b": None})
    rows.freeze()
    put_all(rows, {b"a": b"current", b"c": b"current"})
    rows.discard()
    assert list(rows.scan()) == [(b"a", b"applied"), (b"b", b"unapplied")]
    assert commit(rows).rows == {}


# --- expiry ---------------------------------------------------------------------------------------


def test_a_deleted_range_takes_its_writes_along_and_keeps_the_rest(
    rows: Rows, backend: CountingBackend
) -> None:
    put_all(rows, {b"a1": b"1", b"b1": b"1"})
    commit(rows)
    apply(rows, backend)
    put_all(rows, {b"a2": b"2", b"b2": b"2"})
    rows.delete_range(b"a", b"b")
    layer = commit(rows)
    assert layer.ranges == [(b"a", b"b")]
    assert layer.rows == {b"b2": b"2"}
    apply(rows, backend)
    assert stored(backend) == [(PREFIX + b"b1", b"1"), (PREFIX + b"b2", b"2")]


def test_expired_rows_do_not_linger_in_the_cache(rows: Rows, backend: CountingBackend) -> None:
    put_all(rows, {b"a": b"1", b"b": b"1"})
    commit(rows)
    apply(rows, backend)
    rows.delete_range(b"a", b"b")
    commit(rows)
    apply(rows, backend)
    assert rows.get(b"a") is None
    assert rows.get(b"b") == b"1"


def test_a_range_deleted_in_vain_comes_back_with_the_discard(
    rows: Rows, backend: CountingBackend
) -> None:
    rows.put(b"a1", b"unapplied")
    commit(rows)
    rows.put(b"a2", b"current")
    rows.delete_range(b"a", b"b")
    rows.discard()
    assert list(rows.scan()) == [(b"a1", b"unapplied")]
    apply(rows, backend)
    assert stored(backend) == [(PREFIX + b"a1", b"unapplied")]


def test_a_committed_range_stays_deleted_over_a_discard(rows: Rows) -> None:
    rows.put(b"a1", b"1")
    commit(rows)
    rows.delete_range(b"a", b"b")
    commit(rows)
    rows.discard()
    assert list(rows.scan()) == []


# --- one record's rollback ------------------------------------------------------------------------


def test_a_rollback_puts_back_what_one_record_wrote(rows: Rows, backend: CountingBackend) -> None:
    put_all(rows, {b"applied": b"0", b"kept": b"0"})
    commit(rows)
    apply(rows, backend)
    rows.put(b"earlier", b"1")
    rows.begin_journal()
    put_all(rows, {b"applied": b"2", b"earlier": None, b"new": b"2"})
    put_all(rows, {b"applied": None, b"earlier": b"3", b"new": b"3"})
    rows.end_journal(rollback=True)
    assert list(rows.scan()) == [(b"applied", b"0"), (b"earlier", b"1"), (b"kept", b"0")]
    assert commit(rows).rows == {b"earlier": b"1"}


def test_a_record_that_succeeds_keeps_its_writes(rows: Rows) -> None:
    rows.begin_journal()
    rows.put(b"a", b"1")
    rows.end_journal(rollback=False)
    rows.begin_journal()
    rows.put(b"a", b"2")
    rows.end_journal(rollback=True)
    assert rows.get(b"a") == b"1"
    assert commit(rows).rows == {b"a": b"1"}


def test_a_rollback_undoes_a_deleted_range(rows: Rows) -> None:
    rows.put(b"a1", b"committed")
    commit(rows)
    rows.put(b"a2", b"current")
    rows.delete_range(b"x", b"y")
    rows.begin_journal()
    rows.put(b"a3", b"undone")
    rows.delete_range(b"a", b"b")
    rows.end_journal(rollback=True)
    assert list(rows.scan()) == [(b"a1", b"committed"), (b"a2", b"current")]
    layer = commit(rows)
    assert layer.ranges == [(b"x", b"y")]
    assert layer.rows == {b"a2": b"current"}


def test_a_rollback_does_not_touch_committed_layers(rows: Rows) -> None:
    rows.put(b"a", b"1")
    layer = rows.freeze()
    rows.begin_journal()
    rows.put(b"a", b"2")
    rows.end_journal(rollback=True)
    assert layer.rows == {b"a": b"1"}
    assert rows.get(b"a") == b"1"
    assert rows.freeze().rows == {}


def test_a_discard_ends_the_journal(rows: Rows) -> None:
    rows.begin_journal()
    rows.put(b"a", b"1")
    rows.discard()
    rows.put(b"b", b"2")
    rows.end_journal(rollback=True)
    assert list(rows.scan()) == [(b"b", b"2")]
