"""An application whose state moves to other partitions, its records, and its reference.

The reference is one task that reads all records one after the other. Nothing is late and keys do
not meet, so what is sent and kept for a key does not depend on how many partitions there are.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import cache
from itertools import chain
from typing import NamedTuple

from logstate.contracts.partitioner import partition_of
from logstate.testing.driver import TopologyTestDriver
from logstate.testing.simulation.schedule import START_MS
from logstate.testing.simulation.stored_rows import rows_of
from logstate.topology import (
    JoinWindows,
    Materialized,
    SessionWindows,
    StreamsBuilder,
    Topology,
    TumblingWindows,
    until_window_closes,
)
from tests.campaigns.simulation import flow
from tests.campaigns.simulation.indexed_orders import digit_of

FINALS, CLOSED, JOINED, LATELY = "finals", "closed", "joined", "lately"
OUTPUTS = ("enriched", FINALS, CLOSED, JOINED, LATELY)
#: of the store ``LATELY``
INDEX = "digit"
#: stores whose rows are those of one task, and the one that leaves rows behind that were sent
COMPARED = ("totals", "windows", "sessions", "regions", "latest", LATELY)
LEAVES_BEHIND = "closed"
#: of these, those whose rows do not depend on whether a record is late
NEVER_LATE = ("totals", "regions", "latest")
_KEYS = [f"k{number}" for number in range(9)]
DATA_SETS, _ORDERS, _PRICES = 24, 14, 5
#: nothing is late before the last records, which are so much later, and no row of a window
#: expires; those of ``LATELY`` expire with the last records, all but theirs
_LONG = timedelta(days=30)
_LAST_MS = 10 * 86_400_000
_WINDOWS = TumblingWindows(size=timedelta(milliseconds=10), grace=timedelta(milliseconds=5))
_SESSIONS = SessionWindows(gap=timedelta(milliseconds=6), grace=timedelta(days=1))
_JOIN = JoinWindows.symmetric(timedelta(milliseconds=8), grace=timedelta(days=1))


@cache
def topology(*, in_memory: bool) -> Topology:
    """Stores of the kinds that a move treats differently."""
    builder = StreamsBuilder(
        in_memory_stores=in_memory,
        window_emit_interval=timedelta(0),
        outer_join_emit_interval=timedelta(0),
    )
    orders = builder.stream(flow.ORDERS, key=str, value=str)
    prices = builder.stream(flow.PRICES, key=str, value=str)
    by_key = orders.group_by_key()
    by_key.aggregate(
        lambda: "0:", lambda _, value, total: flow.checksum(total, value), value=str, store="totals"
    ).to_stream().to("enriched", key=str, value=str)
    by_key.aggregate(
        lambda: "0:",
        lambda _, value, total: flow.checksum(total, value),
        value=str,
        store=Materialized(LATELY, ttl=timedelta(days=1), indexes={INDEX: digit_of}),
    ).to_stream().to(LATELY, key=str, value=str)
    windows = by_key.windowed_by(_WINDOWS)
    counted = windows.aggregate(
        lambda: "0:",
        lambda _, value, total: flow.checksum(total, value),
        value=str,
        store=Materialized("windows", retention=_LONG),
    )
    counted.suppress(until_window_closes(), name="calm").to_stream(
        lambda key, _: f"{key.key}@{key.start_ms}", key=str
    ).to(FINALS, key=str, value=str)
    closed = windows.aggregate(
        lambda: "0:",
        lambda _, value, total: flow.checksum(total, value),
        value=str,
        store=Materialized(LEAVES_BEHIND, retention=_LONG),
        emit="close",
    )
    closed.to_stream(lambda key, _: f"{key.key}@{key.start_ms}", key=str).to(
        CLOSED, key=str, value=str
    )
    by_key.windowed_by(_SESSIONS).count(store=Materialized("sessions", retention=_LONG))
    prices.to_table(store=Materialized("latest", history=_LONG, in_memory=False))
    joined = orders.left_join(
        prices, lambda order, price: f"{order}@{price}", windows=_JOIN, name="matches"
    )
    joined.to(JOINED, key=str, value=str)
    regions = orders.select_key(flow.region_of, key=str).repartition(
        name="by-region", key=str, value=str
    )
    regions.group_by_key().aggregate(
        lambda: "0:0", lambda _, value, total: _added(total, value), value=str, store="regions"
    )
    return builder.build()


def _added(total: str, value: str) -> str:
    """Count and sum, which do not depend on the order."""
    count, _, added = total.partition(":")
    return f"{int(count) + 1}:{int(added) + int(value.rpartition('-')[2])}"


class Data(NamedTuple):
    """The records before the move, and those after it; event times only grow."""

    before: Sequence[tuple[str, str, str, int]]
    after: Sequence[tuple[str, str, str, int]]


@cache
def data_set(number: int, partitions: int) -> Data:
    """Topic, key, value and time of each record; at last each partition gets a late one."""
    rng = random.Random(f"reshards-{number}")
    time_ms, parts = START_MS, []
    for part in range(2):
        records = []
        for i in range(_ORDERS + _PRICES):
            time_ms += rng.choice((0, 1, 2, 5))
            topic = flow.PRICES if i % 4 == 3 else flow.ORDERS
            value = f"{topic[0]}-{part}-{part * 100 + i}"
            records.append((topic, rng.choice(_KEYS), value, time_ms))
        parts.append(records)
    for partition in range(partitions):
        key = next(k for i in range(1_000) if place(k := f"end{i}", partitions) == partition)
        for topic in (flow.ORDERS, flow.PRICES):
            parts[1].append((topic, key, f"{topic[0]}-end-{partition}", time_ms + _LAST_MS))
    return Data(*parts)


def place(key: str, partitions: int) -> int:
    return partition_of(key.encode(), partitions)


class Unmoved(NamedTuple):
    """What one task sends and keeps that reads all records one after the other."""

    outputs: Mapping[str, Counter[tuple[bytes, bytes, int]]]
    rows: Mapping[str, Mapping[bytes, bytes]]


@cache
def unmoved(number: int, partitions: int) -> Unmoved:
    """Of a set of data; ``partitions`` after the move."""
    with TopologyTestDriver(topology(in_memory=True), application_id=flow.APPLICATION) as driver:
        for topic, key, value, time_ms in chain(*data_set(number, partitions)):
            driver.pipe(topic, key, value, timestamp=time_ms)
        outputs = {
            topic: Counter(
                (key, value, time_ms)
                for key, value, time_ms in driver.read_with_timestamps(
                    topic, key=bytes, value=bytes
                )
            )
            for topic in OUTPUTS
        }
        return Unmoved(outputs, rows_of(driver.task.state))
