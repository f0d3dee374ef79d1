"""Where a store's replay starts, and the five reasons to give local rows up."""

from __future__ import annotations

import pytest

from logstate.changelog.stored_meta import StoredMeta
from logstate.contracts.errors import RestoreError, StoreCorruptedError
from logstate.contracts.records import TopicPartition
from logstate.restore.missing_records import LogRange, Needed
from logstate.restore.restore_plan import (
    TOMBSTONE_LIFETIME_MS,
    check_replay,
    first_offset,
)

CHANGELOG = TopicPartition("app-counts-changelog", 1)
LOG = LogRange(100, 200)
NOW = 1_700_000_000_000
#: of a changelog whose rows never expire
ALL = Needed(0, 200)
HALF_A_DAY = TOMBSTONE_LIFETIME_MS // 2


def first(
    position: int | None,
    *,
    log: LogRange = LOG,
    known_id: str | None = "id-1",
    topic_id: str | None = "id-1",
    caught_up_at_ms: int = NOW,
    needed: Needed = ALL,
    begin: int = 0,
) -> int:
    ids = {"counts": known_id} if known_id is not None else {}
    begins = {"counts": begin}
    meta = StoredMeta(topic_ids=ids, caught_up_at_ms=caught_up_at_ms, begins=begins)
    return first_offset(
        "counts",
        CHANGELOG,
        position,
        log,
        meta=meta,
        topic_id=topic_id,
        now_ms=NOW,
        needed=needed,
    )


def test_a_store_without_rows_is_read_from_the_start_of_the_log() -> None:
    assert first(None) == 100
    assert first(None, known_id="another", caught_up_at_ms=1) == 100


@pytest.mark.parametrize("position", [100, 150, 200])
def test_local_rows_are_kept_and_the_replay_goes_on_from_their_position(position: int) -> None:
    assert first(position) == position


def test_rows_of_another_incarnation_of_the_topic_are_given_up() -> None:
    with pytest.raises(
        StoreCorruptedError,
        match=r"'counts'.*another incarnation of 'app-counts-changelog' \(topic id id-1, now id-2",
    ):
        first(150, topic_id="id-2")


@pytest.mark.parametrize(("known", "now"), [(None, "id-2"), ("id-1", None), (None, None)])
def test_an_unknown_topic_id_is_no_reason(known: str | None, now: str | None) -> None:
    assert first(150, known_id=known, topic_id=now) == 150


def test_rows_beyond_the_end_of_the_log_are_given_up() -> None:
    with pytest.raises(
        StoreCorruptedError, match="at offset 201 of app-counts-changelog-1, beyond its end 200"
    ):
        first(201)


def test_rows_below_the_start_of_the_log_are_given_up() -> None:
    match = r"at offset 99 of .* starts at offset 100, and committed state needs .* offset 99 on"
    with pytest.raises(StoreCorruptedError, match=match):
        first(99)


def test_rows_that_cover_the_committed_position_are_kept_whatever_the_log_lost() -> None:
    """Behind it are markers, and records of transactions that were not committed."""
    for log in (LogRange(201, 201), LogRange(230, 230), LogRange(150, 201)):
        assert first(200, log=log) == max(200, log.start)
        assert first(200, log=log, caught_up_at_ms=1) == max(200, log.start)


def test_rows_that_were_built_from_a_log_without_its_beginning_are_given_up() -> None:
    match = r"built from its records from offset 40 on, and committed state needs .* offset 0 on"
    with pytest.raises(StoreCorruptedError, match=match):
        first(150, begin=40)
    assert first(150, begin=40, needed=Needed(40, 200)) == 150, "the loss was accepted"


def test_rows_that_missed_tombstones_that_may_be_gone_are_given_up() -> None:
    assert first(150, caught_up_at_ms=NOW - HALF_A_DAY) == 150
    with pytest.raises(StoreCorruptedError, match="720 minutes ago, which keeps deletions for 14"):
        first(150, caught_up_at_ms=NOW - HALF_A_DAY - 1)


