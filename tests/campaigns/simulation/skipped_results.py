"""Results that fail when they are due, with a processing handler that skips.

Some callbacks of timers raise, and so do functions below closed windows and expired rows. Each of
these results is skipped alone: those of timers equal a plain loop over the orders, and all others
those of a run without faults, whatever crashes meanwhile and whenever the commits are.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import timedelta
from functools import cache

from logstate.contracts.records import Record
from logstate.task.error_handlers import ErrorHandlers, skip
from logstate.testing.simulation.upstream import Input
from logstate.topology import (
    KeyTimers,
    Materialized,
    Processor,
    ProcessorContext,
    StreamsBuilder,
    Topology,
    TumblingWindows,
    key_value_store,
    timer_store,
    until_window_closes,
)
from tests.campaigns.simulation import flow
from tests.campaigns.simulation.oracles import same
from tests.campaigns.simulation.orders_schedule import OrdersSchedule, by_key

#: of timers, of closed windows, and of rows that expire
_TOPICS = ("enriched", "windowed", "regions")
_TIME = timedelta(milliseconds=5)


def _delay_ms(order: bytes) -> int:
    return 1 + zlib.crc32(order) % 6


def _fails(at_ms: int) -> bool:
    return at_ms % 3 == 0


class Ends(Processor[str, str, str, str]):
    """Forwards how many orders a key had when its timer is due; a third of the timers raise."""

    def init(self, context: ProcessorContext) -> None:
        self.context = context
        self.orders = context.store("orders")
        self.timers: KeyTimers[str] = KeyTimers(context, "ends", self.end)

    def process(self, record: Record[str, str]) -> None:
        self.orders.put(record.key, (self.orders.get(record.key) or 0) + 1)
        self.timers.set(record.key, record.timestamp + _delay_ms(record.value.encode()))

    def end(self, key: str, at_ms: int) -> None:
        count = self.orders.get(key)
        self.orders.put(key, None)
        self.context.forward(Record(key, f"{count} until {at_ms}", at_ms))
        if _fails(at_ms):
            raise ValueError(f"no end at {at_ms}")


def _not_two(count: int) -> str:
    if count == 2:
        raise ValueError("two")
    return str(count)


@cache
def topology(*, in_memory: bool) -> Topology:
    """Timers, windows that close, and rows that expire, of which some fail."""
    builder = StreamsBuilder(in_memory_stores=in_memory)
    orders = builder.stream(flow.ORDERS, key=str, value=str)
    stores = (
        timer_store("ends", str, in_memory=in_memory),
        key_value_store("orders", str, int, in_memory=in_memory),
    )
    orders.process(Ends, stores=stores, key=str, value=str).to(_TOPICS[0])
    windows = orders.group_by_key().windowed_by(TumblingWindows(size=_TIME, grace=_TIME))
    closed = windows.count(store="counts").suppress(until_window_closes(), name="closed")
    ends = closed.to_stream(lambda window, _: window.key, key=str)
    ends.map_values(_not_two, value=str).to(_TOPICS[1])
    kept = Materialized("kept", ttl=_TIME, expired="gone")
    orders.group_by_key().count(store=kept)
    builder.expired("gone", key=str, value=int).map_values(_not_two, value=str).to(_TOPICS[2])
    return builder.build()


class SkippedResults(OrdersSchedule):
    """A schedule of this flow."""

    variant = "skipped"
    make_topology = staticmethod(topology)
    orders = 36
    first_ms = 1
    handlers = ErrorHandlers(processing=skip)

    def _judge(self) -> None:
        ended = self.undisturbed(_TOPICS[1:])
        ended[_TOPICS[0]] = {}
        for partition in range(self.partitions):
            orders = [one for one in self.inputs if one.partition == partition]
            ended[_TOPICS[0]].update(by_key(_ends_of(orders)))
        for topic, wanted in ended.items():
            found = by_key(self.committed_records(topic))
            same(f"results on {topic}", found, wanted)
            self.counters["compared_results"] += sum(map(len, wanted.values()))


def _ends_of(orders: Sequence[Input]) -> Iterator[tuple[str, str]]:
    """What the timers of a partition forward: those that are due run before the order."""
    counts: Counter[bytes] = Counter()
    timers: set[tuple[int, bytes]] = set()
    stream_time = -1
    for order in orders:
        if order.timestamp > stream_time:
            stream_time = order.timestamp
            for timer in sorted(timer for timer in timers if timer[0] <= stream_time):
                timers.remove(timer)
                at_ms, key = timer
                if not _fails(at_ms):
                    yield key.decode(), f"{counts.pop(key, None)} until {at_ms}"
        counts[order.key] += 1
        timers.add((order.timestamp + _delay_ms(order.value), order.key))
