"""The inputs of a schedule. A few dozen sets, so that references can be kept between schedules."""

from __future__ import annotations

import random
from functools import cache

from logstate.contracts.partitioner import partition_of
from logstate.testing.simulation.upstream import Input
from tests.campaigns.simulation.flow import ORDERS, PRICES

#: different data sets; a schedule uses number ``seed % COUNT``
COUNT = 48


@cache
def inputs(
    number: int, *, partitions: int = 2, orders: int = 18, prices: int = 6, price_every: int = 4
) -> list[Input]:
    """Orders and prices in the order of their making; event times are out of order, from 0 on.

    In sets with odd numbers no order has the time of a price.
    """
    rng = random.Random(f"inputs-{number}")
    keys = _keys(partitions)
    records: list[Input] = []
    for i in range(orders + prices):
        is_price = i % price_every == price_every - 1 and prices > 0
        partition = i % partitions if rng.random() < 0.8 else rng.randrange(partitions)
        key = rng.choice(keys[partition])
        timestamp = max(0, i + rng.choice((0, 0, 1, 2, -3, -9, 6)))
        if number % 2:
            timestamp = timestamp * 2 + is_price
        name = "p" if is_price else "o"
        records.append(
            Input(
                PRICES if is_price else ORDERS,
                partition,
                key,
                f"{name}-{partition}-{i}".encode(),
                timestamp,
            )
        )
    return records


@cache
def _keys(partitions: int) -> list[list[bytes]]:
    """Three keys for each partition."""
    found: list[list[bytes]] = [[] for _ in range(partitions)]
    number = 0
    while any(len(keys) < 3 for keys in found):
        key = f"k{number}".encode()
        number += 1
        place = found[partition_of(key, partitions)]
        if len(place) < 3:
            place.append(key)
    return found
