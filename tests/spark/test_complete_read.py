"""A read at a cut is complete or refused, whatever the log cleaner does before and meanwhile.

The log and its cleaner are in memory: segments, passes from the beginning that keep the newest
record of each key they know, tombstones that expire, aborted records, and markers. Passes go on
between any two batches of a read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple

import pytest

from logstate.changelog.reading import complete_read
from logstate.changelog.reading.complete_read import CompleteRead, CutPartition
from logstate.changelog.reading.latest_records import LatestRecords
from logstate.changelog.reading.tables import StoreTable
from logstate.contracts.errors import RestoreError
from logstate.contracts.records import TopicPartition

TABLE = StoreTable({"kind": "key_value", "key": {"format": "string"}, "value": None})
KEPT_MS = 86_400_000
NOW_MS = 1_000_000_000


@dataclass
class Record:
    at: int
    name: str
    data: bytes | None
    time_ms: int
    is_aborted: bool = False
    is_marker: bool = False
    passes: int = 0
    """How many passes have kept it, of a tombstone."""

    def offset(self) -> int:
        return self.at

    def key(self) -> bytes:
        return self.name.encode()

    def value(self) -> bytes | None:
        return self.data

    def timestamp(self) -> tuple[int, int]:
        return 1, self.time_ms

    def headers(self) -> None:
        return None


class Cleaner(NamedTuple):
    tombstones_kept_ms: int
    segment_ms: int


class Limits(NamedTuple):
    stable_end: int
    end: int


@dataclass
class CleanedLog:
    """A partition with a cleaner. ``meanwhile`` runs between two batches of any read."""

    left: list[Record] = field(default_factory=list)
    end: int = 0
    tombstones_kept: int = KEPT_MS
    segment_ms: int = KEPT_MS
    expires_tombstones: bool = False
    meanwhile: Callable[[], None] = lambda: None
    batch: int = 3

    def write(self, key: str, value: bytes | None, *, aborted: bool = False) -> None:
        time_ms = NOW_MS - 100_000 + 10 * self.end
        self.left.append(Record(self.end, key, value, time_ms, is_aborted=aborted))
        self.end += 1

    def mark(self) -> int:
        """End a transaction; the position before its marker."""
        self.left.append(
            Record(self.end, "", None, NOW_MS - 100_000 + 10 * self.end, is_marker=True)
        )
        self.end += 1
        return self.end - 1

    def clean(self, known: int, upto: int) -> None:
        """A pass that knows the records below ``known`` and has come to ``upto``."""
        newest: dict[str, int] = {}
        for one in self.left:
            if one.at < known and not one.is_aborted and not one.is_marker:
                newest[one.name] = one.at
        kept = []
        for one in self.left:
            if one.at < min(known, upto) and not one.is_marker:
                if one.is_aborted or newest.get(one.name, one.at) > one.at:
                    continue
                if one.data is None:
                    one.passes += 1
                    if self.expires_tombstones and one.passes > 1:
                        continue
            kept.append(one)
        self.left = kept

    # ------------------------------------------------------------------ asked by a read

    def records(self, start: int, end: int, *, with_aborted: bool = False) -> Iterator[Any]:
        at = start
        while at < end:
            found = [
                one
                for one in self.left
                if at <= one.at < end and not one.is_marker and (with_aborted or not one.is_aborted)
            ][: self.batch]
            if not found:
                return
            at = found[-1].at + 1
            yield found
            self.meanwhile()

    def bounds(self) -> Limits:
        return Limits(self.end, self.end)

    def first_since(self, time_ms: int) -> int | None:
        return next((one.at for one in self.left if one.time_ms >= time_ms), None)

    def cleaner(self) -> Cleaner:
        return Cleaner(self.tombstones_kept, self.segment_ms)

    def now_ms(self) -> int:
        return NOW_MS


def read(
    log: CleanedLog, end: int, rows: int | None, *, taken_at_ms: int = 0, **how: Any
) -> dict[str, bytes | None]:
    keys = how.pop("keys", None)

    def begin(counts: bool) -> LatestRecords:
        wanted = None if counts else keys
        return LatestRecords(TABLE, wanted, 0, log=TopicPartition("changelog", 0))

    cut = CutPartition("changelog-0", 0, end, taken_at_ms, rows, **how)
    latest = CompleteRead(log, cut, begin).latest()
    return {
        key.decode(): value
        for block in latest.blocks()
        for key, value in zip(block.keys.to_pylist(), block.values.to_pylist(), strict=True)
        if value is not None
    }


class Drawn(NamedTuple):
    log: CleanedLog
    end: int
    rows: dict[str, bytes | None]
    """What the cut covers."""


def drawn_log(rng: Random) -> Drawn:
    """Some transactions, a cut, and some more, with passes in between."""
    log = CleanedLog(expires_tombstones=rng.random() < 0.4, batch=rng.choice([1, 2, 3, 50]))
    if log.expires_tombstones:
        log.tombstones_kept = 0
    names = [f"k{n}" for n in range(rng.choice([3, 8, 30]))]
    state: dict[str, bytes | None] = {}
    delete, abort = rng.choice([0, 0.2, 0.7]), rng.choice([0, 0.3])
    fresh = rng.random() < 0.3

    def transactions(count: int, *, counted: bool) -> int:
        end = log.end
        for _ in range(count):
            aborted = rng.random() < abort
            for _ in range(rng.choice([1, 2, 6])):
                name = rng.choice(names)
                if fresh and not counted:
                    name = f"new-{log.end}"
                value = None if rng.random() < delete else b"%d" % log.end
                log.write(name, value, aborted=aborted)
                if counted and not aborted:
                    state[name] = value
            end = log.mark()
            if rng.random() < 0.3:
                log.clean(rng.randrange(log.end), log.end)
        return end

    end = transactions(rng.randrange(1, 12), counted=True)
    transactions(rng.randrange(0, 12), counted=False)
    for _ in range(rng.choice([0, 0, 1, 2, 3])):
        log.clean(log.end - 1, rng.choice([log.end, rng.randrange(log.end)]))
    return Drawn(log, end, {key: value for key, value in state.items() if value is not None})


def passing(rng: Random, log: CleanedLog) -> Callable[[], None]:
    """Passes that come one segment further now and then."""
    at, known = 0, log.end - 1

    def meanwhile() -> None:
        nonlocal at, known
        if rng.random() < 0.4:
            at += rng.choice([1, 3, 20])
            log.clean(known, at)
            if at > log.end:
                at, known = 0, log.end - 1

    return meanwhile


@pytest.fixture(params=[0, 1_000], ids=["looks-again", "reads-twice"])
def _way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether single records are looked at again, or all are."""
    monkeypatch.setattr(complete_read, "_RECORDS_PER_LOOK", request.param)


