"""Counts on three sides of two repartition topics, as a process: what snapshots have to agree on.

Every record is counted by its key, behind one repartition topic by its value, and behind another by
the value's last digit. It writes down for how long tasks stood still, and its commits.
"""

from __future__ import annotations

import argparse
import json
import logging
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

from logstate import Application, StreamsBuilder, Topology

STORES = ("by_key", "by_value", "by_digit")
#: between two looks at what stands still
_LOOK_S = 0.002


def topology(name: str) -> Topology:
    """Three sub-topologies in a row."""
    builder = StreamsBuilder()
    records = builder.stream(f"{name}-records", key=str, value=int)
    records.group_by_key().count(store="by_key")
    by_value = records.select_key(lambda _, value: str(value)).repartition(name="by-value", key=str)
    by_value.group_by_key().count(store="by_value")
    by_digit = by_value.group_by(lambda _, value: str(value % 10), name="by-digit", key=str)
    by_digit.count(store="by_digit")
    return builder.build()


def application(bootstrap: str, name: str, state_dir: Path, **settings: Any) -> Application:
    """An instance."""
    return Application(
        topology(name),
        application_id=name,
        bootstrap=bootstrap,
        state_dir=state_dir,
        commit_interval=timedelta(milliseconds=100),
        static_membership=True,  # who begins again has its tasks at once
        **settings,
    )


def watch(app: Application, path: Path) -> None:
    """Write a line for each time a task stood still, and one for the commits every second."""
    began: dict[str, float] = {}
    told, life = 0.0, time.time_ns()
    with path.open("a") as lines:
        while True:
            now = time.monotonic()
            held = {str(t) for t, o in app._workers.observer.tasks.items() if o.is_held}
            for task in [task for task in began if task not in held]:
                ms = 1_000 * (now - began.pop(task))
                print(json.dumps({"task": task, "held_ms": round(ms, 1)}), file=lines, flush=True)
            began.update({task: now for task in held if task not in began})
            if now - told > 1.0:
                told = now
                commits = app.metrics().get("commit_latency_seconds")
                print(json.dumps({"commits": commits, "life": life}), file=lines, flush=True)
            time.sleep(_LOOK_S)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("bootstrap")
    parser.add_argument("name")
    parser.add_argument("state_dir", type=Path)
    parser.add_argument("--workers", type=int, default=1)
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    one = application(given.bootstrap, given.name, given.state_dir, workers=given.workers)
    if given.workers == 1:
        target = given.state_dir.with_suffix(".held")
        threading.Thread(target=watch, args=(one, target), daemon=True).start()
    one.run()
