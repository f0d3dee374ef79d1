"""What the rows tell a mirror: when to write what it holds back, and when to forget it."""

from __future__ import annotations

import pytest

from logstate.changelog.backend.memory import MemoryBackend
from logstate.changelog.rows.rows import RowCache, Rows, drop_some


class Mirror(RowCache):
    """Holds one pending row and records what the rows tell it."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.pending: dict[bytes, bytes] = {}
        self.told: list[str] = []

    def __len__(self) -> int:
        return 100 + len(self.pending)

    def flush(self) -> None:
        self.told.append("flush")
        pending, self.pending = self.pending, {}
        for key, value in pending.items():
            self.rows.put(key, value)

    def expire(self) -> None:
        self.told.append("expire")
        self.pending.clear()

    def forget(self) -> None:
        self.told.append("forget")
        self.pending.clear()

    def forget_known(self) -> None:
        self.told.append("forget_known")

    def release(self, count: int) -> int:
        return drop_some(self.pending, count)


@pytest.fixture
def rows() -> Rows:
    return Rows(b"\x01\x00\x00", MemoryBackend())


@pytest.fixture
def mirror(rows: Rows) -> Mirror:
    made = Mirror(rows)
    rows.mirror(made)
    return made


def test_what_a_mirror_holds_back_is_written_before_a_scan_and_a_freeze(
    rows: Rows, mirror: Mirror
) -> None:
    mirror.pending[b"a"] = b"1"
    assert list(rows.scan()) == [(b"a", b"1")]
    mirror.pending[b"a"] = b"2"
    assert rows.freeze().rows == {b"a": b"2"}


def test_what_a_mirror_holds_back_belongs_to_records_before_the_journal(
    rows: Rows, mirror: Mirror
) -> None:
    mirror.pending[b"a"] = b"1"
    rows.begin_journal()
    mirror.pending[b"a"] = b"2"
    rows.end_journal(rollback=True)
    assert rows.get(b"a") == b"1"
    assert mirror.pending == {}


def test_a_mirror_forgets_with_a_discard_and_is_told_of_expiry_and_dropped_caches(
    rows: Rows, mirror: Mirror
) -> None:
    rows.delete_range(b"a", b"b")
    assert mirror.told == ["expire"]
    rows.drop_cache()
    assert mirror.told == ["expire", "forget_known"]
    rows.discard()
    assert mirror.told == ["expire", "forget_known", "forget"]


def test_what_a_mirror_holds_counts_as_cached(rows: Rows, mirror: Mirror) -> None:
    mirror.pending[b"a"] = b"1"
    assert rows.cached_rows() == 101


def test_what_will_be_discarded_is_let_go_of_in_parts(rows: Rows, mirror: Mirror) -> None:
    for number in range(10):
        rows.put(b"%d" % number, b"1")
    rows.committed(rows.freeze())
    rows.applied()
    mirror.pending = {b"a": b"2", b"b": b"2"}
    assert rows.cached_rows() == 112
    assert rows.release(3) == 3
    assert mirror.pending == {}
    assert rows.cached_rows() == 109
    assert rows.release(100) == 9
    assert rows.release(100) == 0