@pytest.mark.usefixtures("_way")
@pytest.mark.parametrize("moves", [False, True], ids=["at-rest", "while-it-is-cleaned"])
def test_a_counted_cut_is_read_as_it_was_or_refused(moves: bool) -> None:
    refused = lost = 0
    for seed in range(200):
        rng = Random(seed)
        log, end, rows = drawn_log(rng)
        found = {one.name: one.data for one in log.left if one.at < end and not one.is_marker}
        is_there = all(
            any(one.name == key and one.data == value for one in log.left if one.at < end)
            for key, value in rows.items()
        )
        if moves:
            log.meanwhile = passing(rng, log)
        lost += not is_there
        try:
            assert read(log, end, len(rows)) == rows, (seed, found)
        except RestoreError:
            refused += 1
            assert moves or not is_there, f"{seed}: refused, and nothing was removed"
    assert moves or refused == lost
    assert refused > 20, "few cuts lost rows: the test shows nothing"


@pytest.mark.usefixtures("_way")
@pytest.mark.parametrize("moves", [False, True], ids=["at-rest", "while-it-is-cleaned"])
def test_sought_keys_at_a_counted_cut_are_found_or_refused(moves: bool) -> None:
    for seed in range(100):
        rng = Random(seed)
        log, end, rows = drawn_log(rng)
        if moves:
            log.meanwhile = passing(rng, log)
        names = rng.sample(["k0", "k1", "k2", "k3", "nobody"], 2)
        keys = frozenset(name.encode() for name in names)
        try:
            found = read(log, end, len(rows), keys=keys)
        except RestoreError:
            continue
        assert found == {key: rows[key] for key in names if key in rows}, seed


