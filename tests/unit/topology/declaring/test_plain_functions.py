"""Callbacks whose call does nothing are refused, or raise when it is seen."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from logstate import ErrorHandlers, Processor, StreamsBuilder, TopologyTestDriver
from logstate.contracts.errors import ConfigError, ProcessingError, TopologyError
from logstate.topology import KStream, ValueTransformer
from logstate.topology.declaring.plain_functions import check_plain, check_returns


async def awaited(value: Any) -> bool:
    return value is not None


async def awaited_values(value: Any) -> AsyncIterator[Any]:
    yield value


def yields(value: Any) -> Iterator[Any]:
    yield value


def forgets(value: str) -> None:
    value.upper()


def hidden(value: Any) -> Any:
    return awaited(value)


def hidden_with_key(key: Any, value: Any) -> Any:
    return awaited((key, value))


def hidden_generator(value: Any) -> Any:
    return yields(value)


def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any) -> Any:
        return function(*args)

    return wrapper


class Awaiting:
    async def __call__(self, value: Any) -> bool:
        return True

    async def method(self, value: Any) -> bool:
        return True


def stream() -> KStream[str, str]:
    return StreamsBuilder().stream("in", value=str)


@pytest.mark.parametrize(
    "function",
    [
        awaited,
        awaited_values,
        functools.partial(awaited),
        Awaiting(),
        Awaiting().method,
        decorated(awaited),
        functools.partial(decorated(awaited)),
    ],
)
def test_a_coroutine_function_is_refused_however_it_is_wrapped(function: Any) -> None:
    with pytest.raises(TopologyError, match=r"async.*would never run.*test_plain_functions"):
        check_plain(function, "predicate")


@pytest.mark.parametrize(
    "declare",
    [
        lambda s: s.filter(awaited),
        lambda s: s.filter_not(awaited),
        lambda s: s.map(awaited),
        lambda s: s.map_values(awaited),
        lambda s: s.flat_map(awaited),
        lambda s: s.flat_map_values(awaited_values),
        lambda s: s.select_key(awaited),
        lambda s: s.group_by(awaited),
        lambda s: s.peek(awaited),
        lambda s: s.foreach(awaited),
        lambda s: s.split().branch(awaited),
        lambda s: s.group_by_key().aggregate(awaited, lambda a, v: a, store="a", value=int),
        lambda s: s.to_table(store="t").filter(awaited),
    ],
)
def test_every_operator_refuses_it_where_it_is_declared(declare: Any) -> None:
    with pytest.raises(TopologyError, match="async"):
        declare(stream())


def test_a_generator_is_refused_where_one_value_is_wanted() -> None:
    with pytest.raises(TopologyError, match=r"generator function.*flat_map"):
        stream().map_values(yields)
    stream().flat_map_values(yields)


def test_a_function_that_never_returns_a_value_is_refused() -> None:
    with pytest.raises(TopologyError, match=r"forgets at .*never returns a value.*return"):
        stream().map_values(forgets)
    stream().peek(forgets)


def explicit(value: str) -> None:
    return None


def sometimes(value: str) -> str | None:
    return value or None


def raises(value: str) -> str:
    raise ValueError(value)


@pytest.mark.parametrize("function", [explicit, sometimes, raises, lambda value: None, int, len])
def test_none_that_is_meant_is_no_mistake(function: Any) -> None:
    check_returns(function, "mapper")


class AsyncProcessor(Processor[str, str, str, str]):
    async def process(self, record: Any) -> None:  # type: ignore[override]
        pass


class YieldingProcessor(Processor[str, str, str, str]):
    def process(self, record: Any) -> Iterator[Any]:  # type: ignore[override]
        yield record


class AsyncTransformer(ValueTransformer[str, str, str]):
    async def transform(self, key: str, value: str | None) -> str | None:  # type: ignore[override]
        return value


@pytest.mark.parametrize("supplier", [AsyncProcessor, YieldingProcessor])
def test_a_processor_that_awaits_or_yields_is_refused(supplier: Any) -> None:
    with pytest.raises(TopologyError, match=r"process\(\) of"):
        stream().process(supplier)
    late = stream()
    late.process(lambda: supplier())  # noqa: PLW0108  a function that makes one
    with pytest.raises(TopologyError, match=r"process\(\) of"):
        TopologyTestDriver(late.builder.build())  # type: ignore[attr-defined]


def test_a_transformer_that_awaits_is_refused() -> None:
    with pytest.raises(TopologyError, match=r"transform\(\) of"):
        stream().to_table(store="t").transform_values(AsyncTransformer)


@pytest.mark.parametrize(
    "declare",
    [
        lambda s: s.filter(hidden),
        lambda s: s.filter(hidden_with_key),
        lambda s: s.filter_not(hidden),
        lambda s: s.peek(hidden),
        lambda s: s.foreach(hidden_generator),
        lambda s: s.split().branch(hidden),
        lambda s: s.to_table(store="t").filter(hidden),
    ],
)
def test_a_result_that_nobody_awaits_fails_its_record(declare: Any) -> None:
    source = stream()
    declare(source)
    with (
        TopologyTestDriver(source.builder.build()) as driver,  # type: ignore[attr-defined]
        pytest.raises(ProcessingError, match=r"of which nothing has run.*plain function"),
    ):
        driver.pipe("in", "ada", "x")


class HiddenInit(Processor[str, str, str, str]):
    def init(self, context: Any) -> Any:
        return awaited(context)

    def process(self, record: Any) -> None:
        pass


class HiddenClose(Processor[str, str, str, str]):
    def process(self, record: Any) -> None:
        pass

    def close(self) -> Any:
        return awaited(self)


class HiddenTransformer(ValueTransformer[str, str, str]):
    def init(self, context: Any) -> Any:
        return awaited(context)

    def transform(self, key: str, value: str | None) -> str | None:
        return value


@pytest.mark.parametrize(
    "declare",
    [
        lambda s: s.process(HiddenInit),
        lambda s: s.to_table(store="t").transform_values(HiddenTransformer),
    ],
)
def test_an_init_that_nobody_awaits_ends_the_start(declare: Any) -> None:
    source = stream()
    declare(source)
    with pytest.raises(Exception, match=r"init\(\) of the .* of which nothing has run"):
        TopologyTestDriver(source.builder.build())  # type: ignore[attr-defined]


def test_a_close_that_nobody_awaits_is_told() -> None:
    source = stream()
    source.process(HiddenClose)
    driver = TopologyTestDriver(source.builder.build())  # type: ignore[attr-defined]
    with pytest.raises(Exception, match=r"close\(\) of the processor.* of which nothing has run"):
        driver.close()


class Ticking(Processor[str, str, str, str]):
    def init(self, context: Any) -> None:
        context.schedule(timedelta(seconds=1), "wall_clock", awaited)

    def process(self, record: Any) -> None:
        pass


def test_a_schedule_that_awaits_is_refused() -> None:
    source = stream()
    source.process(Ticking)
    with pytest.raises(TopologyError, match="scheduled callback"):
        TopologyTestDriver(source.builder.build())  # type: ignore[attr-defined]


@pytest.mark.parametrize("callback", [5, lambda: None, lambda one, two: None])
def test_a_schedule_that_takes_no_time_is_refused_where_it_is_made(callback: Any) -> None:
    class Scheduling(Ticking):
        def init(self, context: Any) -> None:
            context.schedule(timedelta(seconds=1), "wall_clock", callback)

    source = stream()
    source.process(Scheduling)
    with pytest.raises(TopologyError, match=r"scheduled callback.* Accepted: \(timestamp\)"):
        TopologyTestDriver(source.builder.build())  # type: ignore[attr-defined]


def test_a_handler_that_awaits_is_refused() -> None:
    with pytest.raises(ConfigError, match="processing handler"):
        ErrorHandlers(processing=awaited)  # type: ignore[arg-type]
