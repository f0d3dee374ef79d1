"""An application whose windows close on idle topics, in a separate process that kills itself.

``clicks`` (key user, value page) are counted per user and window, straight from the source topic,
and per page and window behind a repartition topic. Final results go to ``finals``, late clicks to
``late``. With ``kill_after``, the process kills itself while it sends the result of that number,
before the commit.
"""

from __future__ import annotations

import argparse
import os
import signal
from datetime import timedelta
from pathlib import Path
from typing import Any

from logstate.app.application import Application
from logstate.contracts.late_record import LateRecord
from logstate.topology import KStream, StreamsBuilder, TumblingWindows
from logstate.topology.plan.plan import Topology

IDLE_MS = 400
WINDOWS = TumblingWindows(
    size=timedelta(seconds=1),
    grace=timedelta(milliseconds=200),
    close_on_idle=timedelta(milliseconds=IDLE_MS),
)


class Sent:
    """Counts results."""

    def __init__(self, kill_after: int) -> None:
        self._left = kill_after

    def final(self, window: Any, _: object) -> str:
        self._count()
        return f"{window.key}@{window.start_ms}"

    def late(self, late: LateRecord[str, str]) -> str:
        self._count()
        return f"{late.node} {late.value}"

    def _count(self) -> None:
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def topology(prefix: str, kill_after: int = 0) -> Topology:
    """The topology; every topic carries the prefix of one test."""
    builder, sent = StreamsBuilder(), Sent(kill_after)

    def count(stream: KStream[str, str], store: str) -> None:
        groups = stream.group_by_key().windowed_by(WINDOWS)
        counts = groups.count(store=store, name=store, emit="close", late=f"late-{store}")
        finals = counts.to_stream(sent.final, key=str).map_values(str, value=str)
        finals.to(f"{prefix}-finals")
        late = builder.late(f"late-{store}", key=str, value=str)
        late.map_values(sent.late, value=str).to(f"{prefix}-late")

    clicks = builder.stream(f"{prefix}-clicks", key=str, value=str)
    count(clicks, "per-user")
    count(clicks.select_key(lambda _, page: page, key=str).repartition(name="by-page"), "per-page")
    return builder.build()


def application(bootstrap: str, prefix: str, state_dir: Path, kill_after: int = 0) -> Application:
    """An instance with its own state directory; a restart takes over its partitions at once."""
    return Application(
        topology(prefix, kill_after),
        application_id=prefix,
        bootstrap=bootstrap,
        state_dir=state_dir,
        commit_interval=timedelta(milliseconds=50),
        static_membership=True,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("bootstrap")
    parser.add_argument("prefix")
    parser.add_argument("state_dir", type=Path)
    parser.add_argument("kill_after", type=int)
    application(**vars(parser.parse_args())).run()
