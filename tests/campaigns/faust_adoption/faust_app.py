"""The Faust application: it counts records by key, and by key and minute, until it is stopped."""

from __future__ import annotations

import sys
from typing import Any

import faust

INPUT = "visits"
WINDOW_S = 60.0


class Visit(faust.Record, namespace="tests.Visit"):
    """What is in the topic."""

    page: str
    amount: int = 1


def counting(application_id: str, bootstrap: str, folder: str, **settings: Any) -> faust.App:
    """The application, with its two tables and its agent."""
    app = faust.App(
        application_id,
        broker=f"kafka://{bootstrap}",
        store="memory://",
        datadir=folder,
        web_enabled=False,
        topic_partitions=2,
        broker_commit_interval=0.5,
        autodiscover=False,
        **settings,
    )
    topic = app.topic(f"{application_id}-{INPUT}", key_type=str, value_type=Visit)
    pages = app.Table("pages", default=int, key_type=str, value_type=int)
    minutes = app.Table("minutes", default=int, key_type=str, value_type=int).tumbling(WINDOW_S)

    @app.agent(topic)
    async def count(visits: Any) -> None:
        async for event in visits.events():
            pages[event.key] += event.value.amount
            minutes[event.key] += 1

    return app


if __name__ == "__main__":
    faust.Worker(
        counting(sys.argv[1], sys.argv[2], sys.argv[3]), loglevel="info"
    ).execute_from_commandline()
