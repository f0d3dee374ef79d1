"""Count windows, overlapping and side by side, and batches: they close by number and by timeout.

The pauses between records of a key are about as long as the timeouts, so both happen often, and the
result of a window shows every value that is missing or too many.
"""

from __future__ import annotations

from datetime import timedelta

from logstate.topology import CountWindows, KStream

_OVERLAPPING = CountWindows(3, step=2, timeout=timedelta(milliseconds=9))
_SIDE_BY_SIDE = CountWindows(3, step=3, timeout=timedelta(milliseconds=12))


def count_orders(orders: KStream[str, str], prices: KStream[str, str]) -> None:
    """Add the operators of the variant ``counts``."""
    for stream, windows, store, topic in (
        (orders, _OVERLAPPING, "last-orders", "enriched"),
        (prices, _SIDE_BY_SIDE, "price-triples", "windowed"),
    ):
        lists = stream.group_by_key().windowed_by(windows)
        lists.reduce(lambda a, b: f"{a} {b}", store=store).to(topic, key=str, value=str)
    batches = orders.batch(3, within=timedelta(milliseconds=7), store="order-batches")
    batches.map_values(" ".join, value=str).to("windowed", key=str, value=str)
