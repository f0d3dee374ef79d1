"""Orders, two records of all aggregates over them, and the same by a plain loop."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import msgspec
from hypothesis import strategies as st

from logstate.topology import (
    Aggregates,
    Collect,
    Count,
    CountDistinct,
    First,
    KGroupedStream,
    Last,
    Max,
    Mean,
    Min,
    StdDev,
    StreamsBuilder,
    Sum,
    TopN,
)


class Order(msgspec.Struct, frozen=True):
    cents: float | None
    who: str = "x"


def cents_of(order: Order) -> float | None:
    return order.cents


class Everything(Aggregates[Order]):
    n = Count()
    paid = Count(cents_of)
    total = Sum(cents_of)
    mean = Mean(cents_of)
    low = Min(cents_of)
    high = Max(cents_of)
    first = First(cents_of)
    last = Last(cents_of)
    spread = StdDev(cents_of)
    users: CountDistinct[Order] = CountDistinct(lambda order: order.who)
    few_users: CountDistinct[Order] = CountDistinct(lambda order: order.who, limit=2)
    few_values: CountDistinct[Order] = CountDistinct(cents_of, limit=4)
    top = TopN(cents_of, 3)
    all = Collect(cents_of)
    some = Collect(cents_of, limit=2)


class Subtractable(Aggregates[Order]):
    n = Count()
    paid = Count(cents_of)
    total = Sum(cents_of)
    mean = Mean(cents_of)
    spread = StdDev(cents_of)
    users: CountDistinct[Order] = CountDistinct(lambda order: order.who)
    all = Collect(cents_of)


def welford(values: Sequence[float]) -> float | None:
    count, mean, m2 = 0, 0.0, 0.0
    for value in values:
        count += 1
        difference = value - mean
        mean += difference / count
        m2 += difference * (value - mean)
    return math.sqrt(m2 / (count - 1)) if count > 1 else None


def loop(values: Sequence[float]) -> float | None:
    total = None
    for value in values:
        total = value if total is None else total + value
    return total


def everything(orders: Sequence[Order]) -> Any:
    """The record of these orders, by a plain loop."""
    values = [one.cents for one in orders if one.cents is not None]
    total = loop(values)
    return Everything(
        n=len(orders),
        paid=len(values),
        total=total,
        mean=None if total is None else total / len(values),
        low=min(values, default=None),
        high=max(values, default=None),
        first=values[0] if values else None,
        last=values[-1] if values else None,
        spread=welford(values),
        users=len({one.who for one in orders}),
        few_users=min(len({one.who for one in orders}), 2),
        few_values=min(len(set(values)), 4),
        top=tuple(sorted(values, reverse=True)[:3]),
        all=tuple(values),
        some=tuple(values[:2]),
    )


ORDERS = st.builds(
    Order,
    st.none() | st.integers(-9, 9) | st.floats(-1e6, 1e6, allow_subnormal=False),
    st.sampled_from("abc"),
)
RECORDS = st.lists(st.tuples(st.sampled_from("ab"), ORDERS, st.integers(0, 60)), max_size=20)
Records = list[tuple[str, Order, int]]


def ms(number: int) -> timedelta:
    return timedelta(milliseconds=number)


def grouped(builder: StreamsBuilder) -> KGroupedStream[str, Order]:
    return builder.stream("in", key=str, value=Order).group_by_key()
