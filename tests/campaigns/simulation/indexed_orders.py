"""Operators whose stores have secondary indexes: a processor that reads by them, and tables.

What the processor forwards depends on what it finds by an index, so an entry that is missing, or
that a deleted or replaced row has left, shows in the results of later orders. The aggregate has
the same row written many times in a commit.
"""

from __future__ import annotations

import zlib

from logstate.contracts.records import Record
from logstate.topology import KStream, Materialized, Processor, index, key_value_store


def digit_of(value: str) -> int | None:
    """One of six, and None for every seventh value."""
    digit = zlib.crc32(value.encode()) % 7
    return None if digit == 6 else digit


def place_of(value: str) -> tuple[str, int]:
    """A text and a number."""
    return value[-1:], len(value)


LAST = key_value_store(
    "last", str, str, indexes={"digit": digit_of, "place": index(place_of, tuple[str, int])}
)


class FindAlike(Processor[str, str, str, str]):
    """Keeps the last order of a key, and forwards which others are like it."""

    def process(self, record: Record[str, str]) -> None:
        context, key, value = self.context, record.key, record.value
        last = context.store(LAST)
        digit = digit_of(value)
        alike = [] if digit is None else [*last.by("digit", digit)]
        if digit == 0:
            last.delete(key)
        else:
            last.put(key, value)
        text, size = place_of(value)
        shown = alike, [*last.by("place", (text,))], [*last.by_range("place", None, (text, size))]
        context.forward(record.with_value(f"{digit} {zlib.crc32(repr(shown).encode()):08x}"))


def find_alike(orders: KStream[str, str], prices: KStream[str, str]) -> None:
    """Add the operators of the variant ``indexes``."""
    found = orders.process(FindAlike, stores=LAST, key=str, value=str, name="find-alike")
    found.to("enriched", key=str, value=str)
    kept = Materialized("prices", indexes={"digit": digit_of})
    prices.to_table(store=kept, key=str, value=str).to_stream().to("windowed", key=str, value=str)
    orders.group_by_key().aggregate(
        lambda: "0:",
        lambda value, total: f"{zlib.crc32((total + value).encode()):08x}:",
        value=str,
        store=Materialized("totals", indexes={"digit": digit_of}),
    )
