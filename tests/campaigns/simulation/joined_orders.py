"""Each order with all prices near it, and with the first and the last one of an interval.

A third of the prices are heartbeats of the joins that choose one. The graces are shorter than the
records are out of order, so orders and prices are late, too.
"""

from __future__ import annotations

import zlib
from datetime import timedelta

from logstate.contracts.late_record import LateRecord
from logstate.topology import KStream, StreamsBuilder


def _ms(count: int) -> timedelta:
    return timedelta(milliseconds=count)


def join_orders(
    builder: StreamsBuilder, orders: KStream[str, str], prices: KStream[str, str]
) -> None:
    """Add the operators of the variant ``intervals``."""
    near = orders.interval_join(
        prices, _near, within=(_ms(2), _ms(3)), grace=_ms(2), value=str, name="near"
    )
    first = orders.interval_join(
        prices,
        _shown,
        how="left",
        within=(_ms(2), _ms(6)),
        match="first",
        grace=_ms(1),
        heartbeat=_is_heartbeat,
        value=str,
        name="first",
        late="apart",
    )
    last = orders.interval_join(
        prices, _shown, within=(_ms(9), _ms(0)), match="last", grace=_ms(4), value=str, name="last"
    )
    late = builder.late("apart", key=str, value=str).map_values(_shown_late, value=str)
    first.merge(late, near).to("enriched", key=str, value=str)
    last.to("windowed", key=str, value=str)


def _shown(order: str, price: str | None) -> str:
    return f"{order}@{price}"


def _near(order: str, price: str) -> str:
    return f"{order}~{price}"


def _is_heartbeat(price: str) -> bool:
    return zlib.crc32(price.encode()) % 3 == 0


def _shown_late(late: LateRecord[str, str]) -> str:
    return f"{late.node} {late.value} {late.window} {late.by_ms}"
