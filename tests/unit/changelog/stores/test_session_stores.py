"""Session stores against a brute-force model, in memory and on RocksDB."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstate import serdes
from logstate.changelog.backend.backend import StoreBackend
from logstate.changelog.rows.writes import LoggedWrite
from logstate.contracts.records import Windowed
from logstate.contracts.stores import StoreSpec
from tests.unit.changelog.counting_backend import CountingBackend
from tests.unit.changelog.store_bench import MEDIA, StoreBench


def spec_of(medium: str = "rocks", **options: Any) -> StoreSpec:
    settled = {"retention_ms": 60, "segment_interval_ms": 30, **options}
    return StoreSpec(
        "visits", "session", serdes.string, serdes.int64, in_memory=medium == "memory", **settled
    )


@pytest.fixture(params=MEDIA)
def medium(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def bench(medium: str, tmp_path: Path) -> Iterator[StoreBench]:
    made = StoreBench(spec_of(medium), tmp_path / "db")
    yield made
    made.close()


def test_a_session_is_found_by_its_exact_times(bench: StoreBench) -> None:
    bench.store.put(Windowed("a", 10, 20), 1)
    assert bench.store.fetch_session("a", 10, 20) == 1
    assert bench.store.fetch_session("a", 10, 21) is None
    bench.commit()
    assert bench.store.fetch_session("a", 10, 20) == 1


def test_a_session_that_ends_before_it_starts_is_refused(bench: StoreBench) -> None:
    with pytest.raises(ValueError, match=r"'visits' .* starts at 20 ms and ends at 10 ms"):
        bench.store.put(Windowed("a", 20, 10), 1)
    assert bench.commit() == []


def test_sessions_are_found_that_overlap_the_asked_time_both_ends_included(
    bench: StoreBench,
) -> None:
    for start, end in [(0, 9), (0, 10), (15, 20), (20, 30), (21, 30)]:
        bench.store.put(Windowed("a", start, end), end)
    found = [
        (window.start_ms, window.end_ms) for window, _ in bench.store.find_sessions("a", 10, 20)
    ]
    assert sorted(found) == [(0, 10), (15, 20), (20, 30)]


def test_the_changelog_key_is_key_end_and_start(bench: StoreBench) -> None:
    bench.context.timestamp = 20
    bench.store.put(Windowed("a", 10, 20), 1)
    bench.store.remove(Windowed("b", 1, 2))
    assert bench.commit() == [
        LoggedWrite(b"a" + bytes(7) + b"\x14" + bytes(7) + b"\x0a", (1).to_bytes(8, "big"), 20),
        LoggedWrite(b"b" + bytes(7) + b"\x02" + bytes(7) + b"\x01", None, 20),
    ]


def test_later_starts_come_first_in_memory_and_last_on_rocksdb(
    medium: str, bench: StoreBench
) -> None:
    for start in (1, 5, 3):
        bench.store.put(Windowed("a", start, 9), start)
    order = [5, 3, 1] if medium == "memory" else [1, 3, 5]
    assert [value for _, value in bench.store.fetch("a")] == order
    assert [value for _, value in bench.store.fetch("a", reverse=True)] == order[::-1]


def test_sessions_that_end_before_the_retention_of_the_newest_end_are_hidden(
    bench: StoreBench,
) -> None:
    bench.store.put(Windowed("a", 0, 100), 1)
    bench.store.put(Windowed("b", 0, 159), 2)
    assert len(list(bench.store.fetch("a"))) == 1
    bench.store.put(Windowed("b", 0, 160), 3)
    assert list(bench.store.fetch("a")) == []
    assert bench.store.fetch_session("a", 0, 100) is None


def test_a_put_that_comes_too_late_is_counted_and_a_removal_is_not(bench: StoreBench) -> None:
    bench.store.put(Windowed("a", 1000, 1000), 1)
    bench.store.remove(Windowed("a", 0, 100))
    assert not bench.context.dropped
    bench.store.put(Windowed("a", 0, 100), 1)
    bench.store.put(Windowed("a", 0, 100), None)
    assert bench.context.dropped == {"expired": 2}
    assert len(bench.commit()) == 2


def test_in_memory_a_session_exactly_as_old_as_the_retention_comes_too_late(
    medium: str, bench: StoreBench
) -> None:
    bench.store.put(Windowed("a", 0, 160), 1)
    bench.store.put(Windowed("a", 0, 100), 1)
    assert bench.context.dropped == ({"expired": 1} if medium == "memory" else {})
    bench.store.put(Windowed("a", 0, 101), 1)
    assert len(list(bench.store.fetch("a"))) == 2


def test_removing_moves_the_clock_on_rocksdb_only(medium: str, bench: StoreBench) -> None:
    bench.store.put(Windowed("a", 100, 100), 1)
    bench.store.remove(Windowed("a", 200, 200))
    assert len(list(bench.store.fetch("a"))) == (1 if medium == "memory" else 0)


def test_what_expired_leaves_the_disk_although_no_record_of_it_is_left_to_replay(
    tmp_path: Path,
) -> None:
    bench = StoreBench(spec_of(), tmp_path / "db")
    bench.store.put(Windowed("a", 100, 100), 1)
    bench.commit()
    bench.store.remove(Windowed("a", 10_000, 10_000))
    bench.commit(applies=False)
    bench.reopen(log_start=len(bench.log))
    assert bench.rows() == []
    bench.close()


def test_a_session_store_with_headers_logs_the_records_headers_on_removal(
    medium: str, tmp_path: Path
) -> None:
    bench = StoreBench(spec_of(medium, with_headers=True), tmp_path / "db")
    bench.context.headers = [("trace", b"x")]
    bench.store.put(Windowed("a", 1, 2), 5)
    bench.store.put(Windowed("a", 1, 3), 6, [("kept", None)])
    bench.store.remove(Windowed("a", 1, 4))
    assert [write.headers for write in bench.commit()] == [
        None,
        [("kept", None)],
        [("trace", b"x")],
    ]
    assert [value for _, value in bench.store.fetch("a")] == [5, 6]
    assert bench.store.headers_of("a", 1, 3) == [("kept", None)]
    assert bench.store.headers_of("a", 1, 2) is None
    assert list(bench.restored().store.all()) == list(bench.store.all())
    bench.close()


class SessionModel:
    """A dict of (key, start, end), with the clock and both media's rules written out."""

    def __init__(self, spec: StoreSpec) -> None:
        self.is_memory = spec.in_memory
        self.interval = spec.segment_interval_ms or 0
        # Below a segment rows expire by parts of at most half the retention, but not final results.
        self.expires_by = self.interval if spec.keep_at_retention else 30
        self.rows: dict[tuple[str, int, int], Any] = {}
        self.clock = -1
        self.save()

    def save(self) -> None:
        self.saved = (dict(self.rows), self.clock)

    def restore(self) -> None:
        rows, self.clock = self.saved
        self.rows = dict(rows)

    def put(self, session: Windowed[str], value: Any) -> None:
        self.clock = max(self.clock, session.end_ms)
        if self.is_memory:
            too_late = session.end_ms <= self.clock - 60
        else:
            too_late = session.end_ms // self.interval < (self.clock - 60) // self.interval
        if not too_late and value is None:
            self.rows.pop((session.key, session.start_ms, session.end_ms), None)
        elif not too_late:
            self.rows[session.key, session.start_ms, session.end_ms] = value

    def remove(self, session: Windowed[str]) -> None:
        if not self.is_memory:
            self.clock = max(self.clock, session.end_ms)
        self.rows.pop((session.key, session.start_ms, session.end_ms), None)

    def visible(self) -> list[tuple[Windowed[str], Any]]:
        def place(row: tuple[str, int, int]) -> Any:
            key, start, end = row
            if self.is_memory:
                return end, key.encode(), -start
            times = end.to_bytes(8, "big") + start.to_bytes(8, "big")
            return end // self.interval, key.encode() + times

        oldest = self.clock - 60 + 1
        rows = sorted((row for row in self.rows if row[2] >= oldest), key=place)
        return [(Windowed(*row), self.rows[row]) for row in rows]

    def find_sessions(
        self, key: str, earliest_end: int, latest_start: int
    ) -> list[tuple[Windowed[str], Any]]:
        return [
            (session, value)
            for session, value in self.visible()
            if session.key == key
            and session.end_ms >= earliest_end
            and session.start_ms <= latest_start
        ]

    def find_sessions_of_key_range(
        self, first: str | None, last: str | None, earliest_end: int, latest_start: int
    ) -> list[tuple[Windowed[str], Any]]:
        return [
            (session, value)
            for session, value in self.visible()
            if (first is None or first <= session.key)
            and (last is None or session.key <= last)
            and session.end_ms >= earliest_end
            and session.start_ms <= latest_start
        ]

    def find_ended(self, earliest_end: int, latest_end: int) -> list[tuple[Windowed[str], Any]]:
        oldest = (self.clock - 60) // self.expires_by * self.expires_by
        if self.is_memory:
            oldest = self.clock - 60 + 1
        rows = [row for row in self.rows if max(oldest, earliest_end) <= row[2] <= latest_end]
        if self.is_memory:
            rows.sort(key=lambda row: (row[2], row[0].encode(), -row[1]))
        else:
            rows.sort(key=lambda row: (row[2], row[1], row[0].encode()))
        return [(Windowed(*row), self.rows[row]) for row in rows]

    def fetch(self, key: str) -> list[tuple[Windowed[str], Any]]:
        return [row for row in self.visible() if row[0].key == key]

    def fetch_session(self, key: str, start: int, end: int) -> Any:
        return dict(self.visible()).get(Windowed(key, start, end))


