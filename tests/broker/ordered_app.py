"""An application that sorts, limits, numbers and ranks records, in a process that kills itself.

``clicks`` (key user, value page) go to ``sorted`` in the order of their timestamps, the first one
of each user and window to ``few``, and all to ``steps`` with the page before. The clicks of users
without one for a while go to ``gone``, and the pages with the most clicks to ``best``. With
``kill_after``, the process kills itself while it sends the result of that number, before the
commit.
"""

from __future__ import annotations

from datetime import timedelta

import msgspec

from logstate.topology import Materialized, StreamsBuilder, TumblingWindows
from logstate.topology.plan.plan import Topology
from tests.broker.killed_app import kills_at, run

TTL_MS, GRACE_MS, WINDOW_MS = 30, 20, 40
BEST = 2


class Page(msgspec.Struct, frozen=True):
    """A page and its number of clicks."""

    name: str
    clicks: int


def topology(prefix: str, kill_after: int = 0) -> Topology:
    """The topology; every topic carries the prefix of one test."""
    builder, count = StreamsBuilder(), kills_at(kill_after)

    def sent(_: str, value: str | int) -> str:
        count()
        return str(value)

    clicks = builder.stream(f"{prefix}-clicks", key=str, value=str)
    in_order = clicks.sort_by_time(timedelta(milliseconds=GRACE_MS), store="waiting")
    in_order.map_values(sent, value=str).to(f"{prefix}-sorted")

    windows = TumblingWindows(size=timedelta(milliseconds=WINDOW_MS))
    clicks.throttle(1, windows, store="few").map_values(sent, value=str).to(f"{prefix}-few")

    steps = clicks.scan(
        str, lambda last, page: (page, f"{last}>{page}"), state=str, value=str, store="last"
    )
    steps.map_values(sent, value=str).to(f"{prefix}-steps")

    users = Materialized("users", ttl=timedelta(milliseconds=TTL_MS), expired="gone")
    clicks.group_by_key(name="users").count(store=users)
    gone = builder.expired("gone", key=str, value=int)
    gone.map_values(sent, value=str).to(f"{prefix}-gone")

    pages = clicks.group_by(lambda _, page: page, key=str, name="pages").count(store="pages")
    together = pages.group_by(
        lambda page, clicks: ("all", Page(page, clicks)), key=str, value=Page, name="all"
    )
    best = together.top_n(
        BEST, by=lambda page: (page.clicks, page.name), score=tuple[int, str], store="best"
    )
    names = best.map_values(lambda row: " ".join(one.name for one in row), value=str)
    names.to_stream().to(f"{prefix}-best", key=str, value=str)
    return builder.build()


if __name__ == "__main__":
    run(topology)
