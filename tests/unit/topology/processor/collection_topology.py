"""A topology with a list, a map, a set and a counter."""

from __future__ import annotations

from typing import Any

from logstate import (
    Processor,
    Record,
    StreamsBuilder,
    Topology,
    counter_store,
    list_store,
    map_store,
    set_store,
)

ORDERS = list_store("orders", key=str, value=int, max_size=3)
PRICES = map_store("prices", key=str, map_key=int, value=float)
TAGS = set_store("tags", key=str, value=str)
VISITS = counter_store("visits", key=str)
STORES = (ORDERS, PRICES, TAGS, VISITS)


class Keep(Processor[str, int, str, int]):
    """Changes all four stores for each record."""

    def process(self, record: Record[str, int]) -> None:
        context, key, value = self.context, record.key, record.value
        context.store(ORDERS).append(key, value)
        context.store(PRICES).put(key, value, value / 2)
        context.store(TAGS).add(key, f"t{value}")
        number = context.store(VISITS).add(key)
        context.forward(record._replace(value=number))


def topology(source: str = "in", sink: str = "out") -> Topology:
    builder = StreamsBuilder()
    kept = builder.stream(source, key=str, value=int).process(
        Keep, stores=STORES, key=str, value=int
    )
    kept.to(sink)
    return builder.build()


PUTS = [("ada", 3), ("ada", -1), ("bob", 5), ("ada", 3), ("ada", 4), ("a\x00b", 0)]
#: what the stores hold then
HELD: dict[str, list[Any]] = {
    "orders": [
        *((("a\x00b", 0), 0), (("ada", 1), -1), (("ada", 2), 3), (("ada", 3), 4)),
        (("bob", 0), 5),
    ],
    "prices": [
        *((("a\x00b", 0), 0.0), (("ada", -1), -0.5), (("ada", 3), 1.5), (("ada", 4), 2.0)),
        (("bob", 5), 2.5),
    ],
    "tags": [("a\x00b", "t0"), ("ada", "t-1"), ("ada", "t3"), ("ada", "t4"), ("bob", "t5")],
    "visits": [("a\x00b", 1), ("ada", 4), ("bob", 1)],
}