KEYS = st.sampled_from(["a", "aa", "a\x00", "b"])
TIMES = st.integers(0, 300)
SESSIONS = st.builds(
    lambda key, start, length: Windowed(key, start, start + length), KEYS, TIMES, st.integers(0, 9)
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), SESSIONS, st.none() | st.integers(0, 9)),
        st.tuples(st.just("put"), SESSIONS, st.integers(0, 9)),
        st.tuples(st.just("remove"), SESSIONS),
        st.tuples(st.just("find_sessions"), KEYS, TIMES, TIMES),
        st.tuples(
            st.just("find_sessions_of_key_range"), st.none() | KEYS, st.none() | KEYS, TIMES, TIMES
        ),
        st.tuples(st.just("find_ended"), TIMES, TIMES),
        st.tuples(st.just("fetch"), KEYS),
        st.tuples(st.sampled_from(["commit", "commit_only", "discard", "reopen", "drop"])),
    ),
    max_size=30,
)


def run_steps(bench: StoreBench, steps: list[tuple[Any, ...]]) -> None:
    model = SessionModel(bench.spec)
    for step, *arguments in steps:
        if step.startswith("commit"):
            bench.commit(applies=step == "commit")
            model.save()
        elif step == "drop":
            bench.state.drop_caches()
        elif step in ("discard", "reopen"):
            getattr(bench, step)()
            model.restore()
        else:
            result = getattr(bench.store, step)(*arguments)
            expected = getattr(model, step)(*arguments)
            if step in ("put", "remove"):
                session = arguments[0]
                assert bench.store.fetch_session(*session) == model.fetch_session(*session)
            else:
                assert list(result) == expected
            if step.startswith(("find_sessions", "fetch")):
                assert list(getattr(bench.store, step)(*arguments, reverse=True)) == expected[::-1]
    bench.commit(applies=False)
    contents = list(bench.store.all())
    assert contents == model.visible()
    # In memory a put of None moves the clock and a removal does not, and both log a tombstone.
    with_clocks = bench.spec.in_memory
    assert list(bench.restored(with_clocks=with_clocks).store.all()) == contents
    assert list(bench.restored(batch=3, with_clocks=with_clocks).store.all()) == contents
    bench.close()


