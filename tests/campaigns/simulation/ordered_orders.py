"""Orders sorted by their timestamps, with a grace that is shorter than they are out of order; every
third order; and the greatest prices of each key.
"""

from __future__ import annotations

import zlib
from datetime import timedelta

from logstate.contracts.late_record import LateRecord
from logstate.topology import KStream, StreamsBuilder

#: the store whose rows contain offsets
WAITING = "waiting-orders"


def order_records(
    builder: StreamsBuilder, orders: KStream[str, str], prices: KStream[str, str]
) -> None:
    """Add the operators of the variant ``ordered``."""
    in_order = orders.sort_by_time(timedelta(milliseconds=4), store=WAITING, late="too-late")
    late = builder.late("too-late", key=str, value=str).map_values(_shown, value=str)
    thirds = orders.sample(every=3, name="thirds").map_values(lambda order: f"third {order}")
    in_order.merge(late, thirds).to("enriched", key=str, value=str)
    best = prices.group_by_key().top_n(3, _score, store="best-prices").to_stream()
    best.map_values(repr, value=str).to("windowed", key=str, value=str)


def _score(price: str) -> int:
    """Few scores, so that ties are frequent."""
    return zlib.crc32(price.encode()) % 5


def _shown(late: LateRecord[str, str]) -> str:
    return f"{late.value} {late.by_ms}"
