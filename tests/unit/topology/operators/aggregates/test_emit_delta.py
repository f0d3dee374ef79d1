"""emit="delta": the sums of deltas are the rows, with windows and without, also after crashes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from decimal import Decimal
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstate.contracts.errors import TopologyError
from logstate.testing.driver import TopologyTestDriver
from logstate.topology import (
    Aggregate,
    Count,
    HoppingWindows,
    KGroupedStream,
    KTable,
    Materialized,
    Mean,
    Min,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    Sum,
    Topology,
    TumblingWindows,
)

TEN, FOUR = timedelta(milliseconds=10), timedelta(milliseconds=4)
LATE = timedelta(milliseconds=15)
Grouped = KGroupedStream[str, int]
Build = Callable[[Grouped], KTable[Any, Any]]
ROWS = Materialized("rows", retention=timedelta(days=1))
RECORDS = st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(-3, 9), st.integers(0, 60)), max_size=25
)


def minus(new: int, old: int) -> int:
    return new - old


def plain(grouped: Grouped) -> KTable[Any, Any]:
    return grouped.reduce(lambda a, b: a + b, store="rows", emit="delta", difference=minus)


def deleting(grouped: Grouped) -> KTable[Any, Any]:
    """A row whose sum is zero is deleted."""
    rows = Materialized("rows", value=int, deletes=True)
    return grouped.aggregate(
        int, lambda sum_, n: sum_ + n or None, store=rows, emit="delta", difference=minus
    )


def mutable(grouped: Grouped) -> KTable[Any, Any]:
    """Aggregates that their functions change in place."""

    def add(counts: dict[str, int], n: int) -> dict[str, int]:
        counts[str(n)] = counts.get(str(n), 0) + 1
        return counts

    def difference(new: dict[str, int], old: dict[str, int]) -> dict[str, int]:
        for n, count in old.items():
            new[n] = new.get(n, 0) - count
        return new

    options: Any = {"value": dict, "emit": "delta", "difference": difference}
    return grouped.aggregate(dict, add, store="rows", **options)


def tumbling(grouped: Grouped) -> KTable[Any, Any]:
    windows = TumblingWindows(size=TEN, grace=LATE)
    return grouped.windowed_by(windows).count(store=ROWS, emit="delta")


def hopping(grouped: Grouped) -> KTable[Any, Any]:
    windows = HoppingWindows(size=TEN, advance=FOUR, grace=LATE)
    return grouped.windowed_by(windows).count(store=ROWS, emit="delta")


def sliding(grouped: Grouped) -> KTable[Any, Any]:
    windows = SlidingWindows(difference=TEN, grace=LATE)
    return grouped.windowed_by(windows).count(store=ROWS, emit="delta")


def sessions(grouped: Grouped) -> KTable[Any, Any]:
    windows = SessionWindows(gap=FOUR, grace=LATE)
    return grouped.windowed_by(windows).reduce(
        lambda a, b: a + b, store=ROWS, emit="delta", difference=minus
    )


def records(grouped: Grouped) -> KTable[Any, Any]:
    windows = TumblingWindows(size=TEN, grace=LATE)
    grouped = grouped.windowed_by(windows)  # type: ignore[assignment]
    return grouped.agg(n=Count(), sum=Sum(lambda n: n or None), store=ROWS, emit="delta")


def cogrouped(grouped: Grouped) -> KTable[Any, Any]:
    other = grouped.builder.stream("in", key=str, value=int).map_values(lambda n: 10 * n, value=int)
    both = grouped.cogroup(lambda sum_, n: sum_ + n)
    both = both.cogroup(other.group_by_key(), lambda sum_, n: sum_ + n)
    return both.aggregate(int, value=int, store="rows", emit="delta", difference=minus)


def cogrouped_sessions(grouped: Grouped) -> KTable[Any, Any]:
    other = grouped.builder.stream("in", key=str, value=int).map_values(lambda n: 10 * n, value=int)
    both = grouped.cogroup(n=Count()).cogroup(other.group_by_key(), sum=Sum(lambda n: n))
    return both.windowed_by(SessionWindows(gap=FOUR, grace=LATE)).agg(store=ROWS, emit="delta")


def of_table(grouped: Grouped) -> KTable[Any, Any]:
    table = grouped.reduce(lambda _, new: new, store="last")
    groups = table.group_by(lambda key, n: (str(n % 2), n), name="by", key=str, value=int)
    return groups.reduce(lambda a, n: a + n, lambda a, n: a - n, store="rows", emit="delta")


def records_of_table(grouped: Grouped) -> KTable[Any, Any]:
    table = grouped.reduce(lambda _, new: new, store="last")
    groups = table.group_by(lambda key, n: (str(n % 3), n), name="by", key=str, value=int)
    return groups.agg(n=Count(), sum=Sum(lambda n: n), store="rows", emit="delta")


EVERY: list[Build] = [
    plain,
    deleting,
    mutable,
    tumbling,
    hopping,
    sliding,
    sessions,
    records,
    cogrouped,
    cogrouped_sessions,
    of_table,
    records_of_table,
]


def numbers(value: Any) -> Counter[str]:
    """The numbers of a value by field, those that are not zero."""
    if not isinstance(value, dict):
        value = {"": value}
    return Counter({name: n for name, n in value.items() if n})


def added(deltas: Sequence[tuple[Any, Any]]) -> dict[Any, Counter[str]]:
    """The sums per key, those that are not zero."""
    sums: dict[Any, Counter[str]] = {}
    for key, delta in deltas:
        found = sums.setdefault(key, Counter())
        found.update(numbers(delta))
    return {key: numbers(found) for key, found in sums.items() if numbers(found)}


def shown(key: Any) -> str:
    return key if isinstance(key, str) else f"{key.key}@{key.start_ms}-{key.end_ms}"


@cache
def topology(build: Build) -> Topology:
    """The deltas go to a topic, with plain keys and values."""
    builder = StreamsBuilder()
    table = build(builder.stream("in", key=str, value=int).group_by_key())
    deltas = table.to_stream(lambda key, _: shown(key), key=str)
    deltas.map_values(_plain, value=value_of(build)).to("deltas")
    return builder.build()


def value_of(build: Build) -> type:
    return dict if build in (records, mutable, cogrouped_sessions, records_of_table) else int


def outcome(
    build: Build, inputs: list[tuple[str, int, int]], commit_every: int, crash_at: int = -1
) -> tuple[list[tuple[str, Any]], dict[str, Counter[str]]]:
    """Every delta, and the rows at the end."""
    with TopologyTestDriver(topology(build), commit_every=commit_every) as driver:
        for number, record in enumerate(inputs):
            if number == crash_at:
                driver.crash(loses_disk=number % 2 == 0)
            driver.pipe_all("in", [record])
        for _ in range(2):  # commits, the second time what the first one sent on
            driver.advance_wall_clock(0)
        rows = {shown(key): numbers(_row(row)) for key, row in driver.store("rows").all()}
        deltas = driver.read("deltas", value=value_of(build))
        return deltas, {key: n for key, n in rows.items() if n}


def _plain(value: Any) -> Any:
    fields = getattr(value, "__struct_fields__", None)
    return value if fields is None else {name: getattr(value, name) for name in fields}


def _row(row: Any) -> Any:
    found = _plain(getattr(row, "value", row))
    if isinstance(found, dict):
        return {name: n for name, n in found.items() if name not in ("sum_count", "row_count")}
    return found


@pytest.mark.parametrize("build", EVERY, ids=lambda build: build.__name__)
@given(inputs=RECORDS, commit_every=st.integers(1, 6), crash_at=st.integers(0, 24))
def test_deltas_add_up_to_the_rows_whenever_a_crash_happens(
    build: Build, inputs: list[tuple[str, int, int]], commit_every: int, crash_at: int
):
    deltas, rows = outcome(build, inputs, commit_every, crash_at)

    assert added(deltas) == rows


@given(inputs=RECORDS, commit_every=st.integers(1, 6))
def test_deltas_of_windows_are_the_records_accepted_since_the_commit_before(
    inputs: list[tuple[str, int, int]], commit_every: int
):
    """The model: a list of accepted records, cut at the commits."""
    newest, accepted = -1, list[tuple[str, int]]()
    for key, _, time in inputs:
        newest = max(newest, time)
        start = time // 10 * 10
        if start + 10 + 15 > newest:
            accepted.append((f"{key}@{start}-{start + 10}", 1))
        else:
            accepted.append(("", 0))
    wanted: list[tuple[str, int]] = []
    for place in range(0, len(accepted), commit_every):
        block = [one for one in accepted[place : place + commit_every] if one[0]]
        last_first = list(dict.fromkeys(key for key, _ in reversed(block)))
        wanted += [(key, sum(n for k, n in block if k == key)) for key in reversed(last_first)]

    found, _ = outcome(tumbling, inputs, commit_every)
    assert found == wanted


def test_a_session_that_grows_takes_back_what_it_added_to_its_old_window():
    inputs = [("a", 5, 10), ("a", 2, 12), ("b", 1, 13)]
    found, _ = outcome(sessions, inputs, 1)
    assert found == [("a@10-10", 5), ("a@10-10", -5), ("a@10-12", 7), ("b@13-13", 1)]


def test_an_older_version_of_a_row_adds_nothing():
    builder = StreamsBuilder()
    rows = Materialized("rows", history=timedelta(seconds=1), deletes=True)
    grouped = builder.stream("in", key=str, value=int).group_by_key()
    table = grouped.aggregate(
        int, lambda sum_, n: sum_ + n if n else None, value=int, store=rows, emit="delta",
        difference=minus,
    )  # fmt: skip
    table.to_stream().to("deltas")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_all("in", [("a", 5, 10), ("a", 0, 7), ("a", 2, 20)])
        found = driver.read("deltas", value=int)
        row = driver.store("rows").get("a")
    assert sum(n for _, n in found) == row.value


def test_an_aggregate_of_a_user_has_deltas_with_a_difference():
    class Spent(Aggregate[int, Decimal, Decimal]):
        def initial(self) -> Decimal:
            return Decimal(0)

        def add(self, state: Decimal, value: int) -> Decimal:
            return state + Decimal(value) / 100

        def difference(self, new: Decimal, old: Decimal) -> Decimal:
            return new - old

    builder = StreamsBuilder()
    grouped = builder.stream("in", key=str, value=int).group_by_key()
    deltas = grouped.agg(spent=Spent(), store="rows", emit="delta").to_stream()
    deltas.map_values(lambda row: str(row.spent), value=str).to("out")
    with TopologyTestDriver(builder.build(), commit_every=2) as driver:
        driver.pipe_all("in", [("a", 150, 0), ("a", 25, 1), ("a", 10, 2), ("a", 1, 3)])
        assert driver.read("out", value=str) == [("a", "1.75"), ("a", "0.11")]


def grouped() -> Grouped:
    return StreamsBuilder().stream("in", key=str, value=int).group_by_key()


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (
            lambda: grouped().reduce(lambda a, b: a + b, store="rows", emit="delta"),
            r"only you know .* Give difference=lambda new, old: new - old, or use count\(\) or agg",
        ),
        (
            lambda: grouped().agg(mean=Mean(lambda n: n), store="rows", emit="delta"),
            r"mean=Mean\(...\) has results that do not add up. Use Count\(\) and Sum\(...\)",
        ),
        (
            lambda: grouped().agg(n=Count(), low=Min(lambda n: n), store="rows", emit="delta"),
            r"low=Min\(...\) has results that do not add up",
        ),
        (
            lambda: grouped().reduce(lambda a, b: a + b, store="rows", difference=minus),
            r'difference= is for emit="delta".* found emit="update"',
        ),
        (
            lambda: grouped().reduce(
                lambda a, b: a + b, store="rows", emit="delta", difference=lambda new: new
            ),
            r"difference .* does not fit.*\(new, old\)",
        ),
        (
            lambda: grouped().count(store="rows", emit="delta").map_values(lambda n: n, value=int),
            r'has emit="delta": it sends the changes .* Call to_stream\(\) on the table first',
        ),
        (
            lambda: grouped().count(store="rows", emit="delta").to_change_stream(),
            r'has emit="delta"',
        ),
        (
            lambda: grouped().count(store="rows", emit="deltas"),  # type: ignore[arg-type]
            r'emit must be "update", "commit", "close" or "delta"',
        ),
    ],
)
def test_what_has_no_deltas_is_refused(declare: Callable[[], object], message: str):
    with pytest.raises(TopologyError, match=message):
        declare()


def test_the_rows_of_a_table_with_deltas_can_be_joined_with_a_stream():
    builder = StreamsBuilder()
    clicks = builder.stream("in", key=str, value=int)
    counts = clicks.group_by_key().count(store="rows", emit="delta")
    clicks.join(counts, lambda n, count: 10 * n + count).map_values(lambda n: n, value=int).to(
        "out"
    )
    with TopologyTestDriver(builder.build(), commit_every=10) as driver:
        driver.pipe_all("in", [("a", 1, 0), ("a", 2, 1)])
        assert driver.read("out", value=int) == [("a", 11), ("a", 22)]


def sums_of(emit: Any, inputs: list[tuple[str, int, int]], commit_every: int) -> Counter[str]:
    """Return the sums of the deltas, or of the changes, of rows that expire after 9 ms."""
    builder = StreamsBuilder()
    grouped = builder.stream("in", key=str, value=int).group_by_key()
    rows = Materialized("rows", ttl=timedelta(milliseconds=9))
    table = grouped.agg(total=Sum(lambda n: n), store=rows, emit=emit)
    if emit == "delta":
        table.to_stream().map_values(lambda row: row.total, value=int).to("out")
    else:
        changes = table.to_change_stream()
        totals = changes.map_values(
            lambda one: one.new.total - (one.old.total if one.old else 0), value=int
        )
        totals.to("out")
    with TopologyTestDriver(builder.build(), commit_every=commit_every) as driver:
        driver.pipe_all("in", inputs)
        driver.advance_wall_clock(1)
        found = Counter[str]()
        for key, n in driver.read("out", value=int):
            found[key] += n
    return found


@pytest.mark.parametrize("emit", ["delta", "commit"])
@given(inputs=RECORDS, commit_every=st.integers(2, 30))
def test_a_row_that_expires_and_is_written_again_within_a_commit_loses_nothing(
    emit: str, inputs: list[tuple[str, int, int]], commit_every: int
):
    assert sums_of(emit, inputs, commit_every) == sums_of(emit, inputs, 1)
