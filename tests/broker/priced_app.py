"""An application that joins trades with the history of prices, in a process that kills itself.

Both are records of ``events`` (key user; value ``price ...`` or ``trade ...``), so that they come
in the order of one topic. Trades wait for prices that come up to 20 ms later; results and late
trades go to ``joined``. With ``kill_after``, the process kills itself while it makes the result of
that number, before the commit.
"""

from __future__ import annotations

from datetime import timedelta

from logstate.contracts.late_record import LateRecord
from logstate.topology import Materialized, StreamsBuilder
from logstate.topology.plan.plan import Topology
from tests.broker.killed_app import kills_at, run

GRACE_MS = 20
TOLERANCE_MS = 50


class Made:
    """Counts results."""

    def __init__(self, kill_after: int) -> None:
        self._count = kills_at(kill_after)

    def priced(self, trade: str, price: str | None) -> str:
        self._count()
        return f"{trade} at {price}"

    def late(self, late: LateRecord[str, str]) -> str:
        self._count()
        return f"late {late.value}"


def topology(prefix: str, kill_after: int = 0) -> Topology:
    """The topology; every topic carries the prefix of one test."""
    builder, made = StreamsBuilder(), Made(kill_after)
    events = builder.stream(f"{prefix}-events", key=str, value=str)
    history = Materialized("prices", value=str, history=timedelta(minutes=1))
    prices = events.filter(lambda _, event: event.startswith("price")).to_table(store=history)
    trades = events.filter(lambda _, event: event.startswith("trade"))
    priced = trades.as_of_join(
        prices,
        made.priced,
        how="left",
        tolerance=timedelta(milliseconds=TOLERANCE_MS),
        grace=timedelta(milliseconds=GRACE_MS),
        name="priced",
        late="late",
    )
    late = builder.late("late", key=str, value=str).map_values(made.late)
    priced.merge(late).to(f"{prefix}-joined", key=str, value=str)
    return builder.build()


if __name__ == "__main__":
    run(topology)
