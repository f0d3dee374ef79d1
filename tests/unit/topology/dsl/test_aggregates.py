"""What agg accepts: aggregates, their types, users' own; and what a table or sessions refuse."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any, Generic, NamedTuple, TypeVar, get_type_hints

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstate.contracts.errors import ProcessingError, TopologyError
from logstate.serdes.built_in import type_of
from logstate.testing import TopologyTestDriver
from logstate.topology import (
    Aggregate,
    Aggregates,
    Collect,
    Count,
    CountDistinct,
    First,
    Last,
    Max,
    Mean,
    Min,
    SessionWindows,
    StreamsBuilder,
    Sum,
    TopN,
    TumblingWindows,
)
from tests.unit.topology.dsl.orders_aggregated import (
    Order,
    cents_of,
    grouped,
)

V = TypeVar("V")
N = TypeVar("N")


@pytest.mark.parametrize(
    ("aggregate", "alternative"),
    [
        (Min(cents_of), r"Use x=Collect\(\.\.\.\).*min\(row\.x\)"),
        (Max(cents_of), r"max\(row\.x\)"),
        (First(cents_of), r"row\.x\[0\]"),
        (Last(cents_of), r"row\.x\[-1\]"),
        (TopN(cents_of, 2), r"sorted\(row\.x, reverse=True\)\[:2\]"),
        (TopN(lambda one: one, 2, Order, by=cents_of), r"row\.x, key=\.\.\., reverse=True\)\[:2\]"),
        (Collect(cents_of, limit=3), "Leave the limit out"),
        (CountDistinct(cents_of, limit=3), "Leave the limit out"),
    ],
    ids=lambda one: type(one).__name__ if isinstance(one, Aggregate) else "",
)
def test_a_table_refuses_what_cannot_subtract_and_names_an_alternative(
    aggregate: Any, alternative: str
) -> None:
    table = StreamsBuilder().table("in", key=str, value=Order, store="rows")
    groups = table.group_by(lambda _, order: (order.who, order), name="by", key=str, value=Order)
    with pytest.raises(TopologyError, match=alternative):
        groups.agg(x=aggregate, store="s")


class InTens(Mean[int]):
    """The mean of values that are rounded down."""

    def take(self, state: Any, value: Any) -> Any:
        return super().take(state, value // 10 * 10)


class Doubled(Mean[int]):
    """Twice the mean."""

    def result(self, state: Any) -> Any:
        mean = super().result(state)
        return mean if mean is None else 2 * mean


class ByTwo(Count[int]):
    """Two per value."""

    def take(self, state: int, value: Any) -> int:
        return state + 2


def test_methods_of_classes_derived_from_built_in_aggregates_are_called() -> None:
    class Means(Aggregates[int]):
        plain = Mean(lambda number: number)
        in_tens = InTens(lambda number: number)
        doubled = Doubled(lambda number: number)
        by_two = ByTwo()

    found: Any = Means.aggregate([19, 15, 12])
    assert (found.plain, found.in_tens, found.doubled, found.by_two) == (46 / 3, 10, 92 / 3, 6)


@pytest.mark.parametrize("kind", [Count, Sum, Mean, Min, Max, First, Last])
@given(values=st.lists(st.none() | st.integers(-9, 9) | st.floats(-9, 9), min_size=1))
def test_the_text_of_a_step_does_what_the_methods_do(kind: Any, values: list[float | None]) -> None:
    def take(self: Any, state: Any, value: Any) -> Any:
        return kind.take(self, state, value)

    with_calls: Any = type("WithCalls", (kind,), {"take": take})
    text, called = kind(lambda order: order.cents), with_calls(lambda order: order.cents)
    assert text.take_text()
    assert not called.take_text()

    class Compared(Aggregates[Order]):
        by_text = text
        by_calls = called

    found: Any = Compared.aggregate([Order(value) for value in values])
    assert found.by_text == found.by_calls


class Longest(Aggregate[Order, list[str], int]):
    """A user's aggregate with a state that it changes in place."""

    def initial(self) -> list[str]:
        return []

    def add(self, state: list[str], value: Order) -> list[str]:
        state.append(value.who)
        return state

    def merge(self, a: list[str], b: list[str]) -> list[str]:
        return a + b

    def subtract(self, state: list[str], value: Order) -> list[str]:
        state.remove(value.who)
        return state

    def result(self, state: list[str]) -> int:
        return max(map(len, state), default=0)


def test_users_add_aggregates_and_keep_their_state_beside_the_result() -> None:
    builder = StreamsBuilder()
    table = grouped(builder).agg(longest=Longest(), store="s")
    assert msgspec.structs.fields(table.value.type)[0].type is int
    table.to_stream().to("out")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_all("in", [("a", Order(1, "xy"), 0), ("b", Order(2, "z"), 0)])
        driver.pipe("in", "a", Order(1, "xyz"))
        assert driver.read("out", value=dict) == [
            ("a", {"longest": 2}),
            ("b", {"longest": 1}),
            ("a", {"longest": 3}),
        ]
        row = driver.store("s").get("a").value
        assert (row.longest, row.longest_state) == (3, ["xy", "xyz"])


