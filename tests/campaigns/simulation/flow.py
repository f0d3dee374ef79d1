"""The application under test: a repartition, a windowed aggregation, a join.

Every aggregate is a running checksum of what went in, in order, so a value that is right proves the
whole history of its key: nothing lost, doubled, reordered or taken from an aborted transaction.

Which of two input topics a task reads first depends on timing, so the order is made part of the
state: the first operator after each source writes the coordinates of every record into a *trace*
store. The trace commits with everything else, and the sequential reference follows it.

Four variants cover the operators whose results hang on clocks. ``table`` joins a stream with a
table and drops late records of a window; ``streams`` joins two streams, with results for the
unmatched when their window closes, and suppresses window results until they are final; ``sources``
has a table whose source topic is its changelog, sessions that merge, and a global table;
``versions`` joins with a table as it was, after a grace, and emits window results on close.

Three more belong to stories of their own. ``times`` is ``table`` with a timestamp extractor that
asks for the time of the partition; ``cuts`` is ``table`` with so many schedules that no cut fits
into the metadata of an offset, and with a store that forgets; ``histories`` is ``versions`` with
prices that are deleted, and histories and segments so short that all of them expire; ``timers``
counts orders per key until a timer, which others extend, deletes the count; ``late`` has streams of
the late records of windows, of sessions, of a join and of a table with a history; ``collections``
has a list, a map, a set and a counter; ``aggregates`` has records of several aggregates;
``counts`` has count windows and batches; ``distinct`` has distinct records; ``expiry`` has stores
with a TTL; ``intervals`` has interval joins; ``as_of`` has as-of joins; ``indexes`` has stores
with secondary indexes; ``indexed_expiry`` has stores with both; ``ordered`` has sorted records
and the greatest of each key.
"""

from __future__ import annotations

import zlib
from datetime import timedelta
from functools import cache, partial

import logstate.contracts.partitioner
from logstate.contracts.late_record import LateRecord
from logstate.contracts.records import Record, Windowed
from logstate.testing import FakeCluster
from logstate.topology import (
    HoppingWindows,
    JoinWindows,
    KeyTimers,
    KStream,
    Materialized,
    Processor,
    ProcessorContext,
    SessionWindows,
    StreamsBuilder,
    Topology,
    TumblingWindows,
    key_value_store,
    lru_store,
    timer_store,
    until_window_closes,
)
from tests.campaigns.simulation.aggregated_orders import aggregate
from tests.campaigns.simulation.collected_orders import collect
from tests.campaigns.simulation.counted_orders import count_orders
from tests.campaigns.simulation.distinct_orders import keep_distinct
from tests.campaigns.simulation.expiring_orders import expire, expire_indexed
from tests.campaigns.simulation.indexed_orders import find_alike
from tests.campaigns.simulation.joined_orders import join_orders
from tests.campaigns.simulation.ordered_orders import order_records
from tests.campaigns.simulation.valued_orders import value_orders

#: a few keys are asked for again and again
partition_of = cache(logstate.contracts.partitioner.partition_of)

APPLICATION = "flow"
ORDERS, PRICES = "orders", "prices"
#: of a global table, complete before anything starts: when a row is seen depends on timing else
NAMES, NAME_ROWS = "names", {b"r0": b"north", b"r2": b"south"}
#: external topics the flow writes to; each partition is written by one task
OUTPUTS = ("enriched", "windowed", "regions")
REPARTITION = f"{APPLICATION}-by-region-repartition"
#: trace store of each sub-topology
TRACES = ("trace-0", "trace-1")
VARIANTS = ("table", "streams")
#: drawn on their own, so that other schedules stay what they are
FURTHER_VARIANTS = ("sources", "versions")
#: of the variant ``cuts``: a store that forgets, and what makes a cut too large for the metadata
RECENT, RECENT_MAX = "recent", 2
_LONG_NAME, _LONG_SCHEDULES = "remember-" + "x" * 180, 16

_WINDOWS = TumblingWindows(size=timedelta(milliseconds=10), grace=timedelta(milliseconds=5))
_JOIN = JoinWindows.symmetric(timedelta(milliseconds=6), grace=timedelta(milliseconds=4))
_SESSIONS = SessionWindows(gap=timedelta(milliseconds=3), grace=timedelta(milliseconds=5))
_JOIN_GRACE = timedelta(milliseconds=6)
_LONG_HISTORY, _SHORT_HISTORY = (
    Materialized(
        "prices",
        history=timedelta(milliseconds=history_ms),
        segment_interval=segment_interval,
        in_memory=False,
    )
    for history_ms, segment_interval in ((20, None), (6, timedelta(milliseconds=2)))
)
_TICK, _NEVER = timedelta(milliseconds=7), timedelta(days=1)


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


