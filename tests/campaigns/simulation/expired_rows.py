"""Streams of rows that expire, under the faults of any schedule.

Which rows expire, and in which order, follows from the orders of a partition and their order, and
from nothing else. So the rows that were committed are, exactly and in their order, those of a run
without faults: each once, whenever the commits were.
"""

from __future__ import annotations

from datetime import timedelta
from functools import cache

from logstate.contracts.records import Record
from logstate.topology import (
    Materialized,
    Processor,
    StreamsBuilder,
    Topology,
    key_value_store,
    map_store,
    set_store,
)
from tests.campaigns.simulation import flow
from tests.campaigns.simulation.oracles import same
from tests.campaigns.simulation.orders_schedule import OrdersSchedule, by_key

_TTL = timedelta(milliseconds=5)
#: of counts per key, of the last orders and elements, and of counts of the counts that expired
_TOPICS = ("enriched", "windowed", "regions")


class KeepLast(Processor[str, str, None, None]):
    """Keeps the last orders of a key, of all and by digit, and deletes some."""

    def process(self, record: Record[str, str]) -> None:
        store, key, digit = self.context.store, record.key, record.value[-1:]
        value = None if digit == "7" else record.value
        store("last").put(key, value)
        store("places").put(key, digit if value else "5", value)
        if value:
            store("digits").add(key, digit)


@cache
def topology(*, in_memory: bool) -> Topology:
    """Counts per key, the last orders and elements, and counts of the counts that expired."""
    builder = StreamsBuilder(in_memory_stores=in_memory)
    orders = builder.stream(flow.ORDERS, key=str, value=str)
    counted = Materialized("counts", ttl=_TTL, expired="ended")
    orders.group_by_key().count(store=counted)
    last = key_value_store("last", str, str, ttl=2 * _TTL, expired="gone", in_memory=in_memory)
    places = map_store(
        "places", str, str, str, ttl=_TTL, expired="gone-places", in_memory=in_memory
    )
    digits = set_store("digits", str, str, ttl=_TTL, expired="gone-digits", in_memory=in_memory)
    orders.process(KeepLast, stores=(last, places, digits))
    ended = builder.expired("ended", key=str, value=int)
    ended.map_values(str, value=str).to(_TOPICS[0])
    gone = builder.expired("gone", key=str, value=str)
    gone.to(_TOPICS[1])
    pairs = builder.expired("gone-places", key=str, value=tuple[str, str])
    pairs.map_values(repr, value=str).to(_TOPICS[1])
    builder.expired("gone-digits", key=str, value=str).to(_TOPICS[1])
    forgotten = Materialized("forgotten", ttl=4 * _TTL, expired="forgotten-counts")
    ended.group_by_key().count(store=forgotten)
    counts = builder.expired("forgotten-counts", key=str, value=int)
    counts.map_values(str, value=str).to(_TOPICS[2])
    return builder.build()


class ExpiredRows(OrdersSchedule):
    """A schedule of this flow."""

    variant = "expired"
    make_topology = staticmethod(topology)
    orders = 48
    first_ms = 1  # a row of time 0 would expire later than it should

    def _judge(self) -> None:
        wanted = self.undisturbed(_TOPICS)
        for topic in _TOPICS:
            found = by_key(self.committed_records(topic))
            self.counters["compared_rows"] += sum(map(len, found.values()))
            same(f"rows of {topic} that expired", found, wanted[topic])
