"""A processor that keeps orders in a list, a map, a set and a counter, and forwards what they have.

Values depend on the whole history of the stores, so a wrong position, size or element shows in the
results of later orders as well as in the rows.
"""

from __future__ import annotations

import zlib

from logstate.contracts.records import Record
from logstate.topology import (
    KStream,
    Processor,
    counter_store,
    list_store,
    map_store,
    set_store,
)

RECENT = list_store("recent", str, str, max_size=3)
BY_TIME = map_store("by-time", str, int, str, max_size=3)
DIGITS = set_store("digits", str, int)
ORDERS = counter_store("orders", str)
STORES = RECENT, BY_TIME, DIGITS, ORDERS


class Collect(Processor[str, str, str, str]):
    """Changes all stores for an order: adds to them, removes from both ends, clears."""

    def process(self, record: Record[str, str]) -> None:
        context, key, value = self.context, record.key, record.value
        recent, by_time = context.store(RECENT), context.store(BY_TIME)
        digits = context.store(DIGITS)
        choice = zlib.crc32(value.encode()) % 8
        if choice < 5:
            recent.append(key, value)
            by_time.put(key, record.timestamp, value)
            digits.add(key, choice)
        elif choice == 5:
            recent.pop(key)
            by_time.delete(key, record.timestamp)
            digits.discard(key, 1)
        elif choice == 6:
            recent.pop_first(key)
        else:
            recent.clear(key)
            digits.clear(key)
        number = context.store(ORDERS).add(key)
        shown = [*recent.items(key)], [*by_time.items(key)], [*digits.values(key)], number
        sizes = recent.size(key), by_time.size(key), digits.size(key)
        context.forward(record.with_value(f"{sizes} {zlib.crc32(repr(shown).encode()):08x}"))


def collect(orders: KStream[str, str], prices: KStream[str, str]) -> None:
    """Add the operators of the variant ``collections``."""
    collected = orders.process(Collect, stores=STORES, key=str, value=str, name="collect")
    collected.to("enriched", key=str, value=str)
    prices.to("windowed", key=str, value=str)