def test_rows_whose_age_a_wrong_clock_told_are_given_up() -> None:
    """A clock that was in the year 2050 once made them young until then, whatever they missed."""
    a_tenth = 2 * HALF_A_DAY // 10
    assert first(150, caught_up_at_ms=NOW + a_tenth) == 150
    with pytest.raises(StoreCorruptedError, match=r"144 minutes from now: the clock was wrong"):
        first(150, caught_up_at_ms=NOW + a_tenth + 1)
    assert first(200, caught_up_at_ms=NOW + 1000 * HALF_A_DAY) == 200
    assert first(150, caught_up_at_ms=0) == 150


@pytest.mark.parametrize("log", [LOG, LogRange(200, 200)], ids=["a tail", "nothing"])
def test_windows_below_a_trimmed_log_are_given_up_if_they_may_have_missed_deletions(
    log: LogRange,
) -> None:
    """Their owner trims what has expired; compaction takes deletions of live windows as well."""
    a_tenth = 2 * HALF_A_DAY // 10
    needed = Needed(log.start, 200)
    assert first(99, log=log, needed=needed) == log.start
    assert first(99, log=log, needed=needed, caught_up_at_ms=NOW - HALF_A_DAY) == log.start
    with pytest.raises(StoreCorruptedError, match="720 minutes ago"):
        first(99, log=log, needed=needed, caught_up_at_ms=NOW - HALF_A_DAY - 1)
    with pytest.raises(StoreCorruptedError, match="144 minutes from now"):
        first(99, log=log, needed=needed, caught_up_at_ms=NOW + a_tenth + 1)


def test_however_old_rows_at_the_end_of_the_log_missed_nothing() -> None:
    assert first(200, caught_up_at_ms=1) == 200


def test_rows_that_never_said_when_they_were_at_the_end_are_kept() -> None:
    assert first(150, caught_up_at_ms=0) == 150


def test_the_lifetime_of_tombstones_is_the_topics() -> None:
    def with_lifetime(lifetime_ms: int) -> int:
        return first_offset(
            "counts",
            CHANGELOG,
            150,
            LOG,
            meta=StoredMeta(caught_up_at_ms=NOW - 60_001),
            topic_id=None,
            now_ms=NOW,
            needed=ALL,
            tombstone_lifetime_ms=lifetime_ms,
        )

    assert with_lifetime(120_002) == 150
    with pytest.raises(StoreCorruptedError):
        with_lifetime(120_000)


def test_a_log_whose_expired_windows_were_deleted_has_no_row_missing() -> None:
    meta = StoredMeta(caught_up_at_ms=NOW)
    needed = Needed(100, 200)
    start = first_offset(
        "counts", CHANGELOG, 99, LOG, meta=meta, topic_id=None, now_ms=NOW, needed=needed
    )
    assert start == 100


def replayed(took_ms: int, *, is_whole: bool, lifetime_ms: int = 600_000) -> None:
    check_replay(
        "counts",
        CHANGELOG,
        since_ms=NOW - took_ms,
        now_ms=NOW,
        is_whole=is_whole,
        tombstone_lifetime_ms=lifetime_ms,
    )


@pytest.mark.parametrize("is_whole", [False, True])
def test_a_replay_within_nine_tenths_of_the_tombstones_lifetime_has_seen_all(
    is_whole: bool,
) -> None:
    replayed(540_000, is_whole=is_whole)


def test_a_slower_replay_of_a_tail_asks_for_a_rebuild() -> None:
    with pytest.raises(
        StoreCorruptedError, match=r"9 minutes, and the topic keeps deletions for 10"
    ):
        replayed(540_001, is_whole=False)


def test_a_replay_of_the_whole_log_has_a_minute_where_tombstones_have_less() -> None:
    replayed(60_000, is_whole=True, lifetime_ms=0)
    with pytest.raises(RestoreError, match="deleted rows would come back"):
        replayed(60_001, is_whole=True, lifetime_ms=0)


def test_a_replay_of_the_whole_log_that_is_too_slow_stops_the_application() -> None:
    with pytest.raises(RestoreError, match=r"deleted rows would come back.*delete\.retention\.ms"):
        replayed(540_001, is_whole=True)
