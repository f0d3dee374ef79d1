"""The named aggregators (initial value, add, subtract, merge of sessions) and reducers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .functions import Spec, parse, text, wrap
from .wire import BIGINT, STRING, WireType


@dataclass(frozen=True)
class Aggregator:
    """``add`` and ``subtract`` take (key, value, aggregate), ``merge`` takes (key, a, b)."""

    initial: Any
    add: Callable[[Any, Any, Any], Any]
    subtract: Callable[[Any, Any, Any], Any]
    merge: Callable[[Any, Any, Any], Any]
    #: type of the aggregate; None: the type of the values
    type: WireType | None

    def result_type(self, value: WireType) -> WireType:
        return value if self.type is None else self.type


def aggregator(spec: Spec) -> Aggregator:
    """The aggregator of that name."""
    name, n = parse(spec)
    if name == "count":
        return _summing(lambda k, v, agg: agg + 1, lambda k, v, agg: agg - 1)
    if name == "sum":
        return _summing(_plus, _minus)
    if name == "sum_drop_zero":
        return _summing(
            lambda k, v, agg: _plus(k, v, agg) or None, lambda k, v, agg: _minus(k, v, agg) or None
        )
    if name == "sum_null_gt":
        return _summing(lambda k, v, agg: _null_above(n, _plus(k, v, agg)), _minus)
    if name in ("concat", "concat_star"):
        sign = "+" if name == "concat" else "*"
        return Aggregator(
            initial="",
            add=lambda k, v, agg: agg + sign + text(v),
            subtract=lambda k, v, agg: agg + "-" + text(v),
            merge=lambda k, a, b: f"({a}|{b})",
            type=STRING,
        )
    choices: dict[str, Callable[[Any, Any], Any]] = {
        "min": _smaller,
        "max": _larger,
        "last": lambda agg, v: v,
        "first": lambda agg, v: v if agg is None else agg,
    }
    if name not in choices:
        raise ValueError(f"there is no aggregator named {name!r}")
    choose = choices[name]
    return Aggregator(
        initial=None,
        add=lambda k, v, agg: choose(agg, v),
        subtract=lambda k, v, agg: agg,
        merge=lambda k, a, b: choose(a, b),
        type=None,
    )


def reducer(spec: Spec) -> Callable[[Any, Any], Any]:
    """A named reducer of (aggregate, new value)."""
    name, n = parse(spec)
    table: dict[str, Callable[[Any, Any], Any]] = {
        "sum": lambda a, b: wrap((a or 0) + (b or 0)),
        "min": _smaller,
        "max": _larger,
        "last": lambda a, b: b,
        "concat": lambda a, b: text(a) + "+" + text(b),
        "minus": lambda a, b: wrap((a or 0) - (b or 0)),
        "concat_minus": lambda a, b: text(a) + "-" + text(b),
        "sum_null_gt": lambda a, b: _null_above(n, wrap((a or 0) + (b or 0))),
    }
    if name not in table:
        raise ValueError(f"there is no reducer named {name!r}; known: {', '.join(table)}")
    return table[name]


def _summing(
    add: Callable[[Any, Any, Any], Any], subtract: Callable[[Any, Any, Any], Any]
) -> Aggregator:
    return Aggregator(0, add, subtract, lambda k, a, b: wrap(a + b), BIGINT)


def _plus(key: Any, value: Any, aggregate: Any) -> int:
    return wrap(aggregate + (value or 0))


def _minus(key: Any, value: Any, aggregate: Any) -> int:
    return wrap(aggregate - (value or 0))


def _null_above(limit: int, total: int) -> int | None:
    return None if total > limit else total


def _smaller(a: Any, b: Any) -> Any:
    if a is None or b is None:
        return b if a is None else a
    return min(a, b)


def _larger(a: Any, b: Any) -> Any:
    if a is None or b is None:
        return b if a is None else a
    return max(a, b)
