"""The application under test: a repartition, a windowed aggregation, a join.

Every aggregate is a running checksum of what went in, in order, so a value that is right proves the
whole history of its key: nothing lost, doubled, reordered or taken from an aborted transaction.

Which of two input topics a task reads first depends on timing, so the order is made part of the
state: the first operator after each source writes the coordinates of every record into a *trace*
store. The trace commits with everything else, and the sequential reference follows it.

Two variants cover the operators whose results hang on clocks: ``table`` joins a stream with a table
and drops late records of a window; ``streams`` joins two streams, with results for the unmatched
when their window closes, and suppresses window results until they are final.
"""

from __future__ import annotations

import zlib
from datetime import timedelta
from functools import cache

import logstate.contracts.partitioner
from logstate.contracts.records import Record, Windowed
from logstate.topology import (
    JoinWindows,
    KStream,
    Processor,
    ProcessorContext,
    StreamsBuilder,
    Topology,
    TumblingWindows,
    key_value_store,
    until_window_closes,
)

#: a few keys are asked for again and again
partition_of = cache(logstate.contracts.partitioner.partition_of)

APPLICATION = "flow"
ORDERS, PRICES = "orders", "prices"
#: external topics the flow writes to; each partition is written by one task
OUTPUTS = ("enriched", "windowed", "regions")
REPARTITION = f"{APPLICATION}-by-region-repartition"
#: trace store of each sub-topology
TRACES = ("trace-0", "trace-1")
VARIANTS = ("table", "streams")

_WINDOWS = TumblingWindows(size=timedelta(milliseconds=10), grace=timedelta(milliseconds=5))
_JOIN = JoinWindows.symmetric(timedelta(milliseconds=6), grace=timedelta(milliseconds=4))
_TICK = timedelta(milliseconds=7)


class Trace(Processor[str, str, str, str]):
    """Numbers the records a task consumes, over all its topics, and keeps their coordinates.

    Also counts on a stream-time schedule, because the next due time is a clock that must survive.
    """

    store_name = ""

    def init(self, context: ProcessorContext) -> None:
        self.context = context
        self._store = context.store(self.store_name)
        self._count: int | None = None
        context.schedule(_TICK, "stream_time", self._tick)

    def process(self, record: Record[str, str]) -> None:
        self.context.current_system_time_ms()  # here user code may take its time
        count = int(self._store.get("n") or 0)
        metadata = self.context.record_metadata()
        assert metadata is not None
        self._store.put("n", str(count + 1))
        self._store.put(f"{count:06d}", f"{metadata.topic}:{metadata.offset}")
        self.context.forward(record)

    def _tick(self, timestamp: int) -> None:
        self._store.put(f"t{timestamp:06d}", self._store.get("n"))


class Trace0(Trace):
    """Of the sub-topology that reads the inputs."""

    store_name = TRACES[0]


class Trace1(Trace):
    """Of the sub-topology behind the repartition topic."""

    store_name = TRACES[1]


def checksum(aggregate: str, value: str) -> str:
    """Count and running checksum: ``"3:1f2e3d4c"``."""
    count, _, _ = aggregate.partition(":")
    return f"{int(count) + 1}:{zlib.crc32((aggregate + value).encode()):08x}"


def region_of(_: str, value: str) -> str:
    """The new key of an order: its last digit decides."""
    return f"r{int(value.rpartition('-')[2]) % 3}"


@cache
def topology(variant: str, *, in_memory: bool) -> Topology:
    """The finished topology; immutable, so one serves every schedule."""
    builder = StreamsBuilder(
        in_memory_stores=in_memory,
        window_emit_interval=timedelta(0),
        outer_join_emit_interval=timedelta(0),
    )
    for store in TRACES:
        builder.add_store(key_value_store(store, str, str))
    orders = builder.stream(ORDERS, key=str, value=str).process_values(
        Trace0, stores=(TRACES[0],), value=str, name="trace-orders"
    )
    prices = builder.stream(PRICES, key=str, value=str).process_values(
        Trace0, stores=(TRACES[0],), value=str, name="trace-prices"
    )
    if variant == "table":
        _table_variant(orders, prices)
    else:
        _streams_variant(orders, prices)
    regions = orders.select_key(region_of, key=str).repartition(
        name="by-region", key=str, value=str
    )
    traced = regions.process_values(Trace1, stores=(TRACES[1],), value=str, name="trace-regions")
    totals = traced.group_by_key().aggregate(
        lambda: "0:", lambda key, value, agg: checksum(agg, value), value=str, store="regions"
    )
    totals.to_stream().to("regions", key=str, value=str)
    return builder.build()


def _table_variant(orders: KStream[str, str], prices: KStream[str, str]) -> None:
    table = prices.to_table(store="prices", key=str, value=str)
    joined = orders.left_join(table, lambda order, price: f"{order}@{price}")
    joined.to("enriched", key=str, value=str)
    counts = (
        orders.group_by_key()
        .windowed_by(_WINDOWS)
        .aggregate(
            lambda: "0:", lambda key, value, agg: checksum(agg, value), value=str, store="windows"
        )
    )
    counts.to_stream(_plain_key, key=str).to(
        "windowed", key=str, value=str, partitioner=_by_order_key
    )


def _streams_variant(orders: KStream[str, str], prices: KStream[str, str]) -> None:
    joined = orders.left_join(
        prices, lambda order, price: f"{order}@{price}", windows=_JOIN, name="matches"
    )
    joined.to("enriched", key=str, value=str)
    finals = (
        orders.group_by_key()
        .windowed_by(_WINDOWS)
        .aggregate(
            lambda: "0:", lambda key, value, agg: checksum(agg, value), value=str, store="windows"
        )
        .suppress(until_window_closes(), name="finals")
    )
    finals.to_stream(_plain_key, key=str).to(
        "windowed", key=str, value=str, partitioner=_by_order_key
    )


def _by_order_key(_: str, key: str, __: object, partitions: int) -> int:
    """Where the orders of the window are, so that one task writes each output partition."""
    return partition_of(key.partition("@")[0].encode(), partitions)


def _plain_key(key: Windowed[str], _: str) -> str:
    return f"{key.key}@{key.start_ms}"
