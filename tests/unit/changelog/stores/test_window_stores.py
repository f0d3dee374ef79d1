"""Window stores against a brute-force model, in memory and on RocksDB."""

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
from logstate.contracts.records import Windowed
from logstate.contracts.stores import StoreSpec, ValueAndTimestamp
from tests.unit.changelog.store_bench import MEDIA, StoreBench

MINUTE = 60_000


def spec_of(medium: str = "rocks", kind: str = "window", **options: Any) -> StoreSpec:
    settled = {"window_size_ms": 10, "retention_ms": 60, "segment_interval_ms": 30, **options}
    return StoreSpec(
        "views", kind, serdes.string, serdes.int64, in_memory=medium == "memory", **settled
    )


@pytest.fixture(params=MEDIA)
def medium(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def bench(medium: str, tmp_path: Path) -> Iterator[StoreBench]:
    made = StoreBench(spec_of(medium), tmp_path / "db")
    yield made
    made.close()


def test_a_window_is_found_by_key_and_start(bench: StoreBench) -> None:
    bench.store.put("a", 1, 100)
    bench.store.put("aa", 2, 100)
    assert bench.store.fetch("a", 100) == 1
    assert bench.store.fetch("a", 90) is None
    bench.commit()
    assert bench.store.fetch("aa", 100) == 2


def test_a_windows_end_is_its_start_plus_the_size(bench: StoreBench) -> None:
    bench.store.put("a", 1, 100)
    assert list(bench.store.all()) == [(Windowed("a", 100, 110), 1)]


def test_the_changelog_key_is_key_start_and_sequence_number(bench: StoreBench) -> None:
    bench.context.timestamp = 104
    bench.store.put("a", 1, 100)
    bench.store.put("b", None, 100)
    tail = (100).to_bytes(8, "big") + bytes(4)
    assert bench.commit() == [
        LoggedWrite(b"a" + tail, (1).to_bytes(8, "big"), 104),
        LoggedWrite(b"b" + tail, None, 104),
    ]


def test_windows_older_than_the_retention_of_the_newest_start_are_hidden(bench: StoreBench) -> None:
    bench.store.put("a", 1, 100)
    bench.store.put("b", 2, 159)
    assert bench.store.fetch("a", 100) == 1
    bench.store.put("b", 3, 160)
    assert bench.store.fetch("a", 100) is None
    assert list(bench.store.fetch_range("a", 0, 1000)) == []
    assert [window.key for window, _ in bench.store.all()] == ["b", "b"]


def test_stores_of_results_on_close_show_the_edge_of_the_retention(tmp_path: Path) -> None:
    bench = StoreBench(spec_of(keep_at_retention=True), tmp_path / "db")
    bench.store.put("a", 1, 100)
    bench.store.put("b", 2, 160)
    assert bench.store.fetch("a", 100) == 1
    bench.store.put("b", 3, 161)
    assert bench.store.fetch("a", 100) is None
    bench.close()


def test_a_put_that_comes_too_late_is_counted_and_logged_but_not_kept(bench: StoreBench) -> None:
    bench.store.put("a", 1, 1000)
    bench.store.put("a", 2, 100)
    assert bench.context.dropped == {"expired": 1}
    assert bench.store.fetch("a", 100) is None
    assert len(bench.commit()) == 2
    assert list(bench.restored().store.all()) == list(bench.store.all())


def test_rocksdb_drops_by_segment_and_memory_by_retention(medium: str, bench: StoreBench) -> None:
    bench.store.put("a", 1, 149)
    bench.store.put("a", 2, 80)
    assert bench.context.dropped["expired"] == (1 if medium == "memory" else 0)
    assert bench.store.fetch("a", 80) is None


def test_expired_segments_leave_the_medium_at_the_next_apply(bench: StoreBench) -> None:
    for start in range(0, 1000, 10):
        bench.store.put("a", start, start)
        if start % 100 == 0:
            bench.commit()
    bench.commit()
    starts = [int.from_bytes(key[-12:-4], "big") for key, _ in bench.rows()]
    assert starts == list(range(930 // 30 * 30, 1000, 10))


def test_what_expired_leaves_the_disk_although_no_record_of_it_is_left_to_replay(
    tmp_path: Path,
) -> None:
    bench = StoreBench(spec_of(), tmp_path / "db")
    bench.store.put("a", 1, 100)
    bench.commit()
    bench.store.put("a", 2, 10_000)
    bench.store.put("a", None, 10_000)
    bench.commit(applies=False)
    bench.reopen(log_start=len(bench.log))
    assert bench.rows() == []
    bench.close()


def test_expiry_is_undone_with_the_clock(bench: StoreBench) -> None:
    bench.store.put("a", 1, 100)
    bench.commit()
    bench.store.put("a", 2, 10_000)
    assert bench.store.fetch("a", 100) is None
    bench.discard()
    assert bench.store.fetch("a", 100) == 1
    bench.store.put("a", 3, 130)
    bench.commit()
    assert list(bench.store.fetch_range("a", 0, 1000)) == [(100, 1), (130, 3)]


def test_expiry_by_one_record_is_undone_with_that_record(bench: StoreBench) -> None:
    bench.store.put("a", 1, 100)
    bench.begin_record()
    bench.store.put("a", 2, 10_000)
    bench.end_record(rollback=True)
    assert bench.store.fetch("a", 100) == 1
    assert len(bench.commit()) == 1
    assert list(bench.store.all()) == [(Windowed("a", 100, 110), 1)]


def test_the_default_segment_is_half_the_retention_but_at_least_a_minute() -> None:
    bench = StoreBench(spec_of(retention_ms=10 * MINUTE, segment_interval_ms=None))
    assert bench.store.segments.interval_ms == 5 * MINUTE
    bench = StoreBench(spec_of(retention_ms=60, segment_interval_ms=None))
    assert bench.store.segments.interval_ms == MINUTE


def test_duplicates_are_kept_and_numbered_and_none_changes_nothing(
    medium: str, tmp_path: Path
) -> None:
    bench = StoreBench(spec_of(medium, retain_duplicates=True), tmp_path / "db")
    for value in (7, 7, None, 8):
        bench.store.put("a", value, 100)
    assert list(bench.store.fetch_range("a", 0, 200)) == [(100, 7), (100, 7), (100, 8)]
    assert [write.key[-1] for write in bench.commit()] == [1, 2, 3, 4]
    other = bench.restored()
    assert list(other.store.all()) == list(bench.store.all())
    other.store.put("a", 9, 100)
    assert [write.key[-1] for write in other.commit()] == [5]
    bench.close()


def test_timestamped_windows_log_their_own_time(medium: str, tmp_path: Path) -> None:
    bench = StoreBench(spec_of(medium, "timestamped_window"), tmp_path / "db")
    bench.context.timestamp = 9
    bench.store.put("a", ValueAndTimestamp(1, 107), 100)
    bench.store.put("a", ValueAndTimestamp(None, 107), 110)
    assert bench.store.fetch("a", 100) == ValueAndTimestamp(1, 107)
    assert sorted(write.timestamp or 0 for write in bench.commit()) == [9, 107]
    assert list(bench.restored().store.all()) == list(bench.store.all())
    bench.close()


def test_windows_with_headers_keep_and_log_them(medium: str, tmp_path: Path) -> None:
    spec = spec_of(medium, "timestamped_window", with_headers=True)
    bench = StoreBench(spec, tmp_path / "db")
    row = ValueAndTimestamp(1, 107, [("trace", b"x")])
    bench.store.put("a", row, 100)
    assert bench.store.fetch("a", 100) == row
    assert bench.commit()[0].headers == row.headers
    assert list(bench.restored().store.all()) == [(Windowed("a", 100, 110), row)]
    bench.close()


@pytest.mark.parametrize("kind", ["window", "timestamped_window"])
def test_what_a_replay_brings_takes_the_place_of_what_was_read(kind: str) -> None:
    """Rows of a key that are read are kept together, and those with times as objects."""

    def value(number: int) -> Any:
        return number if kind == "window" else ValueAndTimestamp(number, 120)

    bench, other = StoreBench(spec_of("memory", kind)), StoreBench(spec_of("memory", kind))
    bench.store.put("a", value(1), 100)
    bench.commit()
    assert bench.store.fetch("a", 100) == value(1)
    assert bench.store.fetch("a", 110) is None
    assert list(bench.store.fetch_range("a", 0, 200)) == [(100, value(1))]
    other.store.put("a", value(2), 100)
    other.store.put("a", value(3), 110)
    bench.state.restore("views", other.commit(), 3)

    assert bench.store.fetch("a", 100) == value(2)
    assert bench.store.fetch("a", 110) == value(3)
    assert list(bench.store.fetch_range("a", 0, 200)) == [(100, value(2)), (110, value(3))]


def test_a_store_with_rows_but_no_clock_shows_them_all(tmp_path: Path) -> None:
    bench = StoreBench(spec_of(), tmp_path / "db")
    bench.store.put("a", 1, 100)
    bench.store.put("a", 2, 150)
    bench.commit()
    bench.reopen()
    bench.state.set_clocks({})
    assert list(bench.store.fetch_range("a", 0, 1000)) == [(100, 1), (150, 2)]
    bench.close()


class WindowModel:
    """A dict of (key, start), with the clock and both media's rules written out."""

    def __init__(self, spec: StoreSpec) -> None:
        self.is_memory = spec.in_memory
        self.is_time_first = spec.in_memory or spec.keep_at_retention
        self.to_oldest = 0 if spec.keep_at_retention and not spec.in_memory else 1
        self.rows: dict[tuple[str, int, int], Any] = {}
        self.duplicates = spec.retain_duplicates
        self.interval = spec.segment_interval_ms or 0
        self.clock = -1
        self.sequence = 0
        self.save()

    def save(self) -> None:
        self.saved = self.state()

    def state(self) -> Any:
        return dict(self.rows), self.clock, self.sequence

    def restore(self, saved: Any = None) -> None:
        rows, self.clock, self.sequence = saved or self.saved
        self.rows = dict(rows)

    def put(self, key: str, value: Any, start: int) -> None:
        self.sequence += self.duplicates
        if self.duplicates and value is None:
            if self.is_memory:
                self.clock = max(self.clock, start)
            return
        self.clock = max(self.clock, start)
        too_late = start // self.interval < (self.clock - 60) // self.interval
        if self.is_memory:
            too_late = start <= self.clock - 60
        if too_late:
            return
        if value is None:
            self.rows.pop((key, start, self.sequence), None)
        else:
            self.rows[key, start, self.sequence] = value

    def visible(self, lower: int, upper: int) -> list[tuple[str, int, Any]]:
        oldest = max(lower, self.clock - 60 + self.to_oldest)

        def place(row: tuple[str, int, int]) -> Any:
            key, start, sequence = row
            last = sequence.to_bytes(4, "big")
            if self.is_time_first:
                return start, key.encode(), sequence
            return start // self.interval, key.encode() + start.to_bytes(8, "big") + last

        return [
            (row[0], row[1], self.rows[row])
            for row in sorted(self.rows, key=place)
            if oldest <= row[1] <= upper
        ]

    def fetch(self, key: str, start: int) -> Any:
        found = [value for k, s, value in self.visible(start, start) if (k, s) == (key, start)]
        return found[0] if found and not self.duplicates else None

    def fetch_range(self, key: str, lower: int, upper: int) -> list[tuple[int, Any]]:
        return [(start, value) for k, start, value in self.visible(lower, upper) if k == key]

    def fetch_all(self, lower: int, upper: int) -> list[tuple[Windowed[str], Any]]:
        return [(Windowed(k, s, s + 10), value) for k, s, value in self.visible(lower, upper)]

    def fetch_key_range(
        self, first: str | None, last: str | None, lower: int, upper: int
    ) -> list[tuple[Windowed[str], Any]]:
        return [
            (window, value)
            for window, value in self.fetch_all(lower, upper)
            if (first is None or first <= window.key) and (last is None or window.key <= last)
        ]


KEYS = st.sampled_from(["a", "aa", "a\x00", "b"])
TIMES = st.integers(0, 30).map(lambda n: n * 10)
PUTS = st.tuples(st.just("put"), KEYS, st.none() | st.integers(0, 9), TIMES)
STEPS = st.lists(
    st.one_of(
        PUTS,
        PUTS,
        st.tuples(st.sampled_from(["record", "undone record"]), st.lists(PUTS, max_size=3)),
        st.tuples(st.just("fetch"), KEYS, TIMES),
        st.tuples(st.just("fetch_range"), KEYS, TIMES, TIMES),
        st.tuples(st.just("fetch_all"), TIMES, TIMES),
        st.tuples(st.just("fetch_key_range"), st.none() | KEYS, st.none() | KEYS, TIMES, TIMES),
        st.tuples(st.sampled_from(["commit", "commit_only", "discard", "reopen", "drop"])),
    ),
    max_size=30,
)


def run_step(bench: StoreBench, model: WindowModel, step: str, *arguments: Any) -> None:
    if step == "put" and bench.spec.kind == "timestamped_window":
        key, value, start = arguments
        row = None if value is None else ValueAndTimestamp(value, start + value)
        arguments = (key, row, start)
    result = getattr(bench.store, step)(*arguments)
    expected = getattr(model, step)(*arguments)
    if step in ("fetch_range", "fetch_all", "fetch_key_range"):
        assert list(result) == expected
        assert list(getattr(bench.store, step)(*arguments, reverse=True)) == expected[::-1]
    else:
        assert result == expected


def run_steps(bench: StoreBench, steps: list[tuple[Any, ...]]) -> None:
    model = WindowModel(bench.spec)
    for step, *arguments in steps:
        if step.startswith("commit"):
            bench.commit(applies=step == "commit")
            model.save()
        elif step == "drop":
            bench.state.drop_caches()
        elif step in ("discard", "reopen"):
            getattr(bench, step)()
            model.restore()
        elif step.endswith("record"):
            before = model.state()
            bench.begin_record()
            for put in arguments[0]:
                run_step(bench, model, *put)
            bench.end_record(rollback=step == "undone record")
            if step == "undone record":
                model.restore(before)
        else:
            run_step(bench, model, step, *arguments)
    bench.commit(applies=False)
    contents = list(bench.store.all())
    assert contents == model.fetch_all(0, 2**62)
    assert list(bench.store.all(reverse=True)) == contents[::-1]
    assert list(bench.restored().store.all()) == contents
    assert list(bench.restored(batch=3).store.all()) == contents
    bench.close()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"kind": "timestamped_window"},
        {"kind": "timestamped_window", "keep_at_retention": True},
        {"retain_duplicates": True},
        {"segment_interval_ms": 120},
        {"segment_interval_ms": 90, "retain_duplicates": True},
        {"segment_interval_ms": 90, "kind": "timestamped_window", "keep_at_retention": True},
    ],
    ids=str,
)
@pytest.mark.parametrize("medium", MEDIA)
@given(steps=STEPS)
def test_any_steps_leave_what_the_model_holds_and_the_log_restores_it(
    medium: str, options: dict[str, Any], steps: list[tuple[Any, ...]]
) -> None:
    spec = spec_of(medium, **options)
    if medium == "memory":
        run_steps(StoreBench(spec), [step for step in steps if step[0] != "reopen"])
        return
    with tempfile.TemporaryDirectory() as directory:
        run_steps(StoreBench(spec, Path(directory) / "db"), steps)
