"""Each order with the price that was valid at its time, of a table and of a stream.

A third of the prices are heartbeats of the join of the streams. The graces are shorter than the
records are out of order, so orders and prices are late, too.
"""

from __future__ import annotations

import zlib
from datetime import timedelta

from logstate.contracts.late_record import LateRecord
from logstate.topology import KStream, Materialized, StreamsBuilder

_HISTORY = Materialized("prices", history=timedelta(milliseconds=20))


def _ms(count: int) -> timedelta:
    return timedelta(milliseconds=count)


def value_orders(
    builder: StreamsBuilder, orders: KStream[str, str], prices: KStream[str, str]
) -> None:
    """Add the operators of the variant ``as_of``."""
    table = prices.to_table(store=_HISTORY, key=str, value=str)
    at_once = orders.as_of_join(table, _at_once, how="left", tolerance=_ms(12), value=str)
    waited = orders.as_of_join(
        table, _waited, tolerance=_ms(15), grace=_ms(6), value=str, name="waited"
    )
    last = orders.as_of_join(
        prices,
        _last,
        how="left",
        tolerance=_ms(9),
        grace=_ms(3),
        heartbeat=_is_heartbeat,
        value=str,
        name="last",
        late="late-ticks",
    )
    late = builder.late("late-ticks", key=str, value=str).map_values(_shown_late, value=str)
    at_once.merge(waited).to("windowed", key=str, value=str)
    last.merge(late).to("enriched", key=str, value=str)


def _at_once(order: str, price: str | None) -> str:
    return f"{order}@{price}"


def _waited(order: str, price: str) -> str:
    return f"{order}~{price}"


def _last(order: str, price: str | None) -> str:
    return f"{order}={price}"


def _is_heartbeat(price: str) -> bool:
    return zlib.crc32(price.encode()) % 3 == 0


def _shown_late(late: LateRecord[str, str]) -> str:
    return f"{late.node} {late.value} {late.window} {late.by_ms}"
