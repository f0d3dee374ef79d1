"""An application that emits deltas, changes and panes, in a separate process that kills itself.

``clicks`` (key user) are counted per user and window, and summed per page behind a repartition
topic; the deltas of both go to ``deltas``. Changes of the sessions of users go to ``changes``, with
both values, and panes of windows to ``panes``. With ``kill_after``, the process kills itself while
it sends the result of that number, before the commit.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from logstate.contracts.records import Change
from logstate.topology import (
    Materialized,
    SessionWindows,
    StreamsBuilder,
    TumblingWindows,
    early,
)
from logstate.topology.plan.plan import Topology
from tests.broker.killed_app import kills_at, run

SIZE_MS = 10
SESSIONS = SessionWindows(gap=timedelta(milliseconds=4), grace=timedelta(seconds=10))
WINDOWS = TumblingWindows(size=timedelta(milliseconds=SIZE_MS), grace=timedelta(seconds=10))


def topology(prefix: str, kill_after: int = 0) -> Topology:
    """The topology; every topic carries the prefix of one test."""
    builder, count = StreamsBuilder(), kills_at(kill_after)

    def sent(key: Any, _: object) -> str:
        count()
        return key if isinstance(key, str) else f"{key.key}@{key.start_ms}-{key.end_ms}"

    def text_of(change: Change[int]) -> str:
        return f"{change.old} {change.new}"

    clicks = builder.stream(f"{prefix}-clicks", key=str, value=str)
    windows = clicks.group_by_key(name="users").windowed_by(WINDOWS)
    counts = windows.count(store=Materialized("users", retention=timedelta(hours=1)), emit="delta")
    pages = clicks.map(lambda _, page: (page, len(page)), key=str, value=int).group_by_key(name="p")
    sums = pages.reduce(
        lambda a, b: a + b, store="pages", emit="delta", difference=lambda new, old: new - old
    )
    for table in (counts, sums):
        table.to_stream(sent, key=str).map_values(str, value=str).to(f"{prefix}-deltas")
    sessions = clicks.group_by_key(name="users").windowed_by(SESSIONS)
    visits = sessions.count(store=Materialized("visits", retention=timedelta(hours=1)))
    changes = visits.to_change_stream().select_key(sent, key=str)
    changes.map_values(text_of, value=str).to(f"{prefix}-changes")
    halves = clicks.group_by_key(name="users").windowed_by(WINDOWS).count(store="halves")
    panes = halves.to_pane_stream(early(records=2), name="pane-rows").select_key(sent, key=str)
    panes.map_values(lambda one: f"{one.number} {one.timing} {one.value}", value=str).to(
        f"{prefix}-panes"
    )
    return builder.build()


if __name__ == "__main__":
    run(topology)
