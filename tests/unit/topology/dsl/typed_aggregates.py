"""Checked by mypy and pyright as typed_topology.py: the fields of what ``agg`` computes, of
built-in aggregates and of a user's own generic ones; operators that order and select records.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Generic, TypeVar, assert_type

import msgspec

from logstate.contracts.late_record import LateRecord
from logstate.contracts.records import Windowed
from logstate.topology import (
    Aggregate,
    Aggregates,
    ApproxCountDistinct,
    Collect,
    Count,
    CountDistinct,
    DecayedMean,
    DecayedSum,
    Ewma,
    First,
    KStream,
    KTable,
    Last,
    Max,
    Mean,
    Min,
    Quantile,
    SessionWindows,
    StdDev,
    StreamsBuilder,
    Sum,
    TopN,
    TumblingWindows,
)

V = TypeVar("V")
N = TypeVar("N")


class Click(msgspec.Struct):
    user: str
    ms: int


class Total(Aggregates[Click]):
    clicks = Count()


class Longest(Aggregate[V, str, str], Generic[V]):
    def __init__(self, field: Callable[[V], str]) -> None:
        self.field = field

    def initial(self) -> str:
        return ""

    def add(self, state: str, value: V) -> str:
        return max(state, self.field(value), key=len)


class Values(Aggregate[V, list[N], tuple[N, ...]], Generic[V, N]):
    def __init__(self, field: Callable[[V], N]) -> None:
        self.field = field

    def initial(self) -> list[N]:
        return []

    def add(self, state: list[N], value: V) -> list[N]:
        return [*state, self.field(value)]

    def result(self, state: list[N]) -> tuple[N, ...]:
        return tuple(state)


class Milliseconds(Sum[Click, int]):
    """Derived from a built-in one."""


def user_of(click: Click) -> str:
    return click.user


DAY = timedelta(days=1)


class OfEach(Aggregates[Click]):
    longest: Longest[Click] = Longest(lambda click: click.user)
    longest_user = Longest(user_of)
    values: Values[Click, int] = Values(lambda click: click.ms)
    users = Values(user_of)
    total = Milliseconds(lambda click: click.ms)
    n = Count()
    named: Count[Click] = Count(lambda click: click.user)
    mean: Mean[Click] = Mean(lambda click: click.ms)
    spread: StdDev[Click] = StdDev(lambda click: click.ms)
    low: Min[Click, int] = Min(lambda click: click.ms)
    high = Max(user_of)
    first = First(user_of)
    last = Last(user_of)
    some = Collect(user_of, limit=3)
    best: TopN[Click, Click] = TopN(lambda click: click, 3, by=lambda click: click.ms)
    few: CountDistinct[Click] = CountDistinct(lambda click: click.user, limit=3)
    about = ApproxCountDistinct(user_of)
    p99: Quantile[Click] = Quantile(lambda click: click.ms, 0.99)
    smooth: Ewma[Click] = Ewma(lambda click: click.ms, alpha=0.5)
    load: DecayedSum[Click] = DecayedSum(
        lambda click: click.ms, half_life=DAY, at=lambda click: click.ms
    )
    lately: DecayedMean[Click] = DecayedMean(
        lambda click: click.ms, half_life=DAY, at=lambda click: click.ms
    )


class WrongFields(Aggregates[Click]):
    low: Min[Click, str] = Min(lambda click: click.ms)  # type: ignore[arg-type, return-value]
    longest: Longest[Click] = Longest(lambda click: click.ms)  # type: ignore[arg-type, return-value]


def fields_of_aggregates(row: OfEach) -> None:
    assert_type(row.longest, str)
    assert_type(row.longest_user, str)
    assert_type(row.values, tuple[int, ...])
    assert_type(row.users, tuple[str, ...])
    assert_type(row.total, int)
    assert_type(row.n, int)
    assert_type(row.named, int)
    assert_type(row.mean, float)
    assert_type(row.spread, float)
    assert_type(row.low, int)
    assert_type(row.high, str)
    assert_type(row.first, str)
    assert_type(row.last, str)
    assert_type(row.some, tuple[str, ...])
    assert_type(row.best, tuple[Click, ...])
    assert_type(row.few, int)
    assert_type(row.about, int)
    assert_type(row.p99, float)
    assert_type(row.smooth, float)
    assert_type(row.load, float)
    assert_type(row.lately, float)
    print(row.nothing)  # type: ignore[attr-defined]


def aggregated(clicks: KStream[str, Click], users: KTable[str, Click]) -> None:
    groups = clicks.group_by_key()
    assert_type(groups.agg(OfEach, store="each"), KTable[str, OfEach])
    sessions = groups.windowed_by(SessionWindows(gap=DAY))
    assert_type(sessions.agg(OfEach, store="each"), KTable[Windowed[str], OfEach])
    by_user = users.group_by(lambda click: (click.user, click))
    assert_type(by_user.agg(Total, store="t", emit="commit"), KTable[str, Total])
    assert_type(groups.agg(n=Count(), store="n"), KTable[str, Any])
    best = groups.top_n(3, by=lambda click: click.ms, store="best", emit="commit")
    assert_type(best, KTable[str, list[Click]])
    assert_type(by_user.top_n(3, lambda click: click.ms, store="b"), KTable[str, list[Click]])
    groups.top_n(3, by=lambda click: click.nothing, store="b")  # type: ignore[attr-defined]
    groups.top_n(3, by=lambda click: click.ms, store="b", emit="close")  # type: ignore[arg-type]


def selected(builder: StreamsBuilder, clicks: KStream[str, Click]) -> None:
    assert_type(clicks.sort_by_time(DAY, store="s", late="late"), KStream[str, Click])
    assert_type(clicks.sample(0.1, by="record", seed=3), KStream[str, Click])
    assert_type(clicks.throttle(3, TumblingWindows(size=DAY), store="t"), KStream[str, Click])
    gaps = clicks.scan(
        lambda: 0, lambda last, click: (click.ms, str(click.ms - last)), state=int, store="last"
    )
    assert_type(gaps, KStream[str, str])
    keyed = clicks.scan(
        lambda: 0, lambda key, click, last: (last + 1, len(key)), state=int, value=int, store="k"
    )
    assert_type(keyed, KStream[str, int])
    assert_type(clicks.batch(3, within=DAY, store="b").flatten(value=Click), KStream[str, Click])
    clicks.scan(lambda: 0, lambda last, click: 1, state=int, store="x")  # type: ignore[arg-type]
    assert_type(clicks.sample(every=3, name="third"), KStream[str, Click])
    clicks.sample(0.1, by="value")  # type: ignore[call-overload]
    clicks.sample(0.1, every=3)  # type: ignore[call-overload]
    late = builder.late("late", key=str, value=Click)
    assert_type(late, KStream[str, LateRecord[str, Click]])
    assert_type(late.map_values(lambda one: one.value.ms), KStream[str, int])
    assert_type(builder.late("late", value=Click), KStream[str, LateRecord[str, Click]])
    assert_type(builder.expired("gone", key=int, value=Click), KStream[int, Click])
    assert_type(builder.expired("gone", value=Click), KStream[str, Click])


async def length_of(click: Click) -> int:
    """A mapper that is awaited."""
    return click.ms


async def name_of(key: str, click: Click) -> str | None:
    """A mapper of key and value, which may have no result."""
    return None if click.ms == 0 else key + click.user


def awaited(clicks: KStream[str, Click]) -> None:
    assert_type(clicks.map_values_async(length_of), KStream[str, int])
    assert_type(clicks.map_values_async(name_of, value=str, concurrency=9), KStream[str, str])
    assert_type(clicks.map_values_async(length_of, value=int, timeout=DAY), KStream[str, int])
    clicks.map_values_async(lambda click: click.ms)  # type: ignore[arg-type,return-value]
    clicks.map_values_async(length_of, concurrency="9")  # type: ignore[call-overload]
    clicks.map_values_async(length_of, capacity=9)  # type: ignore[call-overload]
