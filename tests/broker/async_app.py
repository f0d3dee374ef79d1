"""An application with asynchronous calls, in a process that kills itself.

Each of the ``events`` (key user) goes to a call that takes up to 20 ms, and its result is numbered
by key and sent to ``joined``. With ``kill_after``, the process kills itself in the call, or the
numbering, of that number.
"""

from __future__ import annotations

import asyncio
import zlib

from logstate.topology import StreamsBuilder
from logstate.topology.plan.plan import Topology
from tests.broker.killed_app import kills_at, run


class Service:
    """Counts its calls, and what is made of their results."""

    def __init__(self, kill_after: int) -> None:
        self._count = kills_at(kill_after)

    async def call(self, event: str) -> str:
        self._count()
        await asyncio.sleep(zlib.crc32(event.encode()) % 20 / 1_000)
        return f"called {event}"

    def number(self, number: int, result: str) -> tuple[int, str]:
        self._count()
        return number + 1, f"{number} {result}"


def topology(prefix: str, kill_after: int = 0) -> Topology:
    """The topology; every topic carries the prefix of one test."""
    builder, service = StreamsBuilder(), Service(kill_after)
    events = builder.stream(f"{prefix}-events", key=str, value=str)
    called = events.map_values_async(service.call, value=str, concurrency=8)
    numbered = called.scan(int, service.number, state=int, value=str, store="numbers")
    numbered.to(f"{prefix}-joined", key=str, value=str)
    return builder.build()


if __name__ == "__main__":
    run(topology)
