"""Late records as a stream: what operators would drop as late, once per missed window."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstate.contracts.errors import TopologyError
from logstate.contracts.late_record import LateRecord
from logstate.contracts.records import Windowed
from logstate.contracts.serde import Deserializer, Serde, Serializer
from logstate.testing import TopologyTestDriver
from logstate.topology import (
    HoppingWindows,
    KStream,
    KTable,
    Materialized,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    TumblingWindows,
    UnlimitedWindows,
    until_window_closes,
)

#: key, value, time
Input = tuple[str, str, int]
Declare = Callable[[StreamsBuilder, "str | None"], None]

RECORDS = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 60)), max_size=20).map(
    lambda drawn: [(key, str(number), time) for number, (key, time) in enumerate(drawn)]
)
GRACES = st.sampled_from([0, 1, 7])


def ms(count: int) -> timedelta:
    return timedelta(milliseconds=count)


def to_out(table: KTable[Any, Any]) -> None:
    table.to_stream(lambda window, _: f"{window.key}@{window.start_ms}-{window.end_ms}").to(
        "out", key=str, value=int
    )


def grouped(builder: StreamsBuilder) -> Any:
    return builder.stream("in", key=str, value=str).group_by_key()


def windowed(windows: Any, **options: Any) -> Declare:
    """A count in windows, which keeps sessions as long as they are open."""
    store = Materialized("n", retention=ms(1_000)) if isinstance(windows, SessionWindows) else "n"

    def declare(builder: StreamsBuilder, late: str | None) -> None:
        to_out(
            grouped(builder)
            .windowed_by(windows)
            .count(store=store, name="count", late=late, **options)
        )

    return declare


def driver_of(declare: Declare, late: str | None = "late", **settings: Any) -> TopologyTestDriver:
    builder = StreamsBuilder()
    declare(builder, late)
    if late is not None:
        builder.late(late, key=str, value=str).to("late")
    return TopologyTestDriver(builder.build(), **settings)


def late_of(driver: TopologyTestDriver) -> list[LateRecord[str, str | None]]:
    return [late for _, late in driver.read("late", value=LateRecord[str, str | None])]


def missed(late: Sequence[LateRecord[str, Any]]) -> list[tuple[Any, Any, Any, int]]:
    """Value, start and end of the missed window, and by how much."""
    return [
        (one.value, *(one.window[1:] if one.window else (None, None)), one.by_ms) for one in late
    ]


def test_a_late_record_is_emitted_once_per_window_that_it_missed() -> None:
    with driver_of(windowed(HoppingWindows(size=ms(10), advance=ms(5)))) as driver:
        driver.pipe("in", "ada", "a", timestamp=16)
        driver.pipe("in", "ada", "b", timestamp=7, headers=[("h", b"1")])
        driver.pipe("in", "ada", "c", timestamp=14)
        assert late_of(driver) == [
            LateRecord("ada", "b", [("h", b"1")], 7, Windowed("ada", 0, 10), 7, "late", "count"),
            LateRecord("ada", "b", [("h", b"1")], 7, Windowed("ada", 5, 15), 2, "late", "count"),
            LateRecord("ada", "c", None, 14, Windowed("ada", 5, 15), 2, "late", "count"),
        ]
        assert driver.read("out", value=int) == [
            ("ada@10-20", 1),
            ("ada@15-25", 1),
            ("ada@10-20", 2),
        ]
        assert driver.dropped_total == 0
        assert [(one.node, one.count) for one in driver.task.drops.late_streams()] == [("late", 3)]


def test_the_record_of_the_late_stream_has_the_key_time_and_headers_of_the_late_one() -> None:
    with driver_of(windowed(TumblingWindows(size=ms(10)))) as driver:
        driver.pipe("in", "ada", "a", timestamp=16)
        driver.pipe("in", "bob", "b", timestamp=7, headers=[("h", b"1")])
        (record,) = driver.take_outputs()[1:]
        assert (record.topic, record.key, record.timestamp) == ("late", b"bob", 7)
        assert list(record.headers or ()) == [("h", b"1")]


def test_null_keys_are_not_late_and_null_values_only_where_they_count() -> None:
    def both(builder: StreamsBuilder, late: str | None) -> None:
        groups = grouped(builder)
        to_out(groups.windowed_by(TumblingWindows(size=ms(10))).count(store="n", late=late))
        sliding = groups.windowed_by(SlidingWindows(difference=ms(2)))
        to_out(sliding.count(store="m", late="other"))
        builder.late("other").to("other")

    with driver_of(both) as driver:
        driver.pipe("in", "ada", "a", timestamp=50)
        driver.pipe("in", None, "b", timestamp=1)
        driver.pipe("in", "ada", None, timestamp=1)
        assert missed(late_of(driver)) == [(None, 0, 10, 41)]  # a tumbling window counts it
        assert driver.read("other", value=dict) == []
        reasons = sorted((one.reason.value, one.count) for one in driver.dropped if one.count)
        assert reasons == [("null_key", 1), ("null_key", 1), ("null_value", 1)]


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
        for number, record in enumerate(records):
            driver.pipe_all("in", [record])
            if number == crash_at:
                driver.crash(loses_disk=True)
        driver.advance_wall_clock(1)
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
        for number, record in enumerate(records):
            driver.pipe_all("in", [record])
            if number == crash_at:
                driver.crash(loses_disk=True)
        driver.advance_wall_clock(1)
        assert missed(late_of(driver)) == late
        counted = {w: n for w, n in driver.read("out", value=int) if w in open_windows(sessions)}
        assert counted == open_windows(sessions)


def open_windows(sessions: dict[str, dict[tuple[int, int], int]]) -> dict[str, int]:
    return {f"{key}@{s}-{e}": n for key, own in sessions.items() for (s, e), n in own.items()}


def test_late_records_can_be_counted_joined_and_merged_back() -> None:
    builder = StreamsBuilder()
    clicks = builder.stream("in", key=str, value=str)
    windows = TumblingWindows(size=ms(10))
    clicks.group_by_key().windowed_by(windows).count(store="n", late="late")
    late = builder.late("late", key=str, value=str)
    late.group_by_key().count(store="late-n")
    names = builder.table("names", key=str, value=str, store="names")
    late.join(names, lambda one, name: f"{name}:{one.value}").to("joined", value=str)
    late.map_values(lambda one: one.value, value=str).merge(clicks).to("all")
    by_value = late.group_by(lambda _, one: one.value, key=str, name="by-value")
    by_value.count(store="values").to_stream().to("values")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe("names", "ada", "Ada")
        driver.pipe_all("in", [("ada", "a", 30), ("ada", "b", 1), ("bob", "c", 2)])
        assert driver.store("late-n").get("ada").value == 1
        assert driver.read("joined", value=str) == [("ada", "Ada:b")]
        # Each late record comes twice: merged back, and of the input that it was merged with.
        assert driver.read("all", value=str) == [
            *[("ada", "a"), ("ada", "b"), ("ada", "b"), ("bob", "c"), ("bob", "c")]
        ]
        assert driver.read("values", value=int) == [("b", 1), ("c", 1)]


def test_a_late_stream_renames_no_operator_and_adds_one() -> None:
    names = []
    for late in (None, "late"):
        builder = StreamsBuilder()
        windowed(TumblingWindows(size=ms(10)))(builder, late)
        (part,) = builder.build().description().sub_topologies
        names.append({node.name: node.successors for node in part.nodes})
    assert names[1] == {**names[0], "count": ("KTABLE-TOSTREAM-0000000002", "late"), "late": ()}
    assert names[0]["count"] == ("KTABLE-TOSTREAM-0000000002",)


def test_all_groups_of_a_cogroup_share_a_late_stream() -> None:
    builder = StreamsBuilder()
    ups, downs = (builder.stream(topic, value=str).group_by_key() for topic in ("ups", "downs"))
    both = ups.cogroup(lambda n, _: n + 1).cogroup(downs, lambda n, _: n - 1)
    table = both.windowed_by(TumblingWindows(size=ms(10))).aggregate(
        int, store="n", value=int, name="votes", late="late"
    )
    to_out(table)
    builder.late("late", key=str, value=str).to("late")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_all("ups", [("a", "x", 30), ("a", "late up", 3)])
        driver.pipe_all("downs", [("a", "y", 4), ("a", "z", 30), ("a", "late down", 4)])
        found = [(one.value, one.node) for one in late_of(driver)]
        assert found == [
            ("late up", "votes-cogroup-agg-0"),
            ("late down", "votes-cogroup-agg-1"),
        ]


def test_a_late_stream_that_nothing_reads_is_counted_and_not_dropped() -> None:
    builder = StreamsBuilder()
    windowed(TumblingWindows(size=ms(10)))(builder, "late")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_all("in", [("a", "x", 30), ("a", "y", 3)])
        assert driver.dropped_total == 0
        assert [one.count for one in driver.task.drops.late_streams()] == [1]


def refused(declare: Callable[[StreamsBuilder], object]) -> str:
    with pytest.raises(TopologyError) as found:
        declare(StreamsBuilder())
    return str(found.value)


def twice(builder: StreamsBuilder) -> None:
    windows = grouped(builder).windowed_by(TumblingWindows(size=ms(10)))
    windows.count(store="n", late="late")
    windows.count(store="m", late="late")


def closed_without_windows(builder: StreamsBuilder) -> None:
    windowed(TumblingWindows(size=ms(10)))(builder, "late")
    late = builder.late("late", key=str, value=str)
    late.group_by_key().count(store="m").suppress(until_window_closes(), name="final")


def test_mistakes_with_late_streams_are_refused() -> None:
    text = refused(lambda builder: builder.late("late"))
    assert "No operator declared so far has late='late'; late streams so far: none" in text
    assert "Two operators have late='late'" in refused(twice)
    text = refused(lambda builder: grouped(builder).count(store="n", late="late"))
    assert "without windows no record is late" in text
    text = refused(lambda b: windowed(TumblingWindows(size=ms(10)))(b, "a b"))
    assert "'a b' is not a valid name for a late stream" in text
    assert "needs windowed keys" in refused(closed_without_windows)


def test_a_late_stream_without_a_type_asks_for_the_serde_where_it_is_written() -> None:
    def declare(builder: StreamsBuilder) -> None:
        encoded = Encoded()
        stream: KStream[str, str] = builder.stream("in", key=str, value=encoded)
        windows = TumblingWindows(size=ms(10))
        stream.group_by_key().windowed_by(windows).count(store="n", late="late")
        builder.late("late", key=str, value=encoded).to("late")

    text = refused(declare)
    assert "No serde for the value of topic 'late': operator 'late'" in text
    assert "Give value=" in text


class Encoded(Serde[str]):
    """A serde of its own, which no type names."""

    def serializer(self, topic: str, is_key: bool) -> Serializer[str]:
        return str.encode

    def deserializer(self, topic: str, is_key: bool) -> Deserializer[str]:
        return bytes.decode

    def describe(self) -> dict[str, Any]:
        return {"format": "own", "schema": None}