@pytest.mark.usefixtures("_way")
def test_a_cut_without_a_count_is_read_as_it_was_or_refused() -> None:
    read_total = 0
    for seed in range(200):
        rng = Random(seed)
        log, end, rows = drawn_log(rng)
        log.meanwhile = passing(rng, log)
        taken_at_ms = rng.choice([0, NOW_MS - 120_000, NOW_MS - 2 * KEPT_MS])
        try:
            assert read(log, end, None, taken_at_ms=taken_at_ms) == rows, seed
            read_total += 1
        except RestoreError:
            pass
    assert read_total > 12, "few cuts are read: the test shows nothing"


def test_isolated_removals_are_refused() -> None:
    log = CleanedLog()
    for n in range(50):
        log.write(f"k{n}", b"old")
    end = log.mark()
    for n in range(0, 50, 2):
        log.write(f"k{n}", b"new")
    log.mark()
    log.clean(log.end - 1, log.end)

    with pytest.raises(RestoreError, match="counted 50 rows there, and the changelog has 25"):
        read(log, end, 50)
    with pytest.raises(RestoreError, match=r"min\.compaction\.lag\.ms"):
        read(log, end, None, taken_at_ms=NOW_MS - 120_000)


@pytest.mark.parametrize(("segment_ms", "is_trusted"), [(60_000, True), (59_999, False)])
def test_an_uncounted_cut_of_the_last_minute_is_trusted_where_segments_are_open_for_longer(
    segment_ms: int, is_trusted: bool
) -> None:
    log = CleanedLog(segment_ms=segment_ms)
    for name in ("a", "b", "c", "c"):
        log.write(name, b"1")
        end = log.mark()
    log.left = [one for one in log.left if one.name != "a"]  # by a pass before the cut, it seems
    log.write("new", b"1")
    log.mark()

    if is_trusted:
        assert read(log, end, None, taken_at_ms=NOW_MS - 59_000) == {"b": b"1", "c": b"1"}
    else:
        with pytest.raises(RestoreError, match="compaction may have removed"):
            read(log, end, None, taken_at_ms=NOW_MS - 59_000)
    with pytest.raises(RestoreError, match="compaction may have removed"):
        read(log, end, None, taken_at_ms=NOW_MS - 60_000)


def test_rows_whose_tombstones_expired_are_refused() -> None:
    log = CleanedLog(expires_tombstones=True, tombstones_kept=100)
    for n in range(50):
        log.write(f"k{n}", b"old")
    end = log.mark()
    for n in range(10, 30):
        log.write(f"k{n}", None)
    log.mark()
    log.clean(log.end - 1, log.end)
    log.clean(log.end - 1, log.end)

    for rows in (50, None):
        with pytest.raises(RestoreError, match="compaction may have removed"):
            read(log, end, rows, taken_at_ms=NOW_MS - 200)


def test_new_keys_in_a_log_that_was_compacted_are_no_reason_for_doubt() -> None:
    log = CleanedLog()
    for n in range(40):
        log.write(f"k{n % 20}", b"%d" % n)
    log.mark()
    log.clean(log.end, log.end)
    log.write("tail", b"1")
    end = log.mark()
    for n in range(10):
        log.write(f"new{n}", b"1")
        log.mark()

    assert len(read(log, end, 21, taken_at_ms=NOW_MS)) == 21


def test_a_row_that_was_deleted_and_written_again_does_not_hide_its_removal() -> None:
    log = CleanedLog()
    log.write("a", b"1")
    log.write("b", b"1")
    end = log.mark()
    log.write("a", None)
    log.mark()
    log.write("a", b"2")
    log.mark()
    log.clean(log.end - 1, log.end)

    with pytest.raises(RestoreError, match="counted 2 rows there, and the changelog has 1"):
        read(log, end, 2)


def test_a_log_that_is_cleaned_each_time_it_is_read_is_refused_and_says_so() -> None:
    log = CleanedLog(tombstones_kept=0, batch=30)
    for n in range(60):
        log.write(f"k{n}", b"1")
    end = log.mark()
    log.write("new", b"1")
    log.mark()

    def removes_one() -> None:
        del log.left[0]

    log.meanwhile = removes_one
    with pytest.raises(RestoreError, match="cleaner removed records each of the 5 times"):
        read(log, end, 60)