@pytest.mark.parametrize("is_final", [False, True], ids=["", "final results"])
@pytest.mark.parametrize("interval_ms", [30, 90])
@pytest.mark.parametrize("medium", MEDIA)
@given(steps=STEPS)
def test_any_steps_leave_what_the_model_holds_and_the_log_restores_it(
    medium: str, interval_ms: int, is_final: bool, steps: list[tuple[Any, ...]]
) -> None:
    spec = spec_of(medium, segment_interval_ms=interval_ms, keep_at_retention=is_final)
    if medium == "memory":
        run_steps(StoreBench(spec), [step for step in steps if step[0] != "reopen"])
        return
    with tempfile.TemporaryDirectory() as directory:
        run_steps(StoreBench(spec, Path(directory) / "db"), steps)


@pytest.mark.parametrize("on_disk", [False, True], ids=["memory", "rocks"])
def test_a_look_for_final_results_reads_what_is_due_however_long_the_store_keeps_it(
    on_disk: bool, tmp_path: Path
) -> None:
    backends: list[CountingBackend] = []

    def watched(backend: StoreBackend) -> StoreBackend:
        backends.append(CountingBackend(backend))
        return backends[-1]

    spec = spec_of(retention_ms=172_800_000, segment_interval_ms=None, keep_at_retention=True)
    bench = StoreBench(spec, tmp_path / "db" if on_disk else None, watch=watched)
    for end_ms in range(2_000):
        bench.store.put(Windowed(f"k{end_ms}", end_ms, end_ms), 1)
    bench.commit()

    before = backends[0].work
    due = [windowed.end_ms for windowed, _ in bench.store.find_ended(1_000, 1_004)]
    assert due == [1_000, 1_001, 1_002, 1_003, 1_004]
    assert backends[0].work - before == 1 + len(due)  # one scan, and nothing besides
    bench.close()
