"""The application: windows that close on idle inputs, and their late clicks, in a process that is
killed.

``clicks`` (key user, value ``page round``) are counted per user, straight from the source topic,
and per page behind a repartition topic.
"""

from __future__ import annotations

import argparse
import logging
from datetime import timedelta
from pathlib import Path

from logstate import Application, KStream, StreamsBuilder, Topology, TumblingWindows
from tests.campaigns.idle_kills.kill_points import kills_in

_WINDOWS = TumblingWindows(
    size=timedelta(seconds=1),
    grace=timedelta(milliseconds=200),
    close_on_idle=timedelta(milliseconds=400),
)


def topology(prefix: str, folder: Path) -> Topology:
    """Build the topology; every topic has the prefix of one run."""
    builder, kills = StreamsBuilder(), kills_in(str(folder))

    def count(stream: KStream[str, str], store: str) -> None:
        groups = stream.filter(kills.saw).group_by_key().windowed_by(_WINDOWS)
        counts = groups.count(store=store, name=store, emit="close", late=f"late-{store}")
        finals = counts.to_stream(kills.final, key=str).map_values(str, value=str)
        finals.to(f"{prefix}-finals")
        late = builder.late(f"late-{store}", key=str, value=str)
        late.map_values(kills.late, value=str).to(f"{prefix}-late")

    clicks = builder.stream(f"{prefix}-clicks", key=str, value=str)
    count(clicks, "per-user")
    pages = clicks.select_key(lambda _, value: value.split()[0], key=str)
    count(pages.repartition(name="by-page"), "per-page")
    return builder.build()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("bootstrap")
    parser.add_argument("prefix")
    parser.add_argument("folder", type=Path)
    parser.add_argument("instance", type=int)
    parser.add_argument("workers", type=int)
    parser.add_argument("standbys", type=int)
    a = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(process)d %(name)s %(message)s")
    Application(
        topology(a.prefix, a.folder),
        application_id=a.prefix,
        bootstrap=a.bootstrap,
        state_dir=a.folder / f"instance-{a.instance}",
        commit_interval=timedelta(milliseconds=50),
        checkpoint_interval=timedelta(milliseconds=100),
        workers=a.workers,
        standby_replicas=a.standbys,
        static_membership=not a.standbys,
    ).run()
