"""Which callables fit which shape, and what the errors say."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

from logstate.contracts.errors import TopologyError
from logstate.testing import TopologyTestDriver
from logstate.topology import Processor, StreamsBuilder
from logstate.topology.declaring import callbacks

HERE = "tests/unit/topology/declaring/test_callbacks.py"


def test_one_parameter_means_the_value() -> None:
    assert callbacks.mapper(lambda value: value + 1)("key", 1) == 2


def test_two_parameters_mean_key_and_value() -> None:
    assert callbacks.mapper(lambda key, value: f"{key}{value}")("k", 1) == "k1"


def test_optional_parameters_do_not_count() -> None:
    def add(value: int, step: int = 10) -> int:
        return value + step

    assert callbacks.mapper(add)("key", 1) == 11


def test_a_parameter_with_a_default_is_used_where_nothing_is_required() -> None:
    assert callbacks.mapper(lambda value=None: value)("key", 7) == 7


@pytest.mark.parametrize("function", [int, str, float])
def test_a_callable_without_signature_takes_the_value(function: Any) -> None:
    assert callbacks.mapper(function)("key", "12") == function("12")


def test_a_bound_method_counts_without_self() -> None:
    class Scale:
        def by_two(self, value: int) -> int:
            return value * 2

    assert callbacks.mapper(Scale().by_two)("key", 4) == 8


def test_a_partial_counts_what_is_left() -> None:
    def scale(factor: int, value: int) -> int:
        return factor * value

    assert callbacks.mapper(functools.partial(scale, 3))("key", 4) == 12


def test_an_adapter_keeps_the_original_for_hot_closures() -> None:
    def double(value: int) -> int:
        return value * 2

    assert callbacks.mapper(double).by_value is double  # type: ignore[attr-defined]
    assert not hasattr(callbacks.mapper(lambda key, value: value), "by_value")


def test_the_short_aggregator_starts_with_the_aggregate() -> None:
    assert callbacks.aggregator(lambda aggregate, value: aggregate - value)("k", 1, 10) == 9


def test_the_long_aggregator_is_key_value_aggregate() -> None:
    def fold(key: str, value: int, aggregate: str) -> str:
        return f"{key}{value}{aggregate}"

    assert callbacks.aggregator(fold)("k", 1, "a") == "k1a"


def test_joiners_and_mergers_may_take_the_key() -> None:
    assert callbacks.joiner(lambda left, right: (left, right))("k", 1, 2) == (1, 2)
    assert callbacks.joiner(lambda key, left, right: (key, left, right))("k", 1, 2) == ("k", 1, 2)
    assert callbacks.merger(lambda a, b: a + b)("k", 1, 2) == 3


@pytest.mark.parametrize("make", [int, list, dict, lambda: 5])
def test_an_initializer_takes_nothing(make: Any) -> None:
    assert callbacks.initializer(make)() == make()


def test_an_initializer_with_a_parameter_is_refused() -> None:
    with pytest.raises(TopologyError, match=r"initializer .* required parameters"):
        callbacks.initializer(lambda value: value)


def test_a_processor_that_has_to_be_given_something_says_how_it_is_made() -> None:
    class Discount(Processor[str, int, str, int]):
        def __init__(self, percent: int, *, rounds: bool) -> None: ...

    told = (
        r"processor supplier .*Discount.* needs percent, rounds\. Give lambda: Discount\(\.\.\.\)"
    )
    with pytest.raises(TopologyError, match=told):
        callbacks.supplier(Discount)
    assert callbacks.supplier(made := lambda: Discount(5, rounds=True)) is made


def test_star_args_are_refused_because_they_fit_everything() -> None:
    with pytest.raises(TopologyError, match=r"\*args"):
        callbacks.mapper(lambda *args: args)


def test_required_keyword_parameters_are_refused() -> None:
    def mapper(value: int, *, factor: int) -> int:
        return value * factor

    with pytest.raises(TopologyError, match="keyword-only"):
        callbacks.mapper(mapper)


def test_too_many_parameters_are_refused_with_the_shapes_that_fit() -> None:
    with pytest.raises(TopologyError, match=r"3 required parameters.*\(value\) or \(key, value\)"):
        callbacks.mapper(lambda a, b, c: (a, b, c))


def test_a_callable_without_signature_is_no_reducer() -> None:
    with pytest.raises(TopologyError, match="lambda"):
        callbacks.reducer(int)


def test_something_that_is_no_callable_is_refused() -> None:
    with pytest.raises(TopologyError, match="not callable"):
        callbacks.mapper(5)  # type: ignore[arg-type]


def test_the_error_names_the_function_and_the_users_line() -> None:
    def wrong(a: int, b: int, c: int) -> int:
        return a + b + c

    with pytest.raises(TopologyError) as caught:
        callbacks.mapper(wrong)
    assert "wrong at" in str(caught.value)
    assert "test_callbacks.py" in str(caught.value)
    assert (caught.value.declared_at or "").startswith(
        "tests/unit/topology/declaring/test_callbacks.py:"
    )


def test_a_supplier_is_a_class_or_factory_not_an_object() -> None:
    with pytest.raises(TopologyError, match="give the class"):
        callbacks.supplier(object())  # type: ignore[arg-type]


@pytest.mark.parametrize("function", [max, min])
def test_the_built_in_functions_for_extremes_are_reducers(function: Callable[..., int]) -> None:
    builder = StreamsBuilder()
    numbers = builder.stream("in", key=str, value=int).group_by_key()
    numbers.reduce(function, store="extremes").to_stream().to("out")
    with TopologyTestDriver(builder.build()) as driver:
        for number in (3, 9, 2):
            driver.pipe("in", "a", number)
        found = [value for _, value in driver.read("out", key=str, value=int)]
    assert found == [3, function(3, 9), function(3, 9, 2)]
