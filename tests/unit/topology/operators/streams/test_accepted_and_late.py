"""Accepted and late records are the input, by brute force and with crashes."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstate.testing import TopologyTestDriver
from logstate.topology import (
    HoppingWindows,
    JoinWindows,
    Materialized,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    TumblingWindows,
    UnlimitedWindows,
)
from tests.unit.topology.operators.streams.late_inputs import (
    GRACES,
    RECORDS,
    Input,
    driver_of,
    grouped,
    late_of,
    missed,
    ms,
    windowed,
)

WINDOWS: list[Any] = [
    TumblingWindows(size=ms(10), grace=ms(3)),
    HoppingWindows(size=ms(10), advance=ms(4), grace=ms(3)),
    SlidingWindows(difference=ms(10), grace=ms(3)),
    SessionWindows(gap=ms(4), grace=ms(3)),
    UnlimitedWindows(start_ms=0),
]


@pytest.mark.parametrize("emit", ["update", "commit", "close"])
@pytest.mark.parametrize("windows", WINDOWS, ids=lambda one: type(one).__name__)
@given(records=RECORDS, commit_every=st.integers(1, 4), crash_at=st.integers(0, 19))
def test_late_records_are_what_would_be_dropped_and_change_no_result(
    windows: Any, emit: Any, records: list[Input], commit_every: int, crash_at: int
) -> None:
    if isinstance(windows, UnlimitedWindows) and emit == "close":
        return  # refused: such windows never close
    found = []
    for late in (None, "late"):
        settings = {"commit_every": commit_every, "late": late}
        with driver_of(windowed(windows, emit=emit), **settings) as driver:
            for number, record in enumerate(records):
                driver.pipe_all("in", [record])
                if number == crash_at and late is not None:
                    driver.crash(loses_disk=True)
            driver.advance_wall_clock(1)
            out = driver.read_with_timestamps("out", value=int)
            if late is None:
                dropped = [(one.count, one.late_max_ms) for one in driver.dropped if one.count]
            else:
                by_ms = [one.by_ms for one in late_of(driver)]
                dropped = [(len(by_ms), max(by_ms))] if by_ms else []
                assert driver.dropped_total == 0
            found.append((out, dropped))
    assert found[0] == found[1]


def pipe_and_crash(
    driver: TopologyTestDriver, records: list[tuple[str, str, str, int]], crash_at: int
) -> None:
    """Pipe (topic, key, value, time), lose process and disk after one of them, and commit."""
    for number, (topic, key, value, time) in enumerate(records):
        driver.pipe(topic, key, value, timestamp=time)
        if number == crash_at:
            driver.crash(loses_disk=True)
    driver.advance_wall_clock(1)


def times_in(windows: Any, time: int) -> list[tuple[int, int]]:
    """Brute force: every window of the grid that contains the time."""
    size, step = windows.size_ms, getattr(windows, "advance_ms", windows.size_ms)
    return [(s, s + size) for s in range(0, time + 1, step) if s <= time < s + size]


@pytest.mark.parametrize("windows", [TumblingWindows, HoppingWindows])
@given(records=RECORDS, grace=GRACES, commit_every=st.integers(1, 4), crash_at=st.integers(0, 19))
def test_accepted_and_late_are_the_input_of_time_windows(
    windows: Any, records: list[Input], grace: int, commit_every: int, crash_at: int
) -> None:
    advance = {} if windows is TumblingWindows else {"advance": ms(4)}
    made = windows(size=ms(10), grace=ms(grace), **advance)
    late: list[Any] = []
    counts: dict[str, int] = {}
    stream_time = -1
    for key, value, time in records:
        stream_time = max(stream_time, time)
        for start, end in times_in(made, time):
            if end + grace <= stream_time:
                late.append((value, start, end, stream_time - end - grace + 1))
            else:
                window = f"{key}@{start}-{end}"
                counts[window] = counts.get(window, 0) + 1
    with driver_of(windowed(made), commit_every=commit_every) as driver:
        pipe_and_crash(driver, [("in", *record) for record in records], crash_at)
        assert missed(late_of(driver)) == late
        assert dict(driver.read("out", value=int)) == counts


@given(records=RECORDS, grace=GRACES, commit_every=st.integers(1, 4), crash_at=st.integers(0, 19))
def test_accepted_and_late_are_the_input_of_sessions(
    records: list[Input], grace: int, commit_every: int, crash_at: int
) -> None:
    gap, stream_time = 4, -1
    late: list[Any] = []
    sessions: dict[str, dict[tuple[int, int], int]] = {"a": {}, "b": {}}
    for key, value, time in records:
        stream_time, own = max(stream_time, time), sessions[key]
        near = [(s, e) for s, e in own if s <= time + gap and e >= time - gap]
        start, end = min([time, *(s for s, _ in near)]), max([time, *(e for _, e in near)])
        if end + gap + grace < stream_time:
            late.append((value, start, end, stream_time - grace - gap - end))
        else:
            own[start, end] = 1 + sum(own.pop(one) for one in near)
    windows = SessionWindows(gap=ms(gap), grace=ms(grace))
    with driver_of(windowed(windows), commit_every=commit_every) as driver:
        pipe_and_crash(driver, [("in", *record) for record in records], crash_at)
        assert missed(late_of(driver)) == late
        counted = {w: n for w, n in driver.read("out", value=int) if w in open_windows(sessions)}
        assert counted == open_windows(sessions)


def open_windows(sessions: dict[str, dict[tuple[int, int], int]]) -> dict[str, int]:
    return {f"{key}@{s}-{e}": n for key, own in sessions.items() for (s, e), n in own.items()}


@pytest.mark.parametrize("kind", ["table", "to_table", "old values", "reduce", "commit"])
@given(
    records=RECORDS,
    nulls=st.sets(st.integers(0, 19)),
    commit_every=st.integers(1, 4),
    crash_at=st.integers(0, 19),
)
def test_accepted_and_late_are_the_input_of_versioned_tables(
    kind: str, records: list[Input], nulls: set[int], commit_every: int, crash_at: int
) -> None:
    history, stream_time = 7, -1
    is_table = kind in ("table", "to_table", "old values")
    late: list[Any] = []
    latest: dict[str, tuple[int, str | None]] = {}
    rows: list[tuple[str, str | None, int]] = []
    for number, (key, value, time) in enumerate(records):
        new = None if number in nulls else value
        rows.append((key, new, time))
        if new is None and not is_table:
            continue  # dropped, not late
        if not is_table:
            # The result has the time of the newest record, and is put at that time.
            newest = max(time, latest.get(key, (time,))[0])
        else:
            newest = time
        if newest < stream_time - history:
            late.append((new, None, None, stream_time - history - newest))
            continue
        stream_time = max(stream_time, newest)
        if newest >= latest.get(key, (-1,))[0]:
            latest[key] = newest, new

    def declare(builder: StreamsBuilder, name: str | None) -> None:
        store = Materialized("rows", history=ms(history))
        if kind == "table":
            table = builder.table("in", key=str, value=str, store=store, late=name)
        elif is_table:
            table = builder.stream("in", key=str, value=str).to_table(store=store, late=name)
        else:
            emit: Any = "commit" if kind == "commit" else "update"
            table = grouped(builder).reduce(lambda _, new: new, store=store, emit=emit, late=name)
        if kind == "old values":
            table.to_change_stream().map_values(str, value=str).to("changes")
        else:
            table.to_stream().to("out", value=str)

    with driver_of(declare, commit_every=commit_every) as driver:
        for number, (key, new, time) in enumerate(rows):
            driver.pipe("in", key, new, timestamp=time)
            if number == crash_at:
                driver.crash(loses_disk=True)
        driver.advance_wall_clock(1)
        assert missed(late_of(driver)) == late
        # A deletion at the time of the version that it deletes is forgotten, as by Kafka Streams.
        deleted = {key for key, new, _ in rows if new is None}
        kept = {key: driver.store("rows").get(key) for key in latest.keys() - deleted}
        assert {key: row and row.value for key, row in kept.items()} == {
            key: latest[key][1] for key in kept
        }
        assert all(one.reason != "expired" for one in driver.dropped if one.count)


@given(records=RECORDS, commit_every=st.integers(1, 4), crash_at=st.integers(0, 19))
def test_forwarded_duplicate_and_late_are_the_input_of_a_deduplication(
    records: list[Input], commit_every: int, crash_at: int
) -> None:
    interval, stream_time = 5, -1
    late: list[Any] = []
    forwarded: list[Input] = []
    duplicates = 0
    for key, value, time in records:
        stream_time = max(stream_time, time)
        if time < stream_time - interval:
            late.append((value, None, None, stream_time - interval - time))
        elif any(key == k and abs(time - t) <= interval for k, _, t in forwarded):
            duplicates += 1
        else:
            forwarded.append((key, value, time))

    def declare(builder: StreamsBuilder, name: str | None) -> None:
        stream = builder.stream("in", key=str, value=str)
        stream.deduplicate_by_key(ms(interval), store="seen", late=name).to("out")

    with driver_of(declare, commit_every=commit_every) as driver:
        pipe_and_crash(driver, [("in", *record) for record in records], crash_at)
        assert missed(late_of(driver)) == late
        assert driver.read_with_timestamps("out", value=str) == forwarded
        assert driver.dropped_total == duplicates


@given(records=RECORDS, grace=GRACES, commit_every=st.integers(1, 4), crash_at=st.integers(0, 19))
def test_accepted_and_late_are_the_input_of_a_table_join_with_grace(
    records: list[Input], grace: int, commit_every: int, crash_at: int
) -> None:
    stream_time = -1
    late: list[Any] = []
    accepted: list[str] = []
    for _, value, time in records:
        if time < stream_time - grace:
            late.append((value, None, None, stream_time - grace - time))
        else:
            stream_time = max(stream_time, time)
            accepted.append(value)

    def declare(builder: StreamsBuilder, name: str | None) -> None:
        rows = Materialized("rates", history=ms(100))
        table = builder.table("rates", key=str, value=str, store=rows)
        stream = builder.stream("in", key=str, value=str)
        joined = stream.left_join(table, lambda one, _: one, grace=ms(grace), name="j", late=name)
        joined.to("out", value=str)

    with driver_of(declare, commit_every=commit_every) as driver:
        pipe_and_crash(driver, [("in", *record) for record in records], crash_at)
        driver.pipe("in", "end", "end", timestamp=1_000)
        driver.pipe("in", "end", "end", timestamp=2_000)
        assert missed(late_of(driver)) == late
        joined = sorted(value for _, value in driver.read("out", value=str) if value != "end")
        assert joined == sorted(accepted)


Sided = tuple[bool, str, int, str]


SIDES = st.lists(
    st.tuples(st.booleans(), st.sampled_from("ab"), st.integers(0, 60)), max_size=25
).map(lambda drawn: [(left, k, t, f"{'lr'[not left]}{n}") for n, (left, k, t) in enumerate(drawn)])


@pytest.mark.parametrize("kind", ["join", "left_join", "outer_join"])
@given(records=SIDES, grace=GRACES, commit_every=st.integers(1, 4), crash_at=st.integers(0, 24))
def test_two_matching_records_are_joined_or_one_of_them_is_late(
    kind: str, records: list[Sided], grace: int, commit_every: int, crash_at: int
) -> None:
    before, after = 6, 3
    windows = JoinWindows(before=ms(before), after=ms(after), grace=ms(grace))
    kept: dict[bool, list[tuple[str, int, str]]] = {True: [], False: []}
    pairs: list[str] = []
    late: list[Any] = []
    for is_left, key, time, value in records:
        back, ahead = (before, after) if is_left else (after, before)
        others = kept[not is_left]
        clock = max([-math.inf, *(one[1] for one in others)])
        own_clock = max([-math.inf, *(one[1] for one in kept[is_left])])
        passed = max(clock - ahead, own_clock - before - after) - grace
        if time <= passed:
            late.append((value, max(0, time - back), time + ahead, passed - time + 1))
            continue
        for other_key, other_time, other in others:
            if other_key == key and time - back <= other_time <= time + ahead:
                pairs.append(f"{value}+{other}" if is_left else f"{other}+{value}")
        kept[is_left].append((key, time, value))

    def declare(builder: StreamsBuilder, name: str | None) -> None:
        left, right = (builder.stream(topic, key=str, value=str) for topic in ("in", "right"))
        join = getattr(left, kind)
        joined = join(right, lambda a, b: f"{a}+{b}", windows=windows, name="pairs", late=name)
        joined.to("out", value=str)

    with driver_of(declare, commit_every=commit_every) as driver:
        sides = [
            ("in" if left else "right", key, value, time) for left, key, time, value in records
        ]
        pipe_and_crash(driver, sides, crash_at)
        assert missed(late_of(driver)) == late
        joined = [value for _, value in driver.read("out", value=str)]
        assert sorted(one for one in joined if "None" not in one) == sorted(pairs)
        accepted = {value for own in kept.values() for _, _, value in own}
        seen = {part for one in joined for part in one.split("+")} - {"None"}
        assert seen <= accepted
        assert accepted | {one[0] for one in late} == {one[3] for one in records}
