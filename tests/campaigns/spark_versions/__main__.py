"""``python -m tests.campaigns.spark_versions [--versions 4.0 4.3] [--parts matrix merge stateful]``

Each version of PySpark, in an environment of its own that is made where there is none yet, works
with the stores of a real broker. There are three parts:

``matrix``: it reads the stores in both modes (tables, cuts, filters, streams, views, metadata) and
writes one. A cell of the table is a check in a version and mode: ``same`` as what was written,
``DIFFERENT``, or ``refused``, where that version cannot and the library says so.

``merge``: ``merge_into`` into tables of Delta and Iceberg, killed ``--kills`` times before, during
and after a MERGE, for each version that has jars of the format.

``stateful``: a stateful query over a change feed into Delta and files, and a join of two stores in
each micro-batch, under kills of the driver and the executors, with one checkpoint for all versions
from 4.1 on.

The last line is JSON; the exit status is 1 where anything is different from what it has to be.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from logstate.local_broker.broker import LocalBroker
from tests.built_wheel import built_wheel
from tests.campaigns.spark_versions.cells import DIFFERENT, Cell, figures, table
from tests.campaigns.spark_versions.columns import MODES, column
from tests.campaigns.spark_versions.environments import RELEASES, Environment, environment
from tests.campaigns.spark_versions.kills import Campaign

PARTS = ("matrix", "merge", "stateful")


def main() -> int:
    """Run the parts; 1 where anything is different from what it has to be."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.campaigns.spark_versions",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--versions", nargs="+", default=RELEASES, metavar="4.0")
    parser.add_argument("--mode", nargs="+", choices=MODES, default=MODES)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--kills", type=int, default=20, help="of MERGEs, at each moment")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    found: dict[str, Any] = {}
    is_good = True
    with tempfile.TemporaryDirectory() as folder, LocalBroker.start() as broker:
        environments, missing = installed(chosen.versions, built_wheel(Path(folder)))
        if "matrix" in chosen.parts:
            cells = matrix(broker.bootstrap, environments, chosen.mode)
            print(table(cells))
            found |= figures(cells, [one.version for one in environments], missing)
            is_good = not found["wrong"]
        if {"merge", "stateful"} & set(chosen.parts):
            campaign = Campaign(broker.bootstrap, Path(folder), chosen.kills, chosen.seed)
            for part in PARTS[1:]:
                if part in chosen.parts:
                    found[part], part_is_good = campaign.run(part, environments)
                    is_good = is_good and part_is_good
    print(json.dumps(found))
    return 0 if is_good else 1


def installed(releases: Iterable[str], wheel: Path) -> tuple[list[Environment], list[str]]:
    """The environments of some releases, and the releases that the package index does not have."""
    environments, missing = [], []
    for release in releases:
        found = environment(release, wheel)
        if found is None:
            missing.append(release)
            print(f"PySpark {release} is not in the package index", flush=True)
        else:
            environments.append(found)
    return environments, missing


def matrix(bootstrap: str, environments: Iterable[Environment], modes: Iterable[str]) -> list[Cell]:
    """The cells of each version and mode."""
    cells: list[Cell] = []
    for one in environments:
        for mode in modes:
            began = time.monotonic()
            made = column(bootstrap, one.release, mode, one.python)
            cells += told(made, one.version, time.monotonic() - began)
    return cells


def told(cells: list[Cell], version: str, seconds: float) -> list[Cell]:
    """The same, after what is wrong among them is printed."""
    wrong = [one for one in cells if one.kind == DIFFERENT]
    what = f"{len(cells)} cells, {len(wrong)} wrong, {seconds:.0f} s"
    print(f"{version} {cells[0].mode}: {what}", flush=True)
    for one in wrong:
        print(f"  {one.check}: {one.said}", flush=True)
    return cells


if __name__ == "__main__":
    sys.exit(main())
