"""Distinct and limited orders: the first of each key and region, or key and window, the first two
of each key and window, and each one's place among those of its key.
"""

from __future__ import annotations

from datetime import timedelta

from logstate.topology import KStream, TumblingWindows

_WINDOWS = TumblingWindows(size=timedelta(milliseconds=6), grace=timedelta(milliseconds=3))


def keep_distinct(orders: KStream[str, str], prices: KStream[str, str]) -> None:
    """Add the operators of the variant ``distinct``."""
    regions = orders.distinct(_region_of, id=int, store="first-orders")
    regions.to("enriched", key=str, value=str)
    prices.distinct(windows=_WINDOWS, store="first-prices").to("windowed", key=str, value=str)
    few = orders.throttle(2, _WINDOWS, store="few-orders").map_values(
        lambda o: f"few {o}", value=str
    )
    places = orders.scan(_place, _next_place, state=int, value=str, store="places")
    few.merge(places).to("enriched", key=str, value=str)


def _place() -> int:
    return 0


def _next_place(place: int, order: str) -> tuple[int | None, str]:
    return (None if place == 4 else place + 1), f"{place} {order}"


def _region_of(order: str) -> int:
    return int(order.rpartition("-")[2]) % 5
