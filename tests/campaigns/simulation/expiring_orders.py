"""Operators whose stores have a TTL: a processor, a table that is joined, and an aggregate.

Their results depend on which rows have expired, so a row that comes back, or that one reader sees
for longer than another, shows in the results of later orders as well as in the rows.
"""

from __future__ import annotations

import zlib
from datetime import timedelta

from logstate.contracts.records import Record
from logstate.topology import (
    KStream,
    Materialized,
    Processor,
    counter_store,
    key_value_store,
    map_store,
    set_store,
)
from tests.campaigns.simulation.indexed_orders import digit_of

_TTL = timedelta(milliseconds=6)
SEEN = key_value_store("seen", str, str, ttl=_TTL)
NUMBERS = counter_store("numbers", str, ttl=2 * _TTL)
ALIKE = key_value_store(
    "alike", str, str, ttl=_TTL, renew_on_read=True, indexes={"digit": digit_of}
)
VALUES = set_store("values", str, str, ttl=_TTL, renew_on_read=True)
PLACES = map_store("places", str, str, str, ttl=_TTL, renew_on_read=True)


class Remember(Processor[str, str, str, str]):
    """Keeps the last order of a key and its values for a while, and counts orders."""

    def process(self, record: Record[str, str]) -> None:
        context, key, value = self.context, record.key, record.value
        seen = context.store(SEEN)
        before = seen.get(key)
        if zlib.crc32(value.encode()) % 5 == 0:
            seen.delete(key)
        else:
            seen.put(key, value)
        number = context.store(NUMBERS).add(key)
        values = context.store(VALUES)
        is_new = values.add(key, value[-1:])
        shown = before, [*seen.all()], number, is_new, [*values.values(key)], self._used(record)
        context.forward(record.with_value(f"{number} {zlib.crc32(repr(shown).encode()):08x}"))

    def _used(self, record: Record[str, str]) -> object:
        """What reads of single elements find, which renew them."""
        key, value = record.key, record.value
        values, places = self.context.store(VALUES), self.context.store(PLACES)
        digit, choice = value[-1:], zlib.crc32(value.encode()) // 5 % 3
        if choice == 0:
            places.put(key, digit, value)
        found = [] if choice == 1 else [places.get(key, one) for one in "02468"]
        return found, values.contains(key, "3"), places.size(key)


def expire(orders: KStream[str, str], prices: KStream[str, str]) -> None:
    """Add the operators of the variant ``expiry``."""
    stores = SEEN, NUMBERS, VALUES, PLACES
    remembered = orders.process_values(Remember, stores=stores, value=str, name="remember")
    table = prices.to_table(store=Materialized("prices", ttl=_TTL), key=str, value=str)
    joined = remembered.left_join(table, lambda order, price: f"{order}@{price}")
    joined.to("enriched", key=str, value=str)
    totals = orders.group_by_key().aggregate(
        lambda: "0:",
        lambda value, total: f"{zlib.crc32((total + value).encode()):08x}:",
        value=str,
        store=Materialized("totals", ttl=_TTL),
    )
    totals.to_stream().to("windowed", key=str, value=str)


class FindLatelyAlike(Processor[str, str, str, str]):
    """Keeps the last order of a key for a while, and forwards which others are like it."""

    def process(self, record: Record[str, str]) -> None:
        alike, digit = self.context.store(ALIKE), digit_of(record.value)
        found = [*alike.by_range("digit", reverse=True)]
        before = alike.get(record.key)
        if digit != 1:  # else the read alone keeps the row
            alike.put(record.key, None if digit == 0 else record.value)
        shown = found, before, [] if digit is None else [*alike.by("digit", digit)]
        said = f"{digit} {zlib.crc32(repr(shown).encode()):08x}"
        self.context.forward(record.with_value(said))


def expire_indexed(orders: KStream[str, str], prices: KStream[str, str]) -> None:
    """Add the operators of the variant ``indexed_expiry``."""
    found = orders.process(FindLatelyAlike, stores=ALIKE, key=str, value=str, name="find-alike")
    found.to("enriched", key=str, value=str)
    kept = Materialized("prices", ttl=_TTL, indexes={"digit": digit_of})
    prices.to_table(store=kept, key=str, value=str).to_stream().to("windowed", key=str, value=str)
    orders.group_by_key().aggregate(
        lambda: "0:",
        lambda value, total: f"{zlib.crc32((total + value).encode()):08x}:",
        value=str,
        store=Materialized("totals", ttl=2 * _TTL, indexes={"digit": digit_of}),
    )
