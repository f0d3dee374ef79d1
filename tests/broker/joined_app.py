"""An application with joins by time, in a separate process that kills itself.

Each of ``orders`` (key user) is joined with the first one of ``payments`` within 10 ms, and each of
``payments`` with the newest of ``orders`` as of its time; results and late records go to
``joined``. With ``kill_after``, the process kills itself while it makes the
result of that number, before the commit.
"""

from __future__ import annotations

from datetime import timedelta

from logstate.contracts.late_record import LateRecord
from logstate.topology import StreamsBuilder
from logstate.topology.plan.plan import Topology
from tests.broker.killed_app import kills_at, run

WITHIN = timedelta(0), timedelta(milliseconds=10)
GRACE = timedelta(milliseconds=5)


class Made:
    """Counts results."""

    def __init__(self, kill_after: int) -> None:
        self._count = kills_at(kill_after)

    def pair(self, order: str, payment: str | None) -> str:
        self._count()
        return f"first {order}+{payment}"

    def newest(self, payment: str, order: str | None) -> str:
        self._count()
        return f"newest {payment}+{order}"

    def late(self, late: LateRecord[str, str]) -> str:
        self._count()
        return f"late {late.value}"


def topology(prefix: str, kill_after: int = 0) -> Topology:
    """The topology; every topic carries the prefix of one test."""
    builder, made = StreamsBuilder(), Made(kill_after)
    orders, payments = (
        builder.stream(f"{prefix}-{topic}", key=str, value=str) for topic in ("orders", "payments")
    )
    first = orders.interval_join(
        payments,
        made.pair,
        how="left",
        within=WITHIN,
        match="first",
        grace=GRACE,
        name="first",
        late="late",
    )
    newest = payments.as_of_join(
        orders,
        made.newest,
        how="left",
        tolerance=WITHIN[1],
        grace=GRACE,
        name="newest",
        late="late-for-newest",
    )
    results = first.merge(newest)
    for name in ("late", "late-for-newest"):
        results = results.merge(builder.late(name, key=str, value=str).map_values(made.late))
    results.to(f"{prefix}-joined", key=str, value=str)
    return builder.build()


if __name__ == "__main__":
    run(topology)
