"""A function whose annotated result does not fit the declared type is refused when declared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import pytest

from logstate.contracts.errors import TopologyError
from logstate.serdes import int64
from logstate.topology import KStream, KTable, StreamsBuilder


@dataclass
class Order:
    cents: int


class Color(StrEnum):
    RED = "red"


def text(value: str) -> str:
    return value


def number(value: str) -> int:
    return len(value)


def maybe(value: str) -> int | None:
    return len(value) or None


def flag(value: str) -> bool:
    return bool(value)


def order(value: str) -> Order:
    return Order(len(value))


def orders(value: str) -> dict[str, Order]:
    return {value: Order(1)}


def color(value: str) -> Color:
    return Color(value)


def untyped(value):  # type: ignore[no-untyped-def]
    return value


def unknown(value: str) -> Missing:  # type: ignore[name-defined]  # noqa: F821
    return value


@pytest.mark.parametrize(
    ("mapper", "value"),
    [
        *((text, int), (number, str), (maybe, str), (order, int), (text, Order), (orders, bytes)),
        *((color, int), (float, int), (text, dict[str, int])),
    ],
)
def test_a_result_of_another_type_is_refused(mapper: Callable[..., Any], value: Any) -> None:
    stream = StreamsBuilder().stream("in", value=str)
    with pytest.raises(TopologyError, match="according to its annotation, and value="):
        stream.map_values(mapper, value=value)


@pytest.mark.parametrize(
    ("mapper", "value"),
    [
        *((text, str), (number, int), (number, float), (maybe, int), (flag, int), (order, Order)),
        *((orders, dict[str, Order]), (color, str), (text, Color), (untyped, int), (unknown, int)),
        *((lambda value: value, int), (len, str), (text, int64), (text, None)),
    ],
)
def test_a_result_that_may_fit_is_accepted(mapper: Callable[..., Any], value: Any) -> None:
    StreamsBuilder().stream("in", value=str).map_values(mapper, value=value)


def joined(left: str, right: str) -> str:
    return left + right


def _table(stream: KStream[str, str], name: str) -> KTable[str, str]:
    return stream.to_table(store=name)


@pytest.mark.parametrize(
    "declare",
    [
        lambda stream: stream.select_key(text, key=int),
        lambda stream: stream.group_by(text, key=int),
        lambda stream: _table(stream, "t").map_values(text, value=int),
        lambda stream: stream.join(_table(stream, "t"), joined, value=int),
        lambda stream: _table(stream, "t").join(_table(stream, "u"), joined, value=int),
    ],
)
def test_keys_tables_and_joins_are_checked_too(
    declare: Callable[[KStream[str, str]], object],
) -> None:
    stream = StreamsBuilder().stream("in", value=str)
    with pytest.raises(TopologyError, match=r"test_result_types\.py:\d+.* returns str according"):
        declare(stream)
