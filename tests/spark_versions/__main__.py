"""``python -m tests.spark_versions [--versions 4.0 4.3] [--mode classic connect]``

Each version of PySpark, in an environment of its own that is made where there is none yet, reads
the stores of a real broker in both modes: tables, cuts, filters, streams, views, metadata, and
writes one. A cell of the table is a check in a version and mode: ``same`` as what was written,
``DIFFERENT``, or ``refused``, where that version cannot and the library says so. The last line is
JSON; the exit status is 1 where a cell is different.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from logstate.local_broker.broker import LocalBroker
from tests.built_wheel import built_wheel
from tests.spark_versions.cells import DIFFERENT, Cell, figures, table
from tests.spark_versions.columns import MODES, column
from tests.spark_versions.environments import environment

RELEASES = ("4.0", "4.1", "4.2", "4.3")


def main() -> int:
    """Run the matrix; 1 where a cell is different."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.spark_versions",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--versions", nargs="+", default=RELEASES, metavar="4.0")
    parser.add_argument("--mode", nargs="+", choices=MODES, default=MODES)
    chosen = parser.parse_args()
    cells: list[Cell] = []
    versions, missing = [], []
    with tempfile.TemporaryDirectory() as folder, LocalBroker.start() as broker:
        wheel = built_wheel(Path(folder))
        for release in chosen.versions:
            found = environment(release, wheel)
            if found is None:
                missing.append(release)
                print(f"PySpark {release} is not in the package index", flush=True)
                continue
            versions.append(found.version)
            for mode in chosen.mode:
                began = time.monotonic()
                made = column(broker.bootstrap, release, mode, found.python)
                cells += told(made, found.version, time.monotonic() - began)
    print(table(cells))
    print(json.dumps(figures(cells, versions, missing)))
    return 1 if any(one.kind == DIFFERENT for one in cells) else 0


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
