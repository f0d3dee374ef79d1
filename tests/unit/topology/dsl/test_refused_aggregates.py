"""What agg refuses: aggregates without a method, names, values, arguments."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from logstate.contracts.errors import ProcessingError, TopologyError
from logstate.testing import TopologyTestDriver
from logstate.topology import (
    Aggregate,
    Aggregates,
    Collect,
    Count,
    CountDistinct,
    DecayedSum,
    Ewma,
    Max,
    Mean,
    Min,
    Quantile,
    StdDev,
    StreamsBuilder,
    Sum,
    TopN,
)
from tests.unit.topology.dsl.orders_aggregated import (
    Everything,
    Order,
    cents_of,
    grouped,
)

SECOND = timedelta(seconds=1)


def who_or_cents(order: Order) -> Any:
    return order.who if order.cents is None else order.cents


@pytest.mark.parametrize(
    ("aggregate", "said"),
    [
        (Sum(who_or_cents), r"x=Sum\(...\) takes values that can be added \(\+\)"),
        (Mean(who_or_cents), r"x=Mean\(...\) takes numbers"),
        (StdDev(who_or_cents), r"x=StdDev\(...\) takes numbers"),
        (Ewma(who_or_cents, alpha=0.5), r"x=Ewma\(...\) takes numbers"),
        (Quantile(who_or_cents, 0.5), r"x=Quantile\(...\) takes numbers"),
        (Min(who_or_cents), r"x=Min\(...\) takes values of one type that have an order"),
        (Max(who_or_cents), r"x=Max\(...\) takes values of one type that have an order"),
        (CountDistinct(who_or_cents), r"x=CountDistinct\(...\) takes values of one type"),
        (TopN(who_or_cents, 2), r"x=TopN\(...\) takes values of one type"),
    ],
    ids=lambda one: type(one).__name__ if isinstance(one, Aggregate) else "",
)
def test_a_value_that_an_aggregate_cannot_take_is_said_with_the_function_that_returned_it(
    aggregate: Any, said: str
) -> None:
    builder = StreamsBuilder()
    grouped(builder).agg(n=Count(), x=aggregate, store="s")
    where = r" and its function who_or_cents at .*_aggregates.py:\d+ returned 'ada' \(str\): "
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe("in", "a", Order(3.0, "bob"))
        with pytest.raises(ProcessingError, match=said + ".*" + where) as caught:
            driver.pipe("in", "a", Order(None, "ada"))
    assert "offset 1" in str(caught.value)
    assert "or None, which is ignored" in str(caught.value)


@pytest.mark.parametrize(
    ("aggregate", "said"),
    [
        (Ewma(lambda order: order.who, alpha=0.5), r"x=Ewma\(...\) takes numbers"),
        (Quantile(lambda order: order.who, 0.5), r"x=Quantile\(...\) takes numbers"),
        (DecayedSum(lambda order: order.who, half_life=SECOND, at=lambda _: 1), "'5' .* is text"),
        (DecayedSum(cents_of, half_life=SECOND, at=lambda _: None), "at of DecayedSum returned"),
    ],
)
def test_a_text_is_no_number_and_a_time_is_needed(aggregate: Any, said: str) -> None:
    builder = StreamsBuilder()
    grouped(builder).agg(x=aggregate, store="s")
    with (
        TopologyTestDriver(builder.build()) as driver,
        pytest.raises(ProcessingError, match=said),
    ):
        driver.pipe("in", "a", Order(3.0, "5"))


def test_an_error_of_a_users_function_below_an_aggregate_stays_as_it_is() -> None:
    def rank(value: Any) -> float:
        return 1 / value.cents

    builder = StreamsBuilder()
    grouped(builder).agg(best=TopN(lambda order: order, 2, Order, by=rank), store="s")
    with (
        TopologyTestDriver(builder.build()) as driver,
        pytest.raises(
            ProcessingError, match=r"test_refused_aggregates.py:\d+ in rank: ZeroDivisionError"
        ),
    ):
        driver.pipe("in", "a", Order(0, "ada"))


class WithoutInitial(Aggregate[Order, int, int]):
    def add(self, state: int, value: Order) -> int:
        return state + 1


class WithoutAdd(Aggregate[Order, int, int]):
    def initial(self) -> int:
        return 0


@pytest.mark.parametrize(
    ("aggregate", "method"), [(WithoutInitial(), "initial"), (WithoutAdd(), "add")]
)
def test_an_aggregate_without_a_method_that_every_one_needs_is_refused(
    aggregate: Any, method: str
) -> None:
    with pytest.raises(TopologyError, match=rf"x=Without.*has no method {method}\("):
        grouped(StreamsBuilder()).agg(x=aggregate, store="s")


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({}, "has no aggregates"),
    ({"x": 5}, "x= of agg must be an aggregate.*found 5"),
    ({"_x": Count()}, "cannot have the name '_x'"),
    ({"class": Count()}, "cannot have the name 'class'"),
    ({"aggregate": Count()}, "cannot have the name 'aggregate'"),
    ({"a b": Count()}, "cannot have the name 'a b': it is not a name of Python"),
    ({"x": Mean(cents_of), "x_sum": Count()}, "need a field 'x_sum' for a state"),
]


@pytest.mark.parametrize(("aggregates", "message"), REFUSED)
def test_a_record_that_cannot_be_is_refused(aggregates: dict[str, Any], message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        grouped(StreamsBuilder()).agg(**aggregates, store="s")


def test_a_class_and_names_together_are_refused() -> None:
    group: Any = grouped(StreamsBuilder())
    with pytest.raises(
        TopologyError, match=r"agg was given .*Everything.* and aggregates by name \(x\)"
    ):
        group.agg(Everything, x=Count(), store="s")
    with pytest.raises(TopologyError, match="takes a class of Aggregates"):
        group.agg(Order, store="s")


def test_a_field_without_an_aggregate_is_refused() -> None:
    with pytest.raises(TopologyError, match=r"Wrong\.total has no aggregate"):

        class Wrong(Aggregates[Order]):
            total: int
            n = Count()


def test_arguments_of_aggregates_are_checked() -> None:
    for make, message in [
        (lambda: TopN(cents_of, 0), "n of TopN must be a positive integer"),
        (lambda: TopN(cents_of, 1, by=lambda a, b: a), "by of TopN"),
        (lambda: Collect(cents_of, limit=-1), "limit of Collect must be a positive integer"),
        (lambda: CountDistinct(cents_of, limit=0), "limit of CountDistinct must be a positive"),
        (lambda: StdDev(cents_of, ddof=2), "ddof of StdDev"),
        (lambda: Ewma(cents_of, alpha=0), "alpha of Ewma must be a number above 0 and at most 1"),
        (lambda: Ewma(cents_of, alpha=1.5), "found 1.5"),
        (lambda: Ewma(cents_of, alpha=True), "found True"),
        (lambda: Sum(lambda a, b: a), "field of Sum"),
    ]:
        with pytest.raises(TopologyError, match=message):
            make()


def test_groups_of_a_cogroup_have_one_kind_of_aggregation() -> None:
    builder = StreamsBuilder()
    first, second = grouped(builder), builder.stream("b", key=str, value=Order).group_by_key()
    aggregates: Any = first.cogroup(n=Count())
    for make, message in [
        (lambda: first.cogroup(len, n=Count()), r"an aggregator and aggregates \(n\)"),
        (first.cogroup, "The aggregator None is not callable"),
        (lambda: aggregates.cogroup(second, n=Count()).agg(store="s"), "an aggregate 'n'"),
        (lambda: aggregates.aggregate(int, store="s"), "aggregates by name.*use agg"),
        (
            lambda: aggregates.cogroup(second, lambda n, _: n).agg(store="s"),
            "an aggregator.*use aggregate",
        ),
    ]:
        with pytest.raises(TopologyError, match=message):
            make()