class OnlyAdds(Aggregate[Order, int, int]):
    def initial(self) -> int:
        return 0

    def add(self, state: int, value: Order) -> int:
        return state + 1


class Values(Aggregate[V, list[N], tuple[N, ...]], Generic[V, N]):
    """The values of a field; generic, as a user writes it."""

    def __init__(self, field: Callable[[V], N]) -> None:
        self.field = field

    def initial(self) -> list[N]:
        return []

    def add(self, state: list[N], value: V) -> list[N]:
        return [*state, self.field(value)]

    def result(self, state: list[N]) -> tuple[N, ...]:
        return tuple(state)


class Names(Values[Order, str]):
    """Derived from a generic one."""


class TotalOf(Sum[V, int], Generic[V]):
    """Derived from a built-in one."""


class Generics(Aggregates[Order]):
    cents: Values[Order, int] = Values(lambda order: int(order.cents or 0))
    names = Names(lambda order: order.who)
    lengths = Values[Order, int](lambda order: len(order.who))
    some: Any = Values(lambda order: order.who)
    total: TotalOf[Order] = TotalOf(lambda order: int(order.cents or 0) + 1)


def test_the_types_of_a_generic_aggregate_are_found_in_its_class_and_its_annotation() -> None:
    builder = StreamsBuilder()
    grouped(builder).agg(Generics, store="s")
    (spec,) = builder.build().sub_topologies[0].stores
    assert get_type_hints(type_of(spec.value)) == {
        "cents": tuple[int, ...],
        "cents_state": list[int],
        "names": tuple[str, ...],
        "names_state": list[str],
        "lengths": tuple[int, ...],
        "lengths_state": list[int],
        "some": tuple[Any, ...],
        "some_state": list[Any],
        "total": int | None,
    }
    assert Generics.aggregate([Order(3, "ada")]).names == ("ada",)


def test_an_aggregate_without_subtract_is_refused_by_a_table() -> None:
    table = StreamsBuilder().table("in", key=str, value=Order, store="rows")
    groups = table.group_by(lambda _, order: (order.who, order), name="by", key=str, value=Order)
    with pytest.raises(TopologyError, match=r"x=OnlyAdds.*has no method subtract\(state, value\)"):
        groups.agg(x=OnlyAdds(), store="s")


def test_an_aggregate_without_merge_is_refused_by_sessions_and_by_nothing_else() -> None:
    group = grouped(StreamsBuilder())
    gap = SessionWindows(gap=timedelta(seconds=1))
    with pytest.raises(TopologyError, match=r"x=OnlyAdds.*has no method merge\(a, b\)"):
        group.windowed_by(gap).agg(x=OnlyAdds(), store="s")
    with pytest.raises(TopologyError, match=r"x=OnlyAdds.*has no method merge\(a, b\)"):
        group.cogroup(x=OnlyAdds()).windowed_by(gap).agg(store="s")
    group.windowed_by(TumblingWindows(size=timedelta(seconds=1))).agg(x=OnlyAdds(), store="t")


class Line(NamedTuple):
    pieces: int


@dataclass
class Basket:
    lines: list[Line]
    tags: dict[str, str]
    at: tuple[int, float]
    spent: Decimal
    owner: Order | None = None


TYPES: list[tuple[Callable[[Any], Any], Any]] = [
    (lambda basket: basket.lines[0].pieces, int | None),
    (lambda basket: basket.tags["color"], str | None),
    (lambda basket: basket.at[1], float | None),
    (lambda basket: basket.spent, Decimal | None),
    (lambda basket: basket.owner.who, str | None),
    (lambda basket: basket.owner.cents if basket.owner is not None else None, float | None),
    (lambda basket: basket.lines[0].pieces + 1, Any),
    (lambda basket: basket.owner.who if basket.owner else "", Any),
    (lambda basket: basket.owner.who or basket.tags["color"], Any),
    (lambda basket: len(basket.lines), Any),
    (lambda basket: basket.nothing, Any),
    (cents_of, float | None),
    (str, str | None),
]


@pytest.mark.parametrize(("field", "type_"), TYPES)
def test_the_type_of_a_field_is_declared_or_found_from_what_its_function_selects(
    field: Callable[[Any], Any], type_: Any
) -> None:
    group = StreamsBuilder().stream("in", key=str, value=Basket).group_by_key()
    table = group.agg(x=Last(field), store="s")
    assert msgspec.structs.fields(table.value.type)[0].type == type_


def test_a_declared_type_is_that_of_the_field() -> None:
    group = StreamsBuilder().stream("in", key=str, value=dict).group_by_key()
    table = group.agg(a=Sum(lambda one: one["a"], int), b=Sum(lambda one: one["b"]), store="s")
    types = [one.type for one in msgspec.structs.fields(table.value.type)]
    assert types == [int | None, int | float | None]


def test_a_value_of_another_type_than_the_field_is_refused_when_it_is_written() -> None:
    builder = StreamsBuilder()
    group = builder.stream("in", key=str, value=dict).group_by_key()
    group.agg(cents=Sum(lambda one: one["cents"], int), store="s")
    with TopologyTestDriver(builder.build()) as driver, pytest.raises(ProcessingError):
        driver.pipe("in", "a", {"cents": "7"})
