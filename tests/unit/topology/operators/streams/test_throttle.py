"""At most n records of a key in each window."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstate.contracts.errors import TopologyError
from logstate.contracts.late_record import LateRecord
from logstate.testing import TopologyTestDriver
from logstate.topology import HoppingWindows, Materialized, StreamsBuilder, TumblingWindows

SIZE_MS, GRACE_MS = 10, 5
WINDOWS = TumblingWindows(
    size=timedelta(milliseconds=SIZE_MS), grace=timedelta(milliseconds=GRACE_MS)
)
#: key, value, time
Entry = tuple["str | None", "str | None", int]
RECORDS = st.lists(
    st.tuples(st.sampled_from(["a", "b", None]), st.sampled_from(["x", None]), st.integers(0, 60)),
    max_size=40,
)


def throttled(
    records: list[Entry], n: int, crash_at: int = -1, commit_every: int = 1, **options: Any
) -> tuple[list[Entry], dict[str, int]]:
    builder = StreamsBuilder()
    builder.stream("in", value=str).throttle(n, WINDOWS, store="sent", **options).to("out")
    with TopologyTestDriver(builder.build(), commit_every=commit_every) as driver:
        for place, (key, value, time) in enumerate(records):
            if place == crash_at:
                driver.crash(loses_disk=place % 2 == 0)
            driver.pipe("in", key, value, timestamp=time)
        counts = {str(one.reason): one.count for one in driver.dropped}
        return driver.read_with_timestamps("out", value=str), counts


@given(records=RECORDS, n=st.integers(1, 4))
def test_each_window_forwards_the_first_ones_and_counts_the_others(
    records: list[Entry], n: int
) -> None:
    expected, newest, sent, late, over = list[Entry](), -1, dict[Any, int](), 0, 0
    for key, value, time in records:
        window = key, time // SIZE_MS
        if key is None:
            expected.append((key, value, time))
            continue
        newest = max(newest, time)
        if (time // SIZE_MS + 1) * SIZE_MS + GRACE_MS <= newest:
            late += 1
        elif sent.get(window, 0) == n:
            over += 1
        else:
            sent[window] = sent.get(window, 0) + 1
            expected.append((key, value, time))
    found, dropped = throttled(records, n)
    assert found == expected
    assert (dropped.get("late", 0), dropped.get("throttled", 0)) == (late, over)


@given(
    records=RECORDS,
    n=st.integers(1, 4),
    crash_at=st.integers(0, 39),
    commit_every=st.integers(1, 5),
)
def test_a_crash_changes_nothing(
    records: list[Entry], n: int, crash_at: int, commit_every: int
) -> None:
    assert throttled(records, n, crash_at, commit_every)[0] == throttled(records, n)[0]


def test_late_records_become_a_stream() -> None:
    builder = StreamsBuilder()
    alarms = builder.stream("in", value=str)
    alarms.throttle(1, WINDOWS, store="sent", late="too-late").to("out")
    builder.late("too-late").to("late")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_all("in", [("a", "x", 1), ("a", "y", 15), ("a", "z", 3)])
        assert driver.read("out", value=str) == [("a", "x"), ("a", "y")]
        ((_, late),) = driver.read("late", value=LateRecord[str, str])
    assert (late.value, late.by_ms) == ("z", 1)


def test_records_of_a_new_key_are_counted_behind_a_repartition_topic() -> None:
    builder = StreamsBuilder()
    words = builder.stream("in", value=str).select_key(lambda word: word[0], key=str)
    words.throttle(1, WINDOWS, store="sent").to("out", value=str)
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_all("in", [("1", "ab", 1), ("2", "ac", 2), ("3", "ba", 3)])
        assert driver.read("out", value=str) == [("a", "ab"), ("b", "ba")]


HOPPING = HoppingWindows(size=timedelta(milliseconds=10), advance=timedelta(milliseconds=5))


@pytest.mark.parametrize(
    ("n", "windows", "options", "text"),
    [
        (0, WINDOWS, {"store": "s"}, "integer of at least 1, found 0"),
        (True, WINDOWS, {"store": "s"}, "integer of at least 1, found True"),
        (1, HOPPING, {"store": "s"}, "must be TumblingWindows"),
        (1, 5, {"store": "s"}, "must be TumblingWindows, found 5"),
        (1, WINDOWS, {}, r"Throttle\(\) needs a name"),
        (1, WINDOWS, {"store": Materialized("s", value=str)}, "has value=, but its rows"),
        (1, WINDOWS, {"store": "s", "id": str}, "id"),
    ],
)
def test_what_no_throttle_has_is_refused(
    n: Any, windows: Any, options: dict[str, Any], text: str
) -> None:
    with pytest.raises(TopologyError, match=text):
        StreamsBuilder().stream("in", value=str).throttle(n, windows, **options)
