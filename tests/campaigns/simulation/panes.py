"""Panes of windows and sessions, under the faults of any schedule.

Panes follow from the orders of a partition, in their order, and from nothing else. So those that
were committed are, exactly and in their order, those of a run without faults. Their numbers have no
gaps.
"""

from __future__ import annotations

from datetime import timedelta
from functools import cache

from logstate.contracts.pane import Pane
from logstate.contracts.records import Windowed
from logstate.topology import (
    Materialized,
    SessionWindows,
    StreamsBuilder,
    Topology,
    TumblingWindows,
    early,
)
from tests.campaigns.simulation import flow
from tests.campaigns.simulation.oracles import same
from tests.campaigns.simulation.orders_schedule import OrdersSchedule, by_key

_GRACE = timedelta(milliseconds=4)
_WINDOWS = TumblingWindows(size=timedelta(milliseconds=8), grace=_GRACE)
_SESSIONS = SessionWindows(gap=timedelta(milliseconds=2), grace=_GRACE)
_OFTEN, _BY_TWO = early(every=timedelta(milliseconds=2)), early(records=2)
_TOPICS = ("enriched", "windowed", "regions")


@cache
def topology(*, in_memory: bool) -> Topology:
    """Windows with early panes by time and by number, and sessions."""
    builder = StreamsBuilder(in_memory_stores=in_memory)
    groups = builder.stream(flow.ORDERS, key=str, value=str).group_by_key()
    counts = groups.windowed_by(_WINDOWS).count(store="counts")
    visits = groups.windowed_by(_SESSIONS).count(
        store=Materialized("visits", retention=timedelta(seconds=1))
    )
    often = counts.to_pane_stream(_OFTEN, name="often")
    by_two = counts.to_pane_stream(_BY_TWO, name="by-two")
    sessions = visits.to_pane_stream(_OFTEN, name="of-visits")
    for panes, topic in zip((often, by_two, sessions), _TOPICS, strict=True):
        panes.select_key(_key_of, key=str).map_values(_text_of, value=str).to(topic)
    return builder.build()


def _key_of(window: Windowed[str], _: object) -> str:
    return f"{window.key}@{window.start_ms}-{window.end_ms}"


def _text_of(pane: Pane[int]) -> str:
    return f"{pane.number} {pane.timing} {pane.old} {pane.value}"


class Panes(OrdersSchedule):
    """A schedule of this flow."""

    variant = "panes"
    make_topology = staticmethod(topology)
    orders = 24
    first_ms = 1

    def _judge(self) -> None:
        wanted = self.undisturbed(_TOPICS)
        for topic in _TOPICS:
            found = by_key(self.committed_records(topic))
            for key, panes in found.items():
                numbers = [int(pane.split()[0]) for pane in panes]
                same(f"numbers of panes of {key}", numbers, list(range(len(panes))))
                self.counters["compared_panes"] += len(panes)
            same(f"panes of {topic}", found, wanted[topic])
