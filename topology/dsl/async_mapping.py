"""Building a mapper of values that is awaited."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, TypedDict, TypeVar

from logstate.contracts.serde_types import Untyped
from logstate.topology.declaring import callbacks
from logstate.topology.declaring.argument_checks import check_count, check_options
from logstate.topology.declaring.windows import duration_ms
from logstate.topology.dsl.flow import TypedValueOptions
from logstate.topology.dsl.stream_flow import StreamFlow
from logstate.topology.operators.streams.async_mapper import AsyncMapValuesNode

S = TypeVar("S", bound=StreamFlow[Any, Any])
V = TypeVar("V")

_CONCURRENCY = 100
_TIMEOUT = timedelta(seconds=10)


class AsyncOptions(TypedDict, total=False):
    """Options of a mapper that is awaited: its limits, the serde of the results, its name."""

    concurrency: int
    timeout: timedelta
    value: Untyped
    name: str | None


class TypedAsyncOptions(TypedValueOptions[V], total=False):
    """The same with a serde that determines the type of values."""

    concurrency: int
    timeout: timedelta


def mapped_async(stream: S, mapper: Callable[..., Any], given: Mapping[str, Any]) -> S:
    """The stream of what the mapper's results are once they are awaited."""
    options = dict(given)
    check_options(options, AsyncOptions, "map_values_async")
    return _mapped(stream, mapper, **options)


def _mapped(
    stream: S,
    mapper: Callable[..., Any],
    *,
    concurrency: int = _CONCURRENCY,
    timeout: timedelta = _TIMEOUT,
    value: Any = None,
    name: str | None = None,
) -> S:
    what = "concurrency of map_values_async()"
    check_count(concurrency, what, may_be_left_out=False)
    duration_ms(timeout, "timeout of map_values_async()", at_least=1)
    node = stream._node(
        AsyncMapValuesNode,
        name,
        "KSTREAM-MAPVALUESASYNC-",
        mapper=callbacks.async_mapper(mapper, value=value),
        concurrency=concurrency,
        timeout=timeout,
    )
    return stream._below(node, value_changing=True, value=value)
