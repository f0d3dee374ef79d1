"""An application whose panes are sent on idle topics, in a separate process that kills itself.

``clicks`` (key user) are counted per user and window, straight from the source topic, and per page
behind a repartition topic; the panes of both go to ``panes``.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from logstate.contracts.pane import Pane
from logstate.topology import KStream, StreamsBuilder, TumblingWindows
from logstate.topology.plan.plan import Topology
from tests.broker.killed_app import kills_at, run

WINDOWS = TumblingWindows(
    size=timedelta(seconds=1),
    grace=timedelta(seconds=10),
    close_on_idle=timedelta(milliseconds=400),
)


def topology(prefix: str, kill_after: int = 0) -> Topology:
    """The topology; every topic carries the prefix of one test."""
    builder, count = StreamsBuilder(), kills_at(kill_after)

    def text_of(pane: Pane[int]) -> str:
        count()
        return f"{pane.number} {pane.timing} {pane.old} {pane.value}"

    def key_of(window: Any, _: object) -> str:
        return f"{window.key}@{window.start_ms}"

    def send_panes(stream: KStream[str, str], name: str) -> None:
        counts = stream.group_by_key().windowed_by(WINDOWS).count(store=name)
        panes = counts.to_pane_stream(name=f"{name}-panes").select_key(key_of, key=str)
        panes.map_values(text_of, value=str).to(f"{prefix}-panes")

    clicks = builder.stream(f"{prefix}-clicks", key=str, value=str)
    send_panes(clicks, "per-user")
    pages = clicks.select_key(lambda _, page: page, key=str)
    send_panes(pages.repartition(name="by-page"), "per-page")
    return builder.build()


if __name__ == "__main__":
    run(topology)
