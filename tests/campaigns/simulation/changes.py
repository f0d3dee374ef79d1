"""Changes of windows and tables with both values, under the faults of any schedule.

Which orders are late, and when a window is final, follows from their order in a partition, and that
is certain. When a worker commits is not, so changes of ``emit="commit"`` differ between schedules.
What is certain of all: the old value of a change is the new value of the change before it, and what
is left at the end is what an undisturbed run leaves.
"""

from __future__ import annotations

from datetime import timedelta
from functools import cache
from typing import Any

from logstate.contracts.records import Change, Windowed
from logstate.topology import (
    KTable,
    Materialized,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    Topology,
    until_time_limit,
)
from tests.campaigns.simulation import flow
from tests.campaigns.simulation.oracles import same
from tests.campaigns.simulation.orders_schedule import OrdersSchedule

_KEPT = timedelta(seconds=1)
_SESSIONS = SessionWindows(gap=timedelta(milliseconds=2), grace=timedelta(milliseconds=3))
_SLIDING = SlidingWindows(difference=timedelta(milliseconds=4), grace=timedelta(milliseconds=20))
_LIMIT = until_time_limit(timedelta(milliseconds=5))


@cache
def topology(*, in_memory: bool) -> Topology:
    """The changes of sessions, of final sessions, of sliding windows, and of a slow table."""
    builder = StreamsBuilder(in_memory_stores=in_memory, window_emit_interval=timedelta(0))
    groups = builder.stream(flow.ORDERS, key=str, value=str).group_by_key()
    visits = groups.windowed_by(_SESSIONS)
    tables: dict[str, tuple[KTable[Any, int], str]] = {
        "+": (visits.count(store=_store("visits")), "enriched"),
        "~": (visits.count(store=_store("finals"), emit="close"), "enriched"),
        "@": (groups.windowed_by(_SLIDING).count(store=_store("near"), emit="commit"), "windowed"),
        "=": (groups.count(store="all").suppress(_LIMIT, name="slow"), "regions"),
    }
    for mark, (table, topic) in tables.items():
        changes = table.to_change_stream().select_key(
            lambda key, _, mark=mark: _shown(key, mark), key=str
        )
        changes.map_values(_text_of, value=str).to(topic)
    return builder.build()


def _store(name: str) -> Materialized:
    return Materialized(name, retention=_KEPT)


def _shown(key: Any, mark: str) -> str:
    return f"{key.key}{mark}{key.start_ms}-{key.end_ms}" if isinstance(key, Windowed) else key


def _text_of(change: Change[int]) -> str:
    return f"{change.old} {change.new}"


class Changes(OrdersSchedule):
    """A schedule of this flow."""

    variant = "changes"
    make_topology = staticmethod(topology)
    first_ms = 1

    def _judge(self) -> None:
        undisturbed = self.undisturbed(flow.OUTPUTS)
        for topic in flow.OUTPUTS:
            left = {key: last.split()[1] for key, (*_, last) in undisturbed[topic].items()}
            wanted = {key: value for key, value in left.items() if value != "None"}
            same(f"what is left of {topic}", self.rows_of_changes(topic, "None"), wanted)
