"""Joins and timers whose records leave while their inputs are idle, under the faults of any
schedule.

When a record leaves depends on timing, and with it whether a partner comes too late to take it out.
What is certain: each pair is joined once; each order and price without a partner leaves once, and
none with a partner more than once; each order meets one row of the table of prices, of its time or
before, or none, and is late or joined once; each order has the last price of an interval, or none,
once, also where the prices end before the orders; the timer of each order runs once.
"""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from functools import cache
from itertools import product

from logstate.contracts.records import Record
from logstate.topology import (
    JoinWindows,
    KeyTimers,
    Materialized,
    Processor,
    ProcessorContext,
    StreamsBuilder,
    Topology,
    timer_store,
)
from tests.campaigns.simulation import flow
from tests.campaigns.simulation.oracles import Wrong, same
from tests.campaigns.simulation.orders_schedule import OrdersSchedule

_SPAN_MS = 6
_LATE = "late"
#: of pairs and records without a partner; of orders with the price of their time, and late ones
_JOINED, _PRICED = "enriched", "windowed"
_NONE = "none"
#: of orders with the last price of their interval, and of timers
_LAST, _NEAR_MS = "last", 8
_REMINDED, _WAIT_MS = "regions", 12


@cache
def topology(*, in_memory: bool) -> Topology:
    """Orders and prices joined as streams, and orders with the table of prices."""
    idle = timedelta(milliseconds=4)
    # No store expires a partner.
    windows = JoinWindows.symmetric(
        timedelta(milliseconds=_SPAN_MS), grace=timedelta(milliseconds=200), close_on_idle=idle
    )
    builder = StreamsBuilder(
        in_memory_stores=in_memory, outer_join_emit_interval=timedelta(milliseconds=0)
    )
    orders = builder.stream(flow.ORDERS, key=str, value=str)
    prices = builder.stream(flow.PRICES, key=str, value=str)
    joined = orders.outer_join(prices, _pair, windows=windows, name="pairs", value=str)
    joined.to(_JOINED)
    table = prices.to_table(store=Materialized("history", history=timedelta(seconds=1)))
    priced = orders.left_join(
        table,
        _pair,
        grace=timedelta(milliseconds=3),
        close_on_idle=idle,
        late=_LATE,
        name="priced",
        value=str,
    )
    priced.to(_PRICED)
    late = builder.late(_LATE, key=str, value=str)
    late.map_values(lambda one: f"{one.value} {_LATE}", value=str).to(_PRICED)
    timers = timer_store("timers", str, in_memory=in_memory)
    reminded = orders.process(
        _Remind, stores=timers, key=str, value=str, name="remind", close_on_idle=idle
    )
    last = orders.interval_join(
        prices,
        lambda order, price: f"{order} {price or _NONE} {_LAST}",
        how="left",
        within=(timedelta(milliseconds=_NEAR_MS), timedelta(milliseconds=2)),
        match="last",
        grace=timedelta(milliseconds=3),
        close_on_idle=idle,
        name="last",
        value=str,
    )
    reminded.merge(last).to(_REMINDED)
    return builder.build()


class _Remind(Processor[str, str, str, str]):
    """Forwards each order some time later."""

    def init(self, context: ProcessorContext[str, str]) -> None:
        self.context = context
        self.timers = KeyTimers[str](context, "timers", self.remind)

    def process(self, record: Record[str, str]) -> None:
        self.timers.set(record.value, record.timestamp + _WAIT_MS)

    def remind(self, order: str, at_ms: int) -> None:
        self.context.forward(Record(order, f"{order} {at_ms}", at_ms))


def _pair(one: str | None, other: str | None) -> str:
    return f"{one or _NONE} {other or _NONE}"


class IdleJoins(OrdersSchedule):
    """A schedule of this flow."""

    variant = "idle_joins"
    make_topology = staticmethod(topology)
    prices, price_every = 6, 3
    first_ms = 1

    def _is_done(self) -> bool:
        """Every record has left."""
        if not super()._is_done():
            return False
        pairs = {one for pair in self._values(_JOINED) for one in pair.split()}
        is_joined = pairs >= {(one.value or b"").decode() for one in self.inputs}
        orders = sum(one.topic == flow.ORDERS for one in self.inputs)
        is_priced = len(self._values(_PRICED)) >= orders
        return is_joined and is_priced and len(self._values(_REMINDED)) >= 2 * orders

    def _judge(self) -> None:
        sides: dict[str, list[tuple[bytes, str, int]]] = {flow.ORDERS: [], flow.PRICES: []}
        for one in self.inputs:
            row = one.key or b"", (one.value or b"").decode(), one.timestamp
            sides[one.topic].append(row)
        orders, prices = sides[flow.ORDERS], sides[flow.PRICES]
        self._judge_pairs(orders, prices)
        self._judge_prices(orders, prices)
        wanted = sorted(f"{order} {time + _WAIT_MS}" for _, order, time in orders)
        reminded = [one for one in self._values(_REMINDED) if not one.endswith(_LAST)]
        same("timers", sorted(reminded), wanted)
        self._judge_last(orders, prices)

    def _judge_last(
        self, orders: list[tuple[bytes, str, int]], prices: list[tuple[bytes, str, int]]
    ) -> None:
        found = sorted(one.split()[:2] for one in self._values(_REMINDED) if one.endswith(_LAST))
        same("orders with a last price", [one for one, _ in found], sorted(o for _, o, _ in orders))
        times = {order: (key, time) for key, order, time in orders}
        of_prices = {price: (key, time) for key, price, time in prices}
        for order, price in found:
            key, time = times[order]
            other, at = of_prices.get(price, (key, time))
            if key != other or not -_NEAR_MS <= at - time <= 2:
                raise Wrong(f"{order} of {time} has {price} of {at}")

    def _judge_pairs(
        self, orders: list[tuple[bytes, str, int]], prices: list[tuple[bytes, str, int]]
    ) -> None:
        found = self._values(_JOINED)
        pairs = [
            f"{order} {price}"
            for (key, order, time), (other, price, at) in product(orders, prices)
            if key == other and abs(time - at) <= _SPAN_MS
        ]
        same("pairs", sorted(one for one in found if _NONE not in one), sorted(pairs))
        self.counters["compared_results"] += len(found)
        joined = {one for pair in pairs for one in pair.split()}
        alone = Counter(one for one in found if _NONE in one)
        for _, value, _ in (*orders, *prices):
            pair = f"{value} {_NONE}" if value.startswith("o") else f"{_NONE} {value}"
            if alone[pair] > 1 or (alone[pair] == 0 and value not in joined):
                raise Wrong(f"{value} has left {alone[pair]} times, of {sorted(alone)}")

    def _judge_prices(
        self, orders: list[tuple[bytes, str, int]], prices: list[tuple[bytes, str, int]]
    ) -> None:
        found = dict(one.split() for one in self._values(_PRICED))
        same("orders with a price", sorted(found), sorted(order for _, order, _ in orders))
        if len(self._values(_PRICED)) != len(found):
            raise Wrong(f"an order has two prices: {sorted(self._values(_PRICED))}")
        self.counters["late_orders"] += sum(price == _LATE for price in found.values())
        for key, order, time in orders:
            before = {price for other, price, at in prices if other == key and at <= time}
            if found[order] not in {_NONE, _LATE, *before}:
                raise Wrong(f"{order} of {time} has {found[order]}; prices before: {before}")

    def _values(self, topic: str) -> list[str]:
        return [value for _, value in self.committed_records(topic)]
