"""What a store says to its changelog: once per commit, or every write."""

from __future__ import annotations

from logstate.changelog.rows.writes import ChangelogWrites, LoggedWrite


def write(key: bytes, value: bytes | None, timestamp: int = 0) -> LoggedWrite:
    return LoggedWrite(key, value, timestamp)


def once() -> ChangelogWrites:
    return ChangelogWrites(is_logged=True, logs_every_write=False)


def every() -> ChangelogWrites:
    return ChangelogWrites(is_logged=True, logs_every_write=True)


def test_a_row_is_logged_once_per_commit_with_its_last_write() -> None:
    writes = once()
    for i in range(1_000):
        writes.add(b"a", LoggedWrite(b"a", b"%d" % i, i, [("h", b"%d" % i)]))
    assert writes.take() == [LoggedWrite(b"a", b"999", 999, [("h", b"999")])]


def test_a_deletion_is_a_write_like_any_other() -> None:
    writes = once()
    writes.add(b"a", write(b"a", b"1"))
    writes.add(b"a", write(b"a", None, 7))
    assert writes.take() == [write(b"a", None, 7)]


def test_a_row_keeps_the_place_of_its_first_write() -> None:
    writes = once()
    for key, value in ((b"a", b"1"), (b"b", b"1"), (b"a", b"2")):
        writes.add(key, write(key, value))
    assert [w.key for w in writes.take()] == [b"a", b"b"]


def test_versions_keep_the_order_of_their_last_writes() -> None:
    writes = once()
    for key, value in ((b"a", b"1"), (b"b", b"1"), (b"a", b"2")):
        writes.add(key, write(key, value), moves_to_end=True)
    assert writes.take() == [write(b"b", b"1"), write(b"a", b"2")]


def test_what_a_row_is_says_the_store_not_the_key_of_the_record() -> None:
    writes = once()
    for valid_from in (5, 9, 5):
        writes.add(b"a@%d" % valid_from, write(b"a", b"v", valid_from))
    assert [w.timestamp for w in writes.take()] == [5, 9]


def test_every_write_is_logged_in_order_where_that_is_asked_for() -> None:
    writes = every()
    expected = [write(key, value) for key, value in ((b"a", b"1"), (b"b", b"1"), (b"a", b"2"))]
    for each in expected:
        writes.add(each.key, each)
    assert writes.take() == expected


def test_suppress_buffers_log_once_per_commit_even_then() -> None:
    writes = every()
    writes.add(b"b", write(b"b", b"1"), once_per_commit=True)
    writes.add(b"a", write(b"a", b"1"))
    writes.add(b"b", write(b"b", b"2"), once_per_commit=True)
    assert writes.take() == [write(b"a", b"1"), write(b"b", b"2")]


def test_taking_starts_the_next_commit() -> None:
    for writes in (once(), every()):
        writes.add(b"a", write(b"a", b"1"))
        assert len(writes.take()) == 1
        assert writes.take() == []
        writes.add(b"a", write(b"a", b"2"))
        assert writes.take() == [write(b"a", b"2")]


def test_a_store_that_is_not_logged_says_nothing() -> None:
    for logs_every_write in (True, False):
        writes = ChangelogWrites(is_logged=False, logs_every_write=logs_every_write)
        writes.add(b"a", write(b"a", b"1"))
        assert writes.take() == []


def test_a_rollback_restores_the_writes_of_earlier_records() -> None:
    writes = once()
    writes.add(b"a", write(b"a", b"1"))
    writes.begin_journal()
    writes.add(b"a", write(b"a", b"2"))
    writes.add(b"b", write(b"b", b"2"))
    writes.add(b"a", write(b"a", b"3"))
    writes.end_journal(rollback=True)
    assert writes.take() == [write(b"a", b"1")]


def test_a_rollback_restores_the_order_of_versions() -> None:
    writes = once()
    for key in (b"a", b"b", b"c"):
        writes.add(key, write(key, b"1"), moves_to_end=True)
    writes.begin_journal()
    writes.add(b"a", write(b"a", b"2"), moves_to_end=True)
    writes.end_journal(rollback=True)
    assert writes.take() == [write(b"a", b"1"), write(b"b", b"1"), write(b"c", b"1")]


def test_a_rollback_cuts_off_what_was_logged_write_by_write() -> None:
    writes = every()
    writes.add(b"a", write(b"a", b"1"))
    writes.begin_journal()
    writes.add(b"a", write(b"a", b"2"))
    writes.end_journal(rollback=True)
    writes.begin_journal()
    writes.add(b"a", write(b"a", b"3"))
    writes.end_journal(rollback=False)
    assert writes.take() == [write(b"a", b"1"), write(b"a", b"3")]