class Remember(Processor[str, str, str, str]):
    """Keeps the last keys, and has schedules that do nothing: they take room in the cut."""

    def init(self, context: ProcessorContext) -> None:
        self._store = context.store(RECENT)
        for _ in range(_LONG_SCHEDULES):
            context.schedule(_NEVER, "stream_time", _nothing)

    def process(self, record: Record[str, str]) -> None:
        is_gone = zlib.crc32(record.value.encode()) % 5 == 0
        self._store.put(record.key, None if is_gone else record.value)


class Expire(Processor[str, str, str, str]):
    """Counts per key until a timer deletes the count; late orders set timers that are due."""

    def __init__(self, timers: str, counts: str) -> None:
        self._names = timers, counts

    def init(self, context: ProcessorContext) -> None:
        self.context = context
        timers, counts = self._names
        self._open = context.store(counts)
        self._timers: KeyTimers[str] = KeyTimers(context, timers, self._expire)

    def process(self, record: Record[str, str]) -> None:
        total = checksum(self._open.get(record.key) or "0:", record.value)
        self._open.put(record.key, total)
        self._timers.set(record.key, record.timestamp + zlib.crc32(record.value.encode()) % 9)
        self.context.forward(record.with_value(total))

    def _expire(self, key: str, at_ms: int) -> None:
        total = self._open.get(key)
        self._open.put(key, None)
        if at_ms % 3 == 0:
            self._timers.set(key, at_ms + 2)
        self.context.forward(Record(key, f"end {total}", at_ms))


def _nothing(_: int) -> None: ...


def partition_time(_: str, value: str, timestamp: int, partition_time_ms: int) -> int:
    """A third of the records come one after what their partition had when they are read."""
    return timestamp if zlib.crc32(value.encode()) % 3 else partition_time_ms + 1


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
    extractor = partition_time if variant == "times" else None
    orders = builder.stream(
        ORDERS, key=str, value=str, timestamp_extractor=extractor
    ).process_values(Trace0, stores=(TRACES[0],), value=str, name="trace-orders")
    if variant == "cuts":
        builder.add_store(lru_store(RECENT, str, str, capacity=RECENT_MAX))
        orders.process(Remember, stores=(RECENT,), name=_LONG_NAME)
    if variant == "sources":
        _sources_variant(builder, orders)
    else:
        prices = _traced_prices(
            builder.stream(PRICES, key=str, value=str, timestamp_extractor=extractor)
        )
        joined = {
            "streams": _streams_variant,
            "versions": _versions_variant,
            "histories": _histories_variant,
            "timers": _timers_variant,
            "collections": collect,
            "expiry": expire,
            "indexed_expiry": expire_indexed,
            "indexes": find_alike,
            "late": lambda orders, prices: _late_variant(builder, orders, prices),
            "aggregates": aggregate,
            "counts": count_orders,
            "distinct": keep_distinct,
            "intervals": lambda orders, prices: join_orders(builder, orders, prices),
            "as_of": lambda orders, prices: value_orders(builder, orders, prices),
            "ordered": lambda orders, prices: order_records(builder, orders, prices),
        }
        joined.get(variant, _table_variant)(orders, prices)
    regions = orders.select_key(region_of, key=str).repartition(
        name="by-region", key=str, value=str
    )
    traced = regions.process_values(Trace1, stores=(TRACES[1],), value=str, name="trace-regions")
    totals = traced.group_by_key().aggregate(
        lambda: "0:", lambda key, value, agg: checksum(agg, value), value=str, store="regions"
    )
    changes = totals.to_stream()
    if variant == "sources":
        names = builder.global_table(NAMES, key=str, value=str, store="names")
        changes = changes.left_join(
            names, lambda total, name: f"{total}@{name}", key_mapper=lambda region, _: region
        )
    changes.to("regions", key=str, value=str)
    return builder.build(optimization="all" if variant == "sources" else "none")


