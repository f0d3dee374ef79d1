"""Records of several aggregates: of keys, of windows that close, and of sessions of two streams.

The reference is a run of the same operators without faults, so a state that an abort leaves behind
or a crash loses shows in every later record of its key.
"""

from __future__ import annotations

from datetime import timedelta

from logstate.topology import (
    ApproxCountDistinct,
    Collect,
    Count,
    CountDistinct,
    First,
    KStream,
    Mean,
    Quantile,
    SessionWindows,
    StdDev,
    TopN,
    TumblingWindows,
)

_WINDOWS = TumblingWindows(size=timedelta(milliseconds=10), grace=timedelta(milliseconds=5))
_SESSIONS = SessionWindows(gap=timedelta(milliseconds=3), grace=timedelta(milliseconds=5))


def aggregate(orders: KStream[str, str], prices: KStream[str, str]) -> None:
    """Add the operators of the variant ``aggregates``."""
    groups = orders.group_by_key()
    records = groups.agg(
        n=Count(),
        mean=Mean(_number_of),
        first=First(str),
        users=CountDistinct(_number_of),
        store="records",
    )
    records.to_stream().map_values(repr, value=str).to("enriched", key=str, value=str)
    final = groups.windowed_by(_WINDOWS).agg(
        top=TopN(str, 2, by=_number_of),
        spread=StdDev(_number_of),
        half=Quantile(_number_of, 0.5),
        store="windows",
        emit="close",
    )
    final.to_stream(lambda window, _: window.key, key=str).map_values(repr, value=str).to(
        "windowed", key=str, value=str
    )
    both = groups.cogroup(orders=Collect(str, limit=3), users=ApproxCountDistinct(_number_of))
    both = both.cogroup(prices.group_by_key(), prices=Count())
    both.windowed_by(_SESSIONS).agg(store="sessions")


def _number_of(order: str) -> int:
    return int(order.rpartition("-")[2])
