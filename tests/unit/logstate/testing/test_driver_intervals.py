"""What is final is sent at once in the test driver, unless somebody says how rarely to look."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from logstate.app.application import Application
from logstate.contracts.errors import ConfigError
from logstate.testing import TopologyTestDriver
from logstate.topology import (
    HoppingWindows,
    JoinWindows,
    KStream,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    TumblingWindows,
)
from logstate.topology.dsl.materialized import AnyWindows
from tests.patience import PATIENCE_S
from tests.unhurried import unhurried

TEN = timedelta(milliseconds=10)
Declare = Callable[[StreamsBuilder], KStream[Any, Any]]


def closing(windows: AnyWindows) -> Declare:
    def declare(builder: StreamsBuilder) -> KStream[Any, Any]:
        grouped = builder.stream("in", key=str, value=str).group_by_key()
        counts = grouped.windowed_by(windows).count(store="n", emit="close")  # type: ignore[arg-type]
        return counts.to_stream(lambda window, _: str(window.key), key=str)

    return declare


def joined(kind: str) -> Declare:
    def declare(builder: StreamsBuilder) -> KStream[Any, Any]:
        left = builder.stream("in", key=str, value=str)
        right = builder.stream("other", key=str, value=str)
        near = JoinWindows.symmetric(TEN, grace=timedelta(0))
        return getattr(left, kind)(right, lambda one, other: 1, windows=near, name="j", value=int)

    return declare


FINAL: dict[str, Declare] = {
    "tumbling": closing(TumblingWindows(size=TEN, grace=timedelta(0))),
    "hopping": closing(HoppingWindows(size=TEN, advance=TEN, grace=timedelta(0))),
    "sliding": closing(SlidingWindows(difference=TEN, grace=timedelta(0))),
    "sessions": closing(SessionWindows(gap=TEN, grace=timedelta(0))),
    "left join": joined("left_join"),
    "outer join": joined("outer_join"),
}


#: to the builder, the driver and the application
SECOND = {
    "window_emit_interval": timedelta(seconds=1),
    "outer_join_emit_interval": timedelta(seconds=1),
}
AT_ONCE = dict.fromkeys(SECOND, timedelta(0))


def seen_without_the_wall_clock(
    declare: Declare,
    built: Mapping[str, timedelta] = MappingProxyType({}),
    driven: Mapping[str, timedelta] = MappingProxyType({}),
) -> list[list[str]]:
    builder = StreamsBuilder(**built)
    declare(builder).to("out", value=int)
    seen = []
    with TopologyTestDriver(builder.build(), **driven) as driver:
        for key, time in (("a", 0), ("b", 15), ("c", 26)):
            driver.pipe("in", key, "x", timestamp=time)
            seen.append([key for key, _ in driver.read("out", value=int)])
    return seen


@pytest.mark.parametrize("declare", FINAL.values(), ids=FINAL)
def test_what_is_final_is_sent_by_the_record_that_ends_it(declare: Declare) -> None:
    assert seen_without_the_wall_clock(declare) == [[], ["a"], ["b"]]


@pytest.mark.parametrize("declare", FINAL.values(), ids=FINAL)
def test_an_interval_that_the_builder_was_given_counts_in_the_driver_too(declare: Declare) -> None:
    assert is_seldom(seen_without_the_wall_clock(declare, built=SECOND))


@pytest.mark.parametrize("declare", FINAL.values(), ids=FINAL)
def test_the_interval_that_the_driver_is_given_goes_before_the_builders(declare: Declare) -> None:
    seen = seen_without_the_wall_clock(declare, built=SECOND, driven=AT_ONCE)
    assert seen == [[], ["a"], ["b"]]
    assert is_seldom(seen_without_the_wall_clock(declare, built=AT_ONCE, driven=SECOND))
    assert is_seldom(seen_without_the_wall_clock(declare, driven=SECOND))


def is_seldom(seen: list[list[str]]) -> bool:
    """The first look may be at once, no other is."""
    return [key for keys in seen for key in keys] in ([], ["a"])


@pytest.mark.parametrize("declare", FINAL.values(), ids=FINAL)
def test_after_the_interval_a_record_sends_what_is_final(declare: Declare) -> None:
    builder = StreamsBuilder()
    declare(builder).to("out", value=int)
    seen = []
    with TopologyTestDriver(builder.build(), **SECOND) as driver:
        for key, time in (("a", 0), ("b", 15), ("c", 26), ("d", 37)):
            driver.pipe("in", key, "x", timestamp=time)
            seen += [key for key, _ in driver.read("out", value=int)]
            driver.advance_wall_clock(timedelta(seconds=1))
    assert seen == ["a", "b", "c"]


def test_each_interval_is_of_its_own_kind() -> None:
    windows, joins = SECOND
    one = {windows: SECOND[windows], joins: timedelta(0)}
    other = {windows: timedelta(0), joins: SECOND[joins]}
    at_once = [[], ["a"], ["b"]]
    assert is_seldom(seen_without_the_wall_clock(FINAL["tumbling"], driven=one))
    assert seen_without_the_wall_clock(FINAL["left join"], driven=one) == at_once
    assert seen_without_the_wall_clock(FINAL["tumbling"], driven=other) == at_once
    assert is_seldom(seen_without_the_wall_clock(FINAL["left join"], driven=other))


@pytest.mark.parametrize("name", SECOND)
@pytest.mark.parametrize("given", [timedelta(seconds=-1), 5])
def test_an_interval_that_is_none_is_refused(name: str, given: Any) -> None:
    builder = StreamsBuilder()
    FINAL["tumbling"](builder).to("out", value=int)
    with pytest.raises(ConfigError, match=f"{name} must be"):
        TopologyTestDriver(builder.build(), **{name: given})


HOUR = dict.fromkeys(SECOND, timedelta(hours=1))


@pytest.mark.parametrize(
    ("built", "run", "sent"), [(HOUR, AT_ONCE, ["a", "b"]), (AT_ONCE, HOUR, [])], ids=["0", "hour"]
)
def test_what_the_application_is_given_goes_before_the_builders(
    built: dict[str, timedelta], run: dict[str, timedelta], sent: list[str], tmp_path: Path
) -> None:
    builder = StreamsBuilder(**built)
    FINAL["tumbling"](builder).to("out", value=int)
    builder.stream("in", key=str, value=str).to("seen")
    cluster = unhurried({"in": 1, "out": 1, "seen": 1})
    for key, time in ((b"a", 1), (b"b", 15), (b"c", 26)):
        cluster.produce("in", key, b"x", timestamp=time)
    with Application(
        builder.build(),
        application_id="app",
        bootstrap="fake:9092",
        state_dir=tmp_path,
        cluster=cluster,
        **run,
    ):
        cluster.wait_for_records("seen", 3, PATIENCE_S)
    assert [record.key().decode() for record in cluster.records("out")] == sent


@pytest.mark.parametrize("declare", FINAL.values(), ids=FINAL)
def test_a_crash_holds_nothing_back(declare: Declare) -> None:
    builder = StreamsBuilder()
    declare(builder).to("out", value=int)
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe("in", "a", "x", timestamp=0)
        driver.crash()
        driver.pipe("in", "b", "x", timestamp=15)
        assert [key for key, _ in driver.read("out", value=int)] == ["a"]