def write_names(cluster: FakeCluster) -> None:
    """Fill the topic of the global table."""
    if cluster.topics.get(NAMES) is None:
        cluster.create_topic(NAMES, 1)
    for region, name in NAME_ROWS.items():
        cluster.produce(NAMES, region, name, timestamp=1)


def _traced_prices(prices: KStream[str, str]) -> KStream[str, str]:
    return prices.process_values(Trace0, stores=(TRACES[0],), value=str, name="trace-prices")


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


def _late_variant(
    builder: StreamsBuilder, orders: KStream[str, str], prices: KStream[str, str]
) -> None:
    groups = orders.group_by_key()
    hops = HoppingWindows(size=timedelta(milliseconds=6), advance=timedelta(milliseconds=3))
    counts = groups.windowed_by(hops).count(store="windows", name="hops", late="late-hops")
    counts.to_stream(_plain_key, key=str).to(
        "windowed", key=str, value=int, partitioner=_by_order_key
    )
    gap = SessionWindows(gap=timedelta(milliseconds=2))
    groups.windowed_by(gap).count(store="sessions", name="visits", late="late-visits")
    near = JoinWindows.symmetric(timedelta(milliseconds=2))
    joined = orders.join(
        prices, lambda order, price: f"{order}@{price}", windows=near, name="matches", late="apart"
    )
    newest = Materialized("newest", history=timedelta(milliseconds=4))
    orders.to_table(store=newest, name="newest", late="old-orders")
    names = ("late-hops", "late-visits", "apart", "old-orders")
    late = [builder.late(name, key=str, value=str) for name in names]
    shown = [one.map_values(_shown_late, value=str) for one in late]
    shown[0].merge(*shown[1:], joined).to("enriched", key=str, value=str)


def _shown_late(late: LateRecord[str, str]) -> str:
    return f"{late.node} {late.value} {late.window} {late.by_ms}"


def _timers_variant(orders: KStream[str, str], prices: KStream[str, str]) -> None:
    totals = orders
    # Both have timers of the same time. By name, the second would come first.
    for name, timers, counts in (("expire", "timers", "open"), ("again", "timers-2", "open-2")):
        totals = totals.process(
            partial(Expire, timers, counts),
            stores=(timer_store(timers, str), key_value_store(counts, str, str)),
            key=str,
            value=str,
            name=name,
        )
    totals.to("enriched", key=str, value=str)
    prices.to("windowed", key=str, value=str)


def _sources_variant(builder: StreamsBuilder, orders: KStream[str, str]) -> None:
    table = builder.table(PRICES, key=str, value=str, store="prices")
    _traced_prices(table.to_stream())
    joined = orders.left_join(table, lambda order, price: f"{order}@{price}")
    joined.to("enriched", key=str, value=str)
    sessions = (
        orders.group_by_key()
        .windowed_by(_SESSIONS)
        .aggregate(
            lambda: "0:",
            lambda key, value, agg: checksum(agg, value),
            checksum,
            value=str,
            store="sessions",
        )
    )
    sessions.to_stream(_plain_key, key=str).to(
        "windowed", key=str, value=str, partitioner=_by_order_key
    )


def _histories_variant(orders: KStream[str, str], prices: KStream[str, str]) -> None:
    some = prices.map_values(lambda price: price if zlib.crc32(price.encode()) % 4 else None)
    _versions_variant(orders, some, _SHORT_HISTORY)


def _versions_variant(
    orders: KStream[str, str],
    prices: KStream[str, str | None],
    history: Materialized = _LONG_HISTORY,
) -> None:
    table = prices.to_table(store=history, key=str, value=str)
    joined = orders.left_join(
        table, lambda order, price: f"{order}@{price}", grace=_JOIN_GRACE, name="waiting"
    )
    joined.to("enriched", key=str, value=str)
    finals = (
        orders.group_by_key()
        .windowed_by(_WINDOWS)
        .aggregate(
            lambda: "0:",
            lambda key, value, agg: checksum(agg, value),
            value=str,
            store="windows",
            emit="close",
        )
    )
    finals.to_stream(_plain_key, key=str).to(
        "windowed", key=str, value=str, partitioner=_by_order_key
    )


def _by_order_key(_: str, key: str, __: object, partitions: int) -> int:
    """Where the orders of the window are, so that one task writes each output partition."""
    return partition_of(key.partition("@")[0].encode(), partitions)


def _plain_key(key: Windowed[str], _: str) -> str:
    return f"{key.key}@{key.start_ms}"
