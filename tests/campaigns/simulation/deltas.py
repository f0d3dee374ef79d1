"""Deltas of keys, windows and sessions, under the faults of any schedule.

When a worker commits depends on timing, and with it how a sum is divided into deltas. What is
certain: the deltas of a row add up to what the inputs say, exactly once, and no order is late,
because the grace is longer than the orders are out of order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import timedelta
from functools import cache

from logstate.contracts.records import Windowed
from logstate.topology import (
    Materialized,
    SessionWindows,
    StreamsBuilder,
    Topology,
    TumblingWindows,
)
from tests.campaigns.simulation import flow
from tests.campaigns.simulation.oracles import same
from tests.campaigns.simulation.orders_schedule import OrdersSchedule

_SIZE_MS, _GAP_MS = 10, 2
_GRACE, _KEPT = timedelta(milliseconds=100), timedelta(seconds=1)
_TUMBLING = TumblingWindows(size=timedelta(milliseconds=_SIZE_MS), grace=_GRACE)
_SESSIONS = SessionWindows(gap=timedelta(milliseconds=_GAP_MS), grace=_GRACE)


@cache
def topology(*, in_memory: bool) -> Topology:
    """Orders per key, per window and per session, and behind a repartition topic per region."""
    builder = StreamsBuilder(in_memory_stores=in_memory)
    orders = builder.stream(flow.ORDERS, key=str, value=str)
    groups = orders.group_by_key()
    groups.count(store="orders", emit="delta").to_stream().map_values(str, value=str).to("enriched")
    windows = groups.windowed_by(_TUMBLING).count(
        store=Materialized("windows", retention=_KEPT), emit="delta"
    )
    sessions = groups.windowed_by(_SESSIONS).count(
        store=Materialized("sessions", retention=_KEPT), emit="delta"
    )
    for table, mark in ((windows, "@"), (sessions, "~")):
        deltas = table.to_stream(lambda window, _, mark=mark: _shown(window, mark), key=str)
        deltas.map_values(str, value=str).to("windowed")
    regions = orders.select_key(flow.region_of, key=str).repartition(name="by-region")
    totals = (
        regions.map_values(_number_of, value=int)
        .group_by_key()
        .reduce(
            lambda a, b: a + b, store="regions", emit="delta", difference=lambda new, old: new - old
        )
    )
    totals.to_stream().map_values(str, value=str).to("regions")
    return builder.build()


def _shown(window: Windowed[str], mark: str) -> str:
    return f"{window.key}{mark}{window.start_ms}-{window.end_ms}"


def _number_of(order: str) -> int:
    return int(order.rpartition("-")[2]) - 7


class Deltas(OrdersSchedule):
    """A schedule of this flow; exactly-once, because sums of repeated deltas are wrong."""

    variant = "deltas"
    make_topology = staticmethod(topology)
    first_ms = 1

    def _judge(self) -> None:
        times: dict[str, list[int]] = {}
        regions = Counter[str]()
        for one in self.inputs:
            key, value = (one.key or b"").decode(), (one.value or b"").decode()
            times.setdefault(key, []).append(one.timestamp)
            regions[flow.region_of(key, value)] += _number_of(value)
        windows = Counter(
            f"{key}@{start}-{start + _SIZE_MS}"
            for key, found in times.items()
            for start in (time // _SIZE_MS * _SIZE_MS for time in found)
        )
        for key, found in times.items():
            windows += Counter(dict(_sessions(key, sorted(found))))
        wanted = {
            "enriched": {key: len(found) for key, found in times.items()},
            "windowed": dict(windows),
            "regions": {key: sum_ for key, sum_ in regions.items() if sum_},
        }
        for topic, sums in wanted.items():
            deltas = list(self.committed_records(topic))
            same(f"sums of the deltas of {topic}", _added(deltas), sums)
            self.counters["compared_sums"] += len(sums)
            self.counters["deltas"] += len(deltas)


def _sessions(key: str, times: list[int]) -> Iterator[tuple[str, int]]:
    """The sessions of a key and how many orders each has."""
    start, count = times[0], 0
    for place, time in enumerate(times):
        count += 1
        is_last = place + 1 == len(times)
        if is_last or times[place + 1] - time > _GAP_MS:
            yield f"{key}~{start}-{time}", count
            start, count = (0 if is_last else times[place + 1]), 0


def _added(deltas: Iterable[tuple[str, str]]) -> dict[str, int]:
    """The sums that are not zero."""
    sums = Counter[str]()
    for key, delta in deltas:
        sums[key] += int(delta)
    return {key: sum_ for key, sum_ in sums.items() if sum_}
