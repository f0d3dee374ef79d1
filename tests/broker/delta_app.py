"""An application that emits deltas, in a separate process that kills itself.

``clicks`` (key user) are counted per user and window, and summed per page behind a repartition
topic; the deltas of both go to ``deltas``. With ``kill_after``, the process kills itself while it
sends the delta of that number, before the commit.
"""

from __future__ import annotations

import argparse
import os
import signal
from datetime import timedelta
from pathlib import Path
from typing import Any

from logstate.app.application import Application
from logstate.topology import Materialized, StreamsBuilder, TumblingWindows
from logstate.topology.plan.plan import Topology

SIZE_MS = 10
WINDOWS = TumblingWindows(size=timedelta(milliseconds=SIZE_MS), grace=timedelta(seconds=10))


def topology(prefix: str, kill_after: int = 0) -> Topology:
    """The topology; every topic carries the prefix of one test."""
    builder, left = StreamsBuilder(), [kill_after]

    def sent(key: Any, _: object) -> str:
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return key if isinstance(key, str) else f"{key.key}@{key.start_ms}"

    clicks = builder.stream(f"{prefix}-clicks", key=str, value=str)
    windows = clicks.group_by_key(name="users").windowed_by(WINDOWS)
    counts = windows.count(store=Materialized("users", retention=timedelta(hours=1)), emit="delta")
    pages = clicks.map(lambda _, page: (page, len(page)), key=str, value=int).group_by_key(name="p")
    sums = pages.reduce(
        lambda a, b: a + b, store="pages", emit="delta", difference=lambda new, old: new - old
    )
    for table in (counts, sums):
        table.to_stream(sent, key=str).map_values(str, value=str).to(f"{prefix}-deltas")
    return builder.build()


def application(bootstrap: str, prefix: str, state_dir: Path, kill_after: int = 0) -> Application:
    """An instance with its own state directory; a restart takes over its partitions at once."""
    return Application(
        topology(prefix, kill_after),
        application_id=prefix,
        bootstrap=bootstrap,
        state_dir=state_dir,
        commit_interval=timedelta(milliseconds=30),
        static_membership=True,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("bootstrap")
    parser.add_argument("prefix")
    parser.add_argument("state_dir", type=Path)
    parser.add_argument("kill_after", type=int)
    application(**vars(parser.parse_args())).run()
