"""Windows that differ in length: the same ends and counts wherever they are looked at."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from typing import Any, Literal
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstate.contracts.errors import ProcessingError
from logstate.serdes import windowed
from logstate.testing import TopologyTestDriver
from logstate.topology import KTable, Materialized, StreamsBuilder, Windows, until_window_closes

HOUR = 3_600_000
How = Literal["update", "commit", "close", "suppress"]
EVERY: list[How] = ["update", "commit", "close", "suppress"]


class Days(Windows):
    """Those of Berlin."""

    varies, size_ms = True, 25 * HOUR

    def __init__(self, grace_ms: int = 0) -> None:
        self.grace_ms = grace_ms

    def windows_for(self, timestamp: int) -> list[tuple[int, int]]:
        now = datetime.fromtimestamp(timestamp / 1000, ZoneInfo("Europe/Berlin"))
        day = now.replace(hour=0, minute=0, second=0, microsecond=0)
        ends = day + timedelta(days=1)
        return [(int(day.timestamp()) * 1000, int(ends.timestamp()) * 1000)]


def midnight(*date: int) -> int:
    return int(datetime(*date, tzinfo=ZoneInfo("Europe/Berlin")).timestamp()) * 1000  # type: ignore[misc, arg-type]


#: a day of 25 hours, one of 23, and one of 24, each with the hours of the days after it
SPRING, AUTUMN, MAY = midnight(2024, 3, 31), midnight(2024, 10, 27), midnight(2024, 5, 7)
LENGTHS = {AUTUMN: 25, SPRING: 23, MAY: 24}


def counts(builder: StreamsBuilder, how: How, grace_ms: int) -> KTable[Any, int]:
    grouped = builder.stream("in", key=str, value=str).group_by_key()
    days = grouped.windowed_by(Days(grace_ms))
    rows = Materialized("n", retention=timedelta(days=30))
    if how == "suppress":
        return days.count(store=rows).suppress(until_window_closes(), name="final")
    return days.count(store=rows, emit=how)


def run(
    how: How, hours: list[float], day: int, grace: float = 0
) -> dict[tuple[str, int, int], int]:
    """What the topic says last of each window, in hours since the day began; the store agrees."""
    builder = StreamsBuilder()
    counts(builder, how, int(grace * HOUR)).to_stream().to("out", value=int)
    with TopologyTestDriver(builder.build()) as driver:
        for place, hour in enumerate(hours):
            driver.pipe("in", "ada", "x", timestamp=day + int(hour * HOUR))
            if place == len(hours) // 2:
                driver.crash()
        told = dict(driver.read("out", key=windowed(str, Days()), value=int))
        kept = {window: row.value for window, row in driver.store("n").all()}
    assert all(kept[window] == count for window, count in told.items())
    return {
        (window.key, (window.start_ms - day) // HOUR, (window.end_ms - day) // HOUR): count
        for window, count in told.items()
    }


@pytest.mark.parametrize("how", EVERY)
@pytest.mark.parametrize("day", LENGTHS, ids=LENGTHS.values())
def test_a_day_has_its_own_end_and_all_its_records_however_it_is_emitted(
    how: How, day: int
) -> None:
    ends = LENGTHS[day]
    hours = [1, 22.9, ends - 0.5, ends - 0.1, ends, ends + 23.9, ends + 24, ends + 48]
    found = run(how, hours, day)
    expected = {("ada", 0, ends): 4, ("ada", ends, ends + 24): 2, ("ada", ends + 24, ends + 48): 1}
    if how in ("update", "commit"):
        expected["ada", ends + 48, ends + 72] = 1
    assert found == expected


@pytest.mark.parametrize("how", EVERY)
@pytest.mark.parametrize("day", LENGTHS, ids=LENGTHS.values())
def test_the_grace_begins_at_the_days_own_end(how: How, day: int) -> None:
    ends = LENGTHS[day]
    hours = [
        1,
        ends + 0.4,
        2,
        ends + 0.5,
        3,
        ends + 100,
    ]  # the one at 2 is in time, at 3 it is late
    assert run(how, hours, day, grace=0.5)["ada", 0, ends] == 2


@given(
    hours=st.lists(st.integers(0, 100), max_size=15),
    day=st.sampled_from(list(LENGTHS)),
    grace=st.sampled_from([0, 1, 30]),
)
def test_final_results_are_the_last_updates_of_the_windows_that_closed(
    hours: list[int], day: int, grace: int
) -> None:
    updates = run("update", hours, day, grace)
    closed = max(hours, default=0) - grace
    final = {window: count for window, count in updates.items() if window[2] <= closed}
    assert run("close", hours, day, grace) == final
    assert run("suppress", hours, day, grace) == final


def test_final_results_are_sent_once() -> None:
    builder = StreamsBuilder()
    counts(builder, "close", 0).to_stream(lambda window, _: str(window.start_ms), key=str).to("out")
    with TopologyTestDriver(builder.build()) as driver:
        for hour in range(0, 24 * 8, 5):
            driver.pipe("in", "ada", "x", timestamp=SPRING - 3 * 24 * HOUR + hour * HOUR)
            if hour == 100:
                driver.crash()
        sent = Counter(key for key, _ in driver.read("out", value=int))
    assert len(sent) == 7
    assert set(sent.values()) == {1}


class Fixed(Days):
    varies, size_ms = False, 24 * HOUR


class TooShort(Days):
    size_ms = 24 * HOUR


@pytest.mark.parametrize("windows", [Fixed(), TooShort()], ids=["fixed", "too short"])
def test_a_window_that_is_longer_than_declared_stops_with_what_to_declare(windows: Windows) -> None:
    builder = StreamsBuilder()
    builder.stream("in", key=str, value=str).group_by_key().windowed_by(windows).count(store="n")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe("in", "ada", "x", timestamp=MAY)
        with pytest.raises(ProcessingError, match=r"of 90000000 ms .*size_ms is 86400000.*longest"):
            driver.pipe("in", "ada", "x", timestamp=AUTUMN)


def test_a_window_that_is_shorter_than_all_are_said_to_be_stops_too() -> None:
    builder = StreamsBuilder()
    builder.stream("in", key=str, value=str).group_by_key().windowed_by(Fixed()).count(store="n")
    with (
        TopologyTestDriver(builder.build()) as driver,
        pytest.raises(ProcessingError, match=r"of 82800000 ms .*varies = True"),
    ):
        driver.pipe("in", "ada", "x", timestamp=SPRING)


def test_what_is_read_from_outside_python_has_no_ends_that_would_be_wrong() -> None:
    builder = StreamsBuilder()
    counts(builder, "update", 0)
    spec = builder.build().stores["n"]
    assert spec.window_size_ms is None
    assert windowed(str, Days()).describe()["window_size_ms"] is None
    assert windowed(str, 5).describe()["window_size_ms"] == 5
