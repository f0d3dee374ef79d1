"""Distinct orders: the first of each key and region, and the first of each key and window."""

from __future__ import annotations

from datetime import timedelta

from logstate.topology import KStream, TumblingWindows

_WINDOWS = TumblingWindows(size=timedelta(milliseconds=6), grace=timedelta(milliseconds=3))


def keep_distinct(orders: KStream[str, str], prices: KStream[str, str]) -> None:
    """Add the operators of the variant ``distinct``."""
    regions = orders.distinct(_region_of, id=int, store="first-orders")
    regions.to("enriched", key=str, value=str)
    prices.distinct(windows=_WINDOWS, store="first-prices").to("windowed", key=str, value=str)


def _region_of(order: str) -> int:
    return int(order.rpartition("-")[2]) % 5
