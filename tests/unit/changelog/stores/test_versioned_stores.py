"""Versioned stores: what they answer, and that their log rebuilds them exactly."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstate import serdes
from logstate.changelog.rows.writes import LoggedWrite
from logstate.changelog.stores.versioned import NOT_PUT, VALID_TO_UNDEFINED
from logstate.changelog.stores.versioned_reads import versioned_segment_interval_ms
from logstate.contracts.stores import StoreSpec, VersionedRecord
from tests.unit.changelog.store_bench import MEDIA, StoreBench

HISTORY = 100


def spec_of(**options: Any) -> StoreSpec:
    settled = {"history_ms": HISTORY, "segment_interval_ms": 25, **options}
    return StoreSpec("rates", "versioned", serdes.string, serdes.int64, **settled)


@pytest.fixture(params=MEDIA)
def directory(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    return None if request.param == "memory" else tmp_path / "db"


@pytest.fixture
def bench(directory: Path | None) -> Iterator[StoreBench]:
    made = StoreBench(spec_of(), directory)
    yield made
    made.close()


def test_the_latest_version_and_the_one_as_of_a_time_are_found(bench: StoreBench) -> None:
    assert bench.store.put("a", 1, 100) == VALID_TO_UNDEFINED
    assert bench.store.put("a", 2, 120) == VALID_TO_UNDEFINED
    bench.commit()
    assert bench.store.get("a") == VersionedRecord(2, 120)
    assert bench.store.get("a", 119) == VersionedRecord(1, 100)
    assert bench.store.get("a", 99) is None
    assert bench.store.get("b") is None


@pytest.mark.parametrize("time", [-1, 2**63, 1.5, "5", True, None])
def test_a_time_that_no_record_of_the_changelog_can_have_is_refused(
    bench: StoreBench, time: Any
) -> None:
    with pytest.raises((TypeError, ValueError), match=r"^Store '\w+' was given a version with"):
        bench.store.put("a", 1, time)
    with pytest.raises((TypeError, ValueError), match=r"^Store '\w+' was given a version with"):
        bench.store.delete("a", time)
    assert bench.commit() == []


def test_a_put_between_versions_returns_where_the_next_one_starts(bench: StoreBench) -> None:
    bench.store.put("a", 1, 100)
    bench.store.put("a", 3, 140)
    assert bench.store.put("a", 2, 120) == 140
    assert bench.store.get("a", 130) == VersionedRecord(2, 120)
    assert bench.store.get("a", 119) == VersionedRecord(1, 100)


def test_a_deletion_is_a_version(bench: StoreBench) -> None:
    bench.store.put("a", 1, 100)
    assert bench.store.put("a", None, 120) == VALID_TO_UNDEFINED
    assert bench.store.get("a") is None
    assert bench.store.get("a", 119) == VersionedRecord(1, 100)
    assert bench.store.get("a", 120) is None


def test_what_is_exactly_as_old_as_the_history_is_still_read(bench: StoreBench) -> None:
    for value, timestamp in ((1, 90), (2, 150), (3, 200)):
        bench.store.put("a", value, timestamp)
    assert bench.store.get("a", 200 - HISTORY) == VersionedRecord(1, 90)
    assert bench.store.get("a", 200 - HISTORY - 1) is None


def test_between_a_deletion_and_the_next_version_there_is_none(bench: StoreBench) -> None:
    for value, timestamp in ((1, 1), (None, 5), (2, 10), (3, 15)):
        bench.store.put("a", value, timestamp)
    assert bench.store.get("a", 4) == VersionedRecord(1, 1)
    assert bench.store.get("a", 7) is None
    assert bench.store.get("a", 12) == VersionedRecord(2, 10)


def test_delete_returns_the_version_that_was_valid_then(bench: StoreBench) -> None:
    bench.store.put("a", 1, 100)
    bench.store.put("a", 2, 120)
    assert bench.store.delete("a", 110) == VersionedRecord(1, 100)
    assert bench.store.get("a", 115) is None
    assert bench.store.get("a") == VersionedRecord(2, 120)


def test_a_put_before_the_history_is_refused_and_counted_and_not_logged(bench: StoreBench) -> None:
    bench.store.put("a", 1, 1000)
    assert bench.store.put("a", 2, 899) == NOT_PUT
    assert bench.store.delete("a", 899) is None
    assert bench.context.dropped == {"expired": 2}
    assert [write.timestamp for write in bench.commit()] == [1000]


def test_a_refused_put_is_logged_where_every_write_is(directory: Path | None) -> None:
    bench = StoreBench(spec_of(), directory, logs_every_write=True)
    bench.store.put("a", 1, 1000)
    bench.store.put("a", 2, 899)
    assert [write.timestamp for write in bench.commit()] == [1000, 899]
    bench.close()


def test_the_latest_version_never_expires(bench: StoreBench) -> None:
    bench.store.put("a", 1, 10)
    bench.store.put("b", 1, 10_000)
    assert bench.store.get("a") == VersionedRecord(1, 10)
    assert bench.store.get("a", 50) == VersionedRecord(1, 10)


def test_versions_come_oldest_first_with_their_ends_and_without_deletions(
    bench: StoreBench,
) -> None:
    bench.store.put("a", 1, 100)
    bench.store.put("a", None, 110)
    bench.store.put("a", 2, 120)
    bench.store.put("a", 3, 130)
    assert list(bench.store.versions("a")) == [
        VersionedRecord(1, 100, 110),
        VersionedRecord(2, 120, 130),
        VersionedRecord(3, 130, None),
    ]
    assert list(bench.store.versions("a", 110, 129)) == [VersionedRecord(2, 120, 130)]
    assert list(bench.store.versions("b")) == []


def test_of_a_range_before_the_history_only_the_latest_version_is_shown(bench: StoreBench) -> None:
    for value, timestamp in ((1, 0), (2, 30), (3, 40)):
        bench.store.put("a", value, timestamp)
    bench.store.put("b", 1, 140)  # the history reaches back to 40
    for commits in (False, True):
        if commits:
            bench.commit()
        assert list(bench.store.versions("a", 0, 39)) == []
        assert list(bench.store.versions("a", 0, 40)) != []
        assert list(bench.store.versions("a", None, 20)) == []
        assert list(bench.store.versions("b", 0, 39)) == []
    bench.store.put("b", 1, 1_000)
    assert list(bench.store.versions("a", 0, 39)) == []
    assert list(bench.store.versions("a", 0, 50)) == [VersionedRecord(3, 40, None)]


@given(
    puts=st.lists(
        st.tuples(
            st.sampled_from("ab"), st.one_of(st.none(), st.integers(0, 9)), st.integers(0, 400)
        ),
        max_size=20,
    ),
    at=st.integers(0, 420),
)
def test_the_versions_of_one_instant_are_what_is_read_as_of_it(
    puts: list[tuple[str, int | None, int]], at: int
) -> None:
    bench = StoreBench(spec_of(), None)
    for key, value, timestamp in puts:
        bench.store.put(key, value, timestamp)
    for key in "ab":
        found = bench.store.get(key, at)
        versions = [(v.value, v.valid_from) for v in bench.store.versions(key, at, at)]
        assert versions == ([] if found is None else [(found.value, found.valid_from)])
    bench.close()


def test_the_changelog_record_is_stamped_with_the_versions_start(bench: StoreBench) -> None:
    bench.context.timestamp = 7
    bench.store.put("a", 1, 100)
    bench.store.put("a", None, 120)
    assert bench.commit() == [
        LoggedWrite(b"a", (1).to_bytes(8, "big"), 100),
        LoggedWrite(b"a", None, 120),
    ]


def test_replacing_one_version_many_times_is_logged_once(bench: StoreBench) -> None:
    for value in range(100):
        bench.store.put("a", value, 100)
    assert bench.commit() == [LoggedWrite(b"a", (99).to_bytes(8, "big"), 100)]


def test_the_segment_interval_follows_the_history() -> None:
    def interval(history_ms: int) -> int:
        return versioned_segment_interval_ms(
            spec_of(history_ms=history_ms, segment_interval_ms=None)
        )

    hour = 3_600_000
    assert [interval(h) for h in (60, 60_000, 300_000, hour, 24 * hour)] == [
        2_000,
        20_000,
        60_000,
        300_000,
        hour,
    ]


class HistoryModel:
    """The history of each key as a dict of start -> value: what a versioned store means."""

    def __init__(self) -> None:
        self.histories: dict[str, dict[int, int | None]] = {}
        self.clock = -1
        self.save()

    def save(self) -> None:
        self.saved = ({key: dict(h) for key, h in self.histories.items()}, self.clock)

    def restore(self) -> None:
        histories, self.clock = self.saved
        self.histories = {key: dict(h) for key, h in histories.items()}

    def put(self, key: str, value: int | None, time: int) -> None:
        if time >= self.clock - HISTORY:
            self.clock = max(self.clock, time)
            self.histories.setdefault(key, {})[time] = value

    def get(self, key: str, as_of: int) -> VersionedRecord[int] | None:
        history = self.histories.get(key, {})
        start = max((time for time in history if time <= as_of), default=None)
        value = None if start is None else history[start]
        return None if value is None or start is None else VersionedRecord(value, start)

    def forgets(self, key: str, value: int | None, time: int) -> bool:
        """Kafka Streams keeps no trace of a deletion at the latest version's own start."""
        history = self.histories.get(key, {})
        return value is None and bool(history) and time == max(history)


