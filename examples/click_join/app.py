"""Clicks on advertisements joined with the queries that showed them, each click exactly once.

    queries (by query) ── first of each query ─┐
                                               ├─ join within an hour ── joined
    clicks (by query) ── first of each click ──┘

Servers write both logs again after a failure, so records come twice; and a click may come before
its query, because the logs of data centers arrive at different times.
"""

from __future__ import annotations

from datetime import timedelta

import msgspec

from logstate import JoinWindows, StreamsBuilder, Topology

#: the time between a query and its clicks, and of records that are known to be repeated
WITHIN = timedelta(hours=1)


class Query(msgspec.Struct, frozen=True):
    text: str


class Click(msgspec.Struct, frozen=True):
    id: str
    ad: str


class Joined(msgspec.Struct, frozen=True):
    click: str
    ad: str
    text: str


def topology(prefix: str = "") -> Topology:
    builder = StreamsBuilder()
    queries = builder.stream(f"{prefix}queries", key=str, value=Query)
    clicks = builder.stream(f"{prefix}clicks", key=str, value=Click)
    queries = queries.deduplicate_by_key(WITHIN, store="seen-queries")
    clicks = clicks.deduplicate_by_key_value(
        lambda click: click.id, WITHIN, id=str, store="seen-clicks"
    )
    joined = clicks.join(
        queries,
        lambda click, query: Joined(click.id, click.ad, query.text),
        windows=JoinWindows.symmetric(WITHIN),
        name="with-query",
    )
    joined.to(f"{prefix}joined", value=Joined)
    return builder.build()


if __name__ == "__main__":
    from examples.playground import play

    play(topology(), application_id="click-join")
