"""Runs in turns: ours, theirs, theirs, ours. What the machine does slowly hits both alike."""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Callable

from tests.performance.bench import Bench
from tests.performance.figures import Figures, Pair
from tests.performance.inputs import ensure_events, ensure_users, events_topic
from tests.performance.latency import measure_latency
from tests.performance.restoring import measure_restore
from tests.performance.settings import Run, Settings
from tests.performance.throughput import measure_throughput
from tests.performance.topics import Topics
from tests.performance.workload import Emit

#: a pair during which the host took too much CPU is run again so often, then kept as it is
REPEATS_MAX = 3

_numbers = itertools.count(1)


def measure(settings: Settings, topics: Topics, peer: str, emit: Emit) -> Figures:
    """One run of one program."""
    stamp = f"{int(time.time())}-{next(_numbers)}"
    name = f"{peer}-{settings.workload.name}-{stamp}"
    run = Run(name, peer, emit, inputs=f"{name}-in")
    if settings.workload.kind == "restore":
        return measure_restore(Bench(settings, topics, run))
    if settings.workload.kind == "latency":
        return measure_latency(Bench(settings, topics, run))
    expected = ensure_events(settings, topics)
    run = dataclasses.replace(run, inputs=events_topic(settings))
    if settings.workload.program == "join":
        run = dataclasses.replace(run, table=ensure_users(settings, topics, expected.base_ms))
    return measure_throughput(Bench(settings, topics, run), expected)


def measure_pair(
    number: int,
    measure_one: Callable[[str], Figures],
    peer: str,
    *,
    stolen_cpu_max_s: float | None = None,
    note: Callable[[str], None] = print,
) -> Pair:
    """Two runs, logstate first in every other pair; again while too much CPU was taken away.

    Of a pair that stays disturbed the last try is kept.
    """
    attempt = 1
    while True:
        first, second = ("logstate", peer) if number % 2 == 0 else (peer, "logstate")
        figures = measure_one(first), measure_one(second)
        pair = Pair(*(figures if number % 2 == 0 else reversed(figures)))
        if stolen_cpu_max_s is None or pair.stolen_cpu_s <= stolen_cpu_max_s:
            return pair
        is_last = attempt == REPEATS_MAX
        what = "kept as it is" if is_last else "run again"
        note(f"pair {number + 1}: the host took {pair.stolen_cpu_s:.1f} CPU s, {what}")
        if is_last:
            return pair
        attempt += 1
