"""Whether memory grows while the work stays the same: ``python -m tests.performance.endurance``.

    python -m tests.performance.endurance --minutes 60 --bootstrap 127.0.0.1:9092 --work DIR

Windows of ten seconds over keys drawn as in W4, fed at a steady rate, so that rows come and expire
all the time. Once a minute it prints what is resident and what lies on disk. It exits with 1 when a
record's output is missing, or when memory in the last quarter lies above the second one's by more
than ``--growth-max``.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from tests.performance.bench import Bench
from tests.performance.command import feeder_command
from tests.performance.measured_process import ROOT, MeasuredProcess
from tests.performance.parser import parser_of
from tests.performance.settings import Run, Settings
from tests.performance.topics import Topics
from tests.performance.workload import WORKLOADS

_BETWEEN_LOOKS_S = 5.0
_LOOKS_PER_LINE = 12
_DRAIN_S = 60.0


class Look(NamedTuple):
    """What one look found."""

    at_s: float
    rss_mb: float
    disk_mb: float
    cpu_s: float
    outputs: int


def growth(rss_mb: Sequence[float]) -> float:
    """How far the median of the last quarter lies above that of the second, as a share of it.

    The first quarter is left out: caches fill there.

    >>> growth([1.0, 5.0, 10.0, 10.0, 10.0, 10.0, 11.0, 11.0])
    0.1
    """
    quarter = len(rss_mb) // 4
    early, late = median(rss_mb[quarter : 2 * quarter]), median(rss_mb[-quarter:])
    return (late - early) / early


def endure(bench: Bench) -> list[Look]:
    """Feed the program and look at it now and then; the last look is after the last output."""
    settings, run, topics = bench.settings, bench.run, bench.topics
    topics.create(run.inputs)
    topics.create(run.outputs)
    process = bench.start()
    feeder = subprocess.Popen(feeder_command(settings, run.inputs), cwd=ROOT)
    looks: list[Look] = []
    try:
        while feeder.poll() is None:
            time.sleep(_BETWEEN_LOOKS_S)
            process.check_alive()
            looks.append(_check(bench, process))
            if len(looks) % _LOOKS_PER_LINE == 0:
                print(line(looks[-1]), flush=True)
        fed_s = time.time()
        while looks[-1].outputs < settings.fed_records and time.time() - fed_s < _DRAIN_S:
            time.sleep(_BETWEEN_LOOKS_S)
            looks.append(_check(bench, process))
    finally:
        feeder.kill()
        process.stop()
    return looks


def line(look: Look) -> str:
    """One line of the table."""
    return (
        f"| {look.at_s / 60:.0f} | {look.outputs:,} | {look.rss_mb:.0f} | {look.disk_mb:.0f}"
        f" | {look.cpu_s:.0f} |"
    )


def _check(bench: Bench, process: MeasuredProcess) -> Look:
    return Look(
        time.time() - process.started_s,
        process.rss_mb(),
        _size_mb(bench.state),
        process.cpu_s(),
        bench.topics.end(bench.run.outputs),
    )


def _size_mb(directory: Path) -> float:
    """Files may go while they are counted."""
    sizes = 0
    for path in directory.rglob("*"):
        try:
            sizes += path.stat().st_size
        except FileNotFoundError:
            continue
    return sizes / (1 << 20)


def main() -> int:
    """The command line."""
    a = _arguments()
    a.work.mkdir(parents=True, exist_ok=True)
    settings = Settings(
        WORKLOADS["W4"],
        a.bootstrap,
        a.work.resolve(),
        keys=a.keys,
        records_per_s=a.rate,
        latency_s=round(a.minutes * 60),
    )
    name = f"endurance-{int(time.time())}"
    run = Run(name, "logstate", "update", inputs=f"{name}-in")
    bench = Bench(settings, Topics(a.bootstrap), run)
    print("| minute | outputs | RSS MB | disk MB | CPU s |\n|---|---|---|---|---|", flush=True)
    looks = endure(bench)
    print(line(looks[-1]))
    is_whole = looks[-1].outputs == settings.fed_records
    grown = growth([look.rss_mb for look in looks])
    bench.clean(is_verified=is_whole)
    print(f"{settings.fed_records:,} records, {looks[-1].outputs:,} outputs, memory {grown:+.1%}")
    return 0 if is_whole and grown <= a.growth_max else 1


def _arguments() -> argparse.Namespace:
    parser = parser_of("python -m tests.performance.endurance", __doc__)
    add = parser.add_argument
    add("--minutes", type=float, default=60.0)
    add("--rate", type=int, default=3_000, help="records per second")
    add("--keys", type=int, default=100_000, help="different keys at most")
    add("--growth-max", type=float, default=0.05, help="as a share")
    add("--bootstrap", required=True, help="a broker that runs")
    add("--work", type=Path, required=True, help="where state and logs go")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