KEYS = st.sampled_from(["a", "b"])
TIMES = st.integers(0, 300)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), KEYS, st.none() | st.integers(0, 9), TIMES),
        st.tuples(st.just("put"), KEYS, st.none() | st.integers(0, 9), TIMES),
        st.tuples(st.sampled_from(["commit", "commit_only", "discard", "reopen"])),
    ),
    max_size=40,
)


def run_steps(bench: StoreBench, steps: list[tuple[Any, ...]], *, with_model: bool) -> None:
    model = HistoryModel()
    for step, *arguments in steps:
        if step.startswith("commit"):
            bench.commit(applies=step == "commit")
            model.save()
        elif step in ("discard", "reopen"):
            getattr(bench, step)()
            model.restore()
        elif not (with_model and model.forgets(*arguments)):
            bench.store.put(*arguments)
            model.put(*arguments)
        for key in ("a", "b") if with_model else ():
            latest = model.get(key, 2**62)
            assert bench.store.get(key) == latest
            for as_of in range(max(0, model.clock - HISTORY), model.clock + 1, 7):
                assert bench.store.get(key, as_of) == model.get(key, as_of)
    bench.commit()
    for restored in (bench.restored(), bench.restored(batch=3)):
        first = bench.store.segments.first_live()
        assert live(restored.rows(), first) == live(bench.rows(), first)
        assert restored.store.segments.cell.time == bench.store.segments.cell.time
    bench.close()


