"""What throughput and memory do as work grows: ``python -m tests.performance.curves``.

One curve per axis, everything else fixed; each point is a run of logstate alone on a given broker,
its outputs checked. Prints a table per curve, for docs/benchmarks.md. Short:

    python -m tests.performance.curves --bootstrap 127.0.0.1:9092 --work DIR --records 100000 \\
      --keys 10000 100000 --cache-mib 16 --partitions 1 16 --record-bytes 1000 --windows 10

An axis without values is left out; without any, all have those of the full run. Exits with 1 when
an output was wrong.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from tests.performance.events import WINDOW_MS
from tests.performance.figures import Figures
from tests.performance.machine import load_average
from tests.performance.pairs import measure
from tests.performance.parser import parser_of
from tests.performance.settings import Settings
from tests.performance.topics import Topics
from tests.performance.workload import WORKLOADS

_FULL: dict[str, list[int]] = {
    "keys": [10_000, 100_000, 1_000_000, 10_000_000],
    "windows": [10, 100, 1_000],
    "partitions": [1, 4, 16, 64, 128],
    "cache_mib": [8, 64, 512],
    "record_bytes": [120, 1_000, 10_000],
}


class Point(NamedTuple):
    """One run of a curve."""

    axis: str
    value: int
    settings: Settings


def points(base: Settings, axes: dict[str, list[int]]) -> Iterator[Point]:
    """The runs of every curve.

    Windows follow event time, which moves a millisecond per record: so many windows take so many
    records. The size of the state against the cache is varied by the cache.
    """
    for axis, values in axes.items():
        for value in values:
            if axis == "windows":
                records = value * WINDOW_MS
                yield Point(axis, value, replace(base, workload=WORKLOADS["W4"], records=records))
            else:
                changed: dict[str, int] = {axis: value}
                yield Point(axis, value, replace(base, **changed))  # type: ignore[arg-type]


def header(axis: str) -> str:
    """The first lines of a table."""
    columns = (axis, "records/s", "warm", "CPU s/M", "RSS MB", "others s", "load")
    return f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}"


def row(value: int, figures: Figures, load: float) -> str:
    """One line of a table; what others used says how far to trust it."""
    warm = figures.warm_records_per_s
    cells = (
        f"{value:,}",
        f"{figures.records_per_s:,.0f}",
        "–" if warm is None else f"{warm:,.0f}",
        f"{figures.cpu_s_per_million:.2f}",
        f"{figures.rss_max_mb:.0f}",
        f"{figures.other_cpu_s:.0f}",
        f"{load:.1f}" + ("" if figures.is_verified else " NOT VERIFIED"),
    )
    return f"| {' | '.join(cells)} |"


def main() -> int:
    """The command line."""
    arguments = _arguments()
    (arguments.work / "state").mkdir(parents=True, exist_ok=True)
    given = {axis: values for axis in _FULL if (values := getattr(arguments, axis))}
    base = Settings(
        WORKLOADS["W2"],
        arguments.bootstrap,
        arguments.work.resolve(),
        records=arguments.records,
        limit_s=arguments.limit,
    )
    is_right, axis = True, ""
    for point in points(base, given or _FULL):
        if point.axis != axis:
            axis = point.axis
            print(f"\n{header(axis)}", flush=True)
        topics = Topics(point.settings.bootstrap, point.settings.partitions)
        figures = measure(point.settings, topics, "logstate", arguments.emit)
        is_right = is_right and figures.is_verified
        print(row(point.value, figures, load_average()), flush=True)
    return 0 if is_right else 1


def _arguments() -> argparse.Namespace:
    parser = parser_of("python -m tests.performance.curves", __doc__)
    add = parser.add_argument
    for axis, values in _FULL.items():
        add(f"--{axis.replace('_', '-')}", type=int, nargs="*", help=f"full run: {values}")
    add("--records", type=int, default=3_000_000)
    add("--emit", choices=("update", "commit"), default="commit")
    add("--bootstrap", required=True, help="a broker that runs")
    add("--work", type=Path, required=True, help="where state, logs and expectations go")
    add("--limit", type=float, default=600.0, help="seconds before a run is given up")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
