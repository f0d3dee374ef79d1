"""``python -m tests.campaigns.snapshots [--snapshots 30] [--per-s 3000] [--kill-every 8]``.

Takes snapshots across two repartition topics of an application of two instances, under load, while
one of them is killed now and then and begins again. Each is read by its name: the counts on all
sides of the repartition topics have to be the records of the input up to the snapshot. The last
line is JSON, with how long tasks stood still.
"""

from __future__ import annotations

import argparse
import json
import logging
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

from logstate.local_broker.broker import LocalBroker
from tests.campaigns.snapshots.campaign import Scenario, check

_FIRST_RECORDS_S = 60


def campaign(bootstrap: str, path: Path, given: argparse.Namespace) -> dict[str, Any]:
    """Raises AssertionError for a snapshot whose stores do not agree."""
    scenario = Scenario(bootstrap, f"snapshots-{uuid.uuid4().hex[:8]}", path)
    counts, took, numbers = [], [], range(given.instances)
    try:
        for number in numbers:
            scenario.start(number)
        with scenario.load(given.per_s, given.seed):
            time.sleep(given.settle)
            with scenario.kills(numbers, given.kill_every, given.seed) as killed:
                for number in range(given.snapshots):
                    began = time.monotonic()
                    made = scenario.snapshot(f"s-{number}")
                    took.append(time.monotonic() - began)
                    counts.append(check(scenario, made))
                    print(f"{made.name}: {counts[-1]} records in {took[-1]:.1f} s", flush=True)
    finally:
        scenario.close()
    assert counts == sorted(counts)
    assert counts[-1] > 0
    held = scenario.held_ms()
    return {
        "snapshots": len(counts),
        "agreed": len(counts),
        "kills": len(killed),
        "records": counts[-1],
        "longest_s": round(max(took), 1),
        "held_ms": dict(zip(("median", "p90", "max"), _quantiles(held), strict=True)),
        "commit_ms": scenario.commit_ms(),
    }


def _quantiles(ascending: list[float]) -> tuple[float, float, float]:
    return ascending[len(ascending) // 2], ascending[len(ascending) * 9 // 10], ascending[-1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--snapshots", type=int, default=30)
    parser.add_argument("--instances", type=int, default=2)
    parser.add_argument("--per-s", type=int, default=3_000)
    parser.add_argument("--kill-every", type=float, default=8.0, help="seconds, about")
    parser.add_argument("--settle", type=float, default=8.0, help="seconds before the first")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--bootstrap", help="of a broker that runs; else one is started")
    parser.add_argument("--keep", type=Path, help="where logs and states stay")
    given = parser.parse_args()
    logging.basicConfig(format="%(message)s")
    logging.getLogger("logstate.changelog.cuts").setLevel(logging.INFO)
    with tempfile.TemporaryDirectory() as folder:
        path = given.keep or Path(folder)
        path.mkdir(parents=True, exist_ok=True)
        if given.bootstrap:
            print(json.dumps(campaign(given.bootstrap, path, given)))
            return
        with LocalBroker.start(heap="768m") as broker:
            print(json.dumps(campaign(broker.bootstrap, path, given)))


if __name__ == "__main__":
    main()