def live(rows: list[tuple[bytes, bytes]], first: int) -> list[tuple[bytes, bytes]]:
    return [(key, row) for key, row in rows if key[:8] >= first.to_bytes(8, "big")]


@pytest.mark.parametrize("with_model", [True, False], ids=["meaning", "exact rows"])
@pytest.mark.parametrize("logs_every_write", [False, True], ids=["per commit", "per update"])
@pytest.mark.parametrize("medium", MEDIA)
@given(steps=STEPS)
def test_any_puts_leave_the_history_they_mean_and_the_log_restores_it(
    medium: str, logs_every_write: bool, with_model: bool, steps: list[tuple[Any, ...]]
) -> None:
    if medium == "memory":
        steps = [step for step in steps if step[0] != "reopen"]
        bench = StoreBench(spec_of(), logs_every_write=logs_every_write)
        run_steps(bench, steps, with_model=with_model)
        return
    with tempfile.TemporaryDirectory() as directory:
        bench = StoreBench(spec_of(), Path(directory) / "db", logs_every_write=logs_every_write)
        run_steps(bench, steps, with_model=with_model)


def test_a_replay_from_the_middle_goes_on_with_the_clock_that_its_rows_stand_for(
    tmp_path: Path,
) -> None:
    bench = StoreBench(spec_of(), tmp_path / "db")
    bench.store.put("a", None, 25)
    bench.commit()
    bench.store.put("a", None, 0)
    bench.commit(applies=False)
    bench.reopen()

    assert bench.rows() == bench.restored().rows()
    bench.close()


def test_a_record_that_is_rolled_back_does_not_make_older_ones_too_late_for_a_replay(
    tmp_path: Path,
) -> None:
    bench = StoreBench(spec_of(), tmp_path / "db")
    bench.store.put("a", 1, 100)
    bench.commit(applies=False)
    bench.begin_record()
    bench.store.put("a", 2, 100_000)
    bench.end_record(rollback=True)
    bench.state.apply()
    bench.store.put("b", 3, 90)
    bench.commit(applies=False)
    bench.reopen()

    assert bench.store.get("b") == VersionedRecord(3, 90)
    assert bench.rows() == bench.restored().rows()
    bench.close()


def test_a_record_that_is_rolled_back_ends_no_version(bench: StoreBench) -> None:
    bench.store.put("a", 1, 100)
    bench.commit()
    before = bench.rows()
    bench.begin_record()
    bench.store.put("a", 2, 120)
    bench.end_record(rollback=True)
    bench.commit()

    assert bench.rows() == before


def test_a_query_is_told_when_the_version_ended_and_a_processor_is_not(bench: StoreBench) -> None:
    for value, time in ((1, 100), (2, 120), (None, 130), (3, 160)):
        bench.store.put("a", value, time)
    bench.commit()
    queried = bench.store.queried
    ends = {at: queried.get("a", at) for at in (99, 100, 119, 120, 130, 160)}
    assert ends == {
        99: None,
        100: VersionedRecord(1, 100, 120),
        119: VersionedRecord(1, 100, 120),
        120: VersionedRecord(2, 120, 130),
        130: None,
        160: VersionedRecord(3, 160),
    }
    assert queried.get("a") == VersionedRecord(3, 160)
    assert bench.store.get("a", 119) == VersionedRecord(1, 100)
    for version in queried.versions("a"):
        assert queried.get("a", version.valid_from) == version
