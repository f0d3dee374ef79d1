"""The application: a table with a TTL, in a separate process that is killed."""

from __future__ import annotations

import argparse
from datetime import timedelta
from pathlib import Path

from logstate import Application, Materialized, StreamsBuilder, Topology

STORE = "seen"
TTL = timedelta(hours=1)


def topology(name: str) -> Topology:
    """The rows of a topic, each for an hour after its last record."""
    builder = StreamsBuilder()
    builder.table(f"{name}-in", key=str, value=int, store=Materialized(STORE, ttl=TTL))
    return builder.build()


def application(bootstrap: str, name: str, state_dir: Path, *, serves: bool) -> Application:
    """One instance."""
    return Application(
        topology(name),
        application_id=name,
        bootstrap=bootstrap,
        state_dir=state_dir,
        commit_interval=timedelta(milliseconds=100),
        serve="127.0.0.1:0" if serves else None,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("bootstrap")
    parser.add_argument("name")
    parser.add_argument("state_dir", type=Path)
    a = parser.parse_args()
    application(a.bootstrap, a.name, a.state_dir, serves=False).run()
