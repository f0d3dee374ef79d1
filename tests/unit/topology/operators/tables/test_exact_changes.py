"""to_change_stream(): every change has the old value that was sent before, whatever is above."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import cache
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logstate.contracts.records import Windowed
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
    until_time_limit,
    until_window_closes,
)
from logstate.topology.declaring.windows import Emit
from tests.examples_tried import at_most

GAP_MS = 4
SIX, GRACE = timedelta(milliseconds=6), timedelta(milliseconds=5)
SESSIONS = SessionWindows(gap=timedelta(milliseconds=GAP_MS), grace=GRACE)
Build = Callable[[StreamsBuilder], KTable[Any, Any]]
#: no row has it before its first record
INITIAL = 100


def windowed(windows: Any, emit: Emit) -> Build:
    def build(builder: StreamsBuilder) -> KTable[Any, Any]:
        groups = builder.stream("in", value=int).group_by_key()
        rows = Materialized("rows", value=int, retention=timedelta(days=1))
        merger = [lambda a, b: a + b - INITIAL] if isinstance(windows, SessionWindows) else []
        return groups.windowed_by(windows).aggregate(  # type: ignore[no-any-return]
            lambda: INITIAL, lambda sum_, n: sum_ + n, *merger, store=rows, emit=emit
        )

    return build


WINDOWS = {
    "tumbling": TumblingWindows(size=SIX, grace=GRACE),
    "hopping": HoppingWindows(size=SIX, advance=timedelta(milliseconds=2), grace=GRACE),
    "sliding": SlidingWindows(difference=SIX, grace=GRACE),
    "sessions": SESSIONS,
}


def plain(builder: StreamsBuilder) -> KTable[Any, Any]:
    groups = builder.stream("in", value=int).group_by_key()
    rows = Materialized("rows", value=int, deletes=True)
    return groups.aggregate(lambda: INITIAL, lambda sum_, n: (n and sum_ + n) or None, store=rows)


def lists(builder: StreamsBuilder) -> KTable[Any, Any]:
    """Sliding windows of an aggregate that its aggregator changes."""

    def add(found: list[int], n: int) -> list[int]:
        found.append(n)
        return found

    groups = builder.stream("in", value=int).group_by_key().windowed_by(WINDOWS["sliding"])
    rows = Materialized("rows", value=list, retention=timedelta(days=1))
    return groups.aggregate(list, add, store=rows).map_values(sum, value=int)


def cogrouped(builder: StreamsBuilder) -> KTable[Any, Any]:
    groups = builder.stream("in", value=int).group_by_key()
    more = builder.stream("in", value=int).map_values(lambda n: 10 * n, value=int).group_by_key()
    both = groups.cogroup(lambda sum_, n: sum_ + n).cogroup(more, lambda sum_, n: sum_ + n)
    rows = Materialized("rows", value=int, retention=timedelta(days=1))
    return both.windowed_by(SESSIONS).aggregate(int, lambda a, b: a + b, store=rows)


def joined(builder: StreamsBuilder) -> KTable[Any, Any]:
    odd = builder.stream("in", value=int).filter(lambda n: n % 2 == 1).group_by_key()
    return plain(builder).outer_join(
        odd.count(store="odd"), lambda a, b: (a or 0) - (b or 0), value=int
    )


def foreign(builder: StreamsBuilder) -> KTable[Any, Any]:
    table = plain(builder)
    keys = table.map_values(lambda n: "ab"[n % 2], value=str)
    return keys.join(
        table, foreign_key=lambda n: n, joiner=lambda _, n: n, name="fk", store="fk", value=int
    )


def suppressed(builder: StreamsBuilder, windows: str = "tumbling") -> KTable[Any, Any]:
    table = windowed(WINDOWS[windows], "update")(builder)
    return table.suppress(until_window_closes(), name="finals")


def limited(builder: StreamsBuilder) -> KTable[Any, Any]:
    return plain(builder).suppress(until_time_limit(timedelta(milliseconds=3)), name="slow")


TABLES: dict[str, Build] = {
    f"{name}, {emit}": windowed(windows, emit)
    for name, windows in WINDOWS.items()
    for emit in ("update", "commit", "close")
}
TABLES |= {
    "aggregate": plain,
    "sliding lists": lists,
    "mapped": lambda builder: plain(builder).map_values(lambda n: -n, value=int),
    "filtered": lambda builder: plain(builder).filter(lambda n: n > INITIAL + 5),
    "cogrouped": cogrouped,
    "joined": joined,
    "foreign-key join": foreign,
    "suppressed": suppressed,
    "suppressed sessions": lambda builder: suppressed(builder, "sessions"),
    "limited": limited,
}
RECORDS = st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(0, 9), st.integers(0, 40)), max_size=25
)


CRASHES = st.frozensets(st.integers(0, 24), max_size=2)


@cache
def topology(name: str) -> Topology:
    """The changes, and a group of the same table that subtracts."""
    builder = StreamsBuilder()
    table = TABLES[name](builder)
    changes = table.to_change_stream().map(
        lambda key, one: (shown(key), [one.old, one.new]), key=str, value=list
    )
    changes.to("changes")
    sums = table.group_by(lambda key, n: ("all", n), key=str, value=int, name="all").reduce(
        lambda a, n: a + n, lambda a, n: a - n, store="sum"
    )
    sums.to_stream().to("sums")
    return builder.build()


def shown(key: Any) -> str:
    return f"{key.key}@{key.start_ms}-{key.end_ms}" if isinstance(key, Windowed) else str(key)


@pytest.mark.parametrize("name", TABLES)
@settings(max_examples=at_most(25))
@given(records=RECORDS, commit_every=st.integers(1, 5), crashes=CRASHES)
def test_each_old_value_is_the_new_one_before_and_a_group_adds_up(
    name: str, records: list[tuple[str, int, int]], commit_every: int, crashes: frozenset[int]
) -> None:
    with TopologyTestDriver(topology(name), commit_every=commit_every) as driver:
        for place, record in enumerate(records):
            driver.pipe_all("in", [record])
            if place in crashes:
                driver.crash(loses_disk=True)
        for _ in range(3):  # what a commit emits is grouped below, and committed
            driver.advance_wall_clock(0)
        rows: dict[str, int | None] = {}
        for key, (old, new) in driver.read("changes", value=list):
            assert rows.get(key) == old, key
            rows[key] = new
        found = driver.store("sum").get("all")
        assert (found.value if found else 0) == sum(value or 0 for value in rows.values())
        if name.endswith(("update", "commit")):
            kept = {shown(key): row for key, row in driver.store("rows").all()}
            values = {key: getattr(row, "value", row) for key, row in kept.items()}
            assert {key: n for key, n in rows.items() if n is not None} == values
    if "sessions" in name:
        assert_apart([key for key, n in rows.items() if n is not None])


def assert_apart(sessions: list[str]) -> None:
    """What was sent and not taken back are sessions that could not be one."""
    spans = sorted(
        (key, *map(int, span.split("-"))) for key, _, span in (s.partition("@") for s in sessions)
    )
    for (key, _, end), (next_key, start, _) in pairwise(spans):
        assert key != next_key or start > end + GAP_MS


def test_a_final_session_that_a_later_one_takes_in_is_taken_back() -> None:
    with TopologyTestDriver(topology("sessions, close")) as driver:
        # 14 is within the gap of 10, and not late itself when the session of 10 is final.
        driver.pipe_all("in", [("a", 1, 10), ("b", 2, 20), ("a", 3, 14), ("b", 4, 60)])
        changes = driver.read("changes", value=list)
    assert changes == [
        ("a@10-10", [None, INITIAL + 1]),
        ("a@10-10", [INITIAL + 1, None]),
        ("a@10-14", [None, INITIAL + 4]),
        ("b@20-20", [None, INITIAL + 2]),
    ]
