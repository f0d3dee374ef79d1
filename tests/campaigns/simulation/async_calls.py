"""Asynchronous mappers: no commit lacks a result, and an undone record leaves none.

Some calls raise, and for some records another operator raises after the call has begun; a handler
skips these records. The results are those of a run without faults.
"""

from __future__ import annotations

import asyncio
import zlib
from functools import cache

from logstate.task.error_handlers import ErrorHandlers, skip
from logstate.topology import StreamsBuilder, Topology
from tests.campaigns.simulation import flow
from tests.campaigns.simulation.oracles import same
from tests.campaigns.simulation.orders_schedule import OrdersSchedule, by_key

#: of the calls, of the other operator, and of counts below the calls
_TOPICS = ("enriched", "windowed", "regions")


def _number_of(order: str) -> int:
    return zlib.crc32(order.encode())


async def _called(order: str) -> str:
    for _ in range(_number_of(order) % 4):
        await asyncio.sleep(0)
    if _number_of(order) % 7 == 0:
        raise ValueError(order)
    return f"called {order}"


def _not_a_fifth(order: str) -> str:
    if _number_of(order) % 5 == 0:
        raise ValueError(order)
    return order


@cache
def topology(*, in_memory: bool) -> Topology:
    """Calls, a count below them, and a sibling that fails."""
    builder = StreamsBuilder(in_memory_stores=in_memory)
    orders = builder.stream(flow.ORDERS, key=str, value=str)
    called = orders.map_values_async(_called, value=str, concurrency=3)
    called.to(_TOPICS[0])
    orders.map_values(_not_a_fifth, value=str).to(_TOPICS[1])
    counts = called.group_by_key().count(store="called").to_stream()
    counts.map_values(str, value=str).to(_TOPICS[2])
    return builder.build()


class AsyncCalls(OrdersSchedule):
    """A schedule of this flow."""

    variant = "async"
    make_topology = staticmethod(topology)
    orders = 30
    first_ms = 1
    handlers = ErrorHandlers(processing=skip)

    def _judge(self) -> None:
        for topic, wanted in self.undisturbed(_TOPICS).items():
            same(f"results on {topic}", by_key(self.committed_records(topic)), wanted)
            self.counters["compared_results"] += sum(map(len, wanted.values()))
