"""to_pane_stream(): early panes, one on time, late ones, numbered from 0 per window and key."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstate.contracts.errors import TopologyError
from logstate.contracts.pane import Pane
from logstate.testing import TopologyTestDriver
from logstate.topology import (
    HoppingWindows,
    KTable,
    Materialized,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    Topology,
    TumblingWindows,
    early,
)
from logstate.topology.dsl.panes import Early
from tests.unit.topology.operators.aggregates.pane_model import ModelWindow
from tests.unit.topology.operators.aggregates.pane_model import panes_of as panes_by_window

SIZE, GRACE, GAP = 10, 7, 3
GRACE_TIME = timedelta(milliseconds=GRACE)
WINDOWS = {
    "tumbling": TumblingWindows(size=timedelta(milliseconds=SIZE), grace=GRACE_TIME),
    "no grace": TumblingWindows(size=timedelta(milliseconds=SIZE)),
    "hopping": HoppingWindows(
        size=timedelta(milliseconds=SIZE), advance=timedelta(milliseconds=4), grace=GRACE_TIME
    ),
    "sliding": SlidingWindows(difference=timedelta(milliseconds=SIZE), grace=GRACE_TIME),
    "sessions": SessionWindows(gap=timedelta(milliseconds=GAP), grace=GRACE_TIME),
}
TRIGGERS = {
    "none": None,
    "every": early(every=timedelta(milliseconds=3)),
    "records": early(records=2),
}
RECORDS = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 60)), max_size=30)
Records = list[tuple[str, int]]
Panes = list[tuple[str, Pane[int]]]


def shown(key: Any) -> str:
    return f"{key.key}@{key.start_ms}-{key.end_ms}"


@cache
def topology(windows: str, trigger: str) -> Topology:
    builder = StreamsBuilder()
    groups = builder.stream("in", value=int).group_by_key().windowed_by(WINDOWS[windows])
    table = groups.count(store=Materialized("n", retention=timedelta(days=1)))
    panes = table.to_pane_stream(TRIGGERS[trigger], name="panes")
    panes.select_key(lambda key, _: shown(key), key=str).to("panes")
    return builder.build()


def panes_of(windows: str, trigger: str, records: Records, **options: Any) -> Panes:
    crash_at = options.pop("crash_at", -1)
    with TopologyTestDriver(topology(windows, trigger), **options) as driver:
        for place, (key, time) in enumerate(records):
            if place == crash_at:
                driver.crash(loses_disk=place % 2 == 0)
            driver.pipe("in", key, 1, timestamp=time)
        driver.advance_wall_clock(0)
        if trigger == "none" and options.get("commit_every") == 1:
            kept = dict(driver.store("panes").all())
            assert len(list(driver.store("panes-timers").all())) == len(kept)
        return driver.read("panes", value=Pane[int])


def modelled(records: Records, trigger: Early | None) -> dict[str, list[Pane[int]]]:
    """Panes of tumbling windows by window, of accepted records only."""
    found: dict[str, ModelWindow] = {}
    now = newest = -1
    for key, time in records:
        newest = max(newest, time)
        start = time // SIZE * SIZE
        if start + SIZE + GRACE <= newest:
            continue
        now = max(now, time)
        for window in found.values():
            window.advance(now)
        name = f"{key}@{start}-{start + SIZE}"
        found.setdefault(name, ModelWindow(start + SIZE, now)).update(now, trigger)
    return panes_by_window(found)


def by_window(panes: Panes) -> dict[str, list[Pane[int]]]:
    found: dict[str, list[Pane[int]]] = {}
    for key, pane in panes:
        found.setdefault(key, []).append(pane)
    return found


@pytest.mark.parametrize("trigger", TRIGGERS)
@given(records=RECORDS)
def test_panes_of_tumbling_windows_are_those_of_the_model(trigger: str, records: Records) -> None:
    assert by_window(panes_of("tumbling", trigger, records)) == modelled(records, TRIGGERS[trigger])


@pytest.mark.parametrize("trigger", TRIGGERS)
@pytest.mark.parametrize("windows", WINDOWS)
@given(records=RECORDS, commit_every=st.integers(1, 5), crash_at=st.integers(0, 29))
def test_panes_have_no_gaps_follow_one_another_and_a_crash_changes_nothing(
    windows: str, trigger: str, records: Records, commit_every: int, crash_at: int
) -> None:
    undisturbed = panes_of(windows, trigger, records, commit_every=1)
    found = panes_of(windows, trigger, records, commit_every=commit_every, crash_at=crash_at)

    assert found == undisturbed
    order = {"early": 0, "on_time": 1, "late": 2}
    for key, panes in by_window(found).items():
        assert [pane.number for pane in panes] == list(range(len(panes))), key
        assert [pane.old for pane in panes] == [None, *(pane.value for pane in panes[:-1])], key
        timings = [order[pane.timing] for pane in panes]
        assert timings == sorted(timings), key
        assert Counter(timings)[1] <= 1, key


def test_early_panes_come_every_so_often_and_only_with_news() -> None:
    records = [("a", 0), ("a", 1), ("b", 4), ("b", 7), ("a", 8), ("b", 10)]
    panes = by_window(panes_of("tumbling", "every", records))
    assert [(one.timing, one.value) for one in panes["a@0-10"]] == [("early", 2), ("on_time", 3)]


def test_a_session_that_grows_takes_back_its_panes() -> None:
    panes = panes_of("sessions", "records", [("a", 10), ("a", 10), ("a", 12), ("b", 60)])
    assert panes == [
        ("a@10-10", Pane(2, None, "early", 0)),
        ("a@10-10", Pane(None, 2, "early", 1)),
        ("a@10-12", Pane(3, None, "on_time", 0)),
    ]


def test_rows_are_deleted_when_their_windows_have_closed() -> None:
    with TopologyTestDriver(topology("tumbling", "every")) as driver:
        driver.pipe_all("in", [("a", 1, 3), ("b", 1, 14), ("c", 1, 100)])
        assert [key.key for key, _ in driver.store("panes").all()] == ["c"]
        assert len(list(driver.store("panes-timers").all())) == 1


def table(emit: Any = "update") -> KTable[Any, int]:
    groups = StreamsBuilder().stream("in", value=int).group_by_key()
    return groups.windowed_by(WINDOWS["tumbling"]).count(store="n", emit=emit)  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (early, r"takes every= or records=, found every=None and records=None"),
        (lambda: early(records=0), r"records= of early\(\) must be a whole number of at least 1"),
        (lambda: early(every=timedelta(0)), r"every= of early\(\)"),
        (lambda: table().to_pane_stream(), r'to_pane_stream needs a name.*name="..."'),
        (lambda: table().to_pane_stream(3, name="p"), r"trigger= takes early\(...\), found 3"),  # type: ignore[arg-type]
        (lambda: table("close").to_pane_stream(name="p"), r'needs a table with emit="update"'),
        (
            lambda: StreamsBuilder().table("in", value=int, store="t").to_pane_stream(name="p"),
            r"needs a table of windows of one grouped stream",
        ),
    ],
)
def test_what_has_no_panes_is_refused(declare: Callable[[], object], message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        declare()
