"""How many records per second: from the first record read to the last commit seen from outside.

An observer polls the group's committed offsets, near the end every 50 ms. A run ends when
everything is committed and the outputs are there, so the last commit, the flushes and the changelog
are inside the time.
"""

from __future__ import annotations

import time

from tests.performance.bench import Bench
from tests.performance.events import Expected
from tests.performance.figures import Figures
from tests.performance.inputs import expected_windows
from tests.performance.measured_process import MeasuredProcess
from tests.performance.outputs import check_outputs
from tests.performance.ratios import Sample, look_again_in_s, warm_records_per_s
from tests.performance.workload import WITHOUT_OFFSETS


def measure_throughput(bench: Bench, expected: Expected) -> Figures:
    """Run the program over all events once."""
    settings, run = bench.settings, bench.run
    bench.topics.create(run.outputs)
    process = bench.start()
    try:
        samples, first_output_s = _observe(bench, process, expected)
        cpu_s, rss_mb = process.cpu_s(), process.rss_max_mb()
        thread_cpu_s = process.busiest_thread_cpu_s()
        around = bench.application_context(cpu_s)
    finally:
        process.stop()
    done_s = samples[-1][0]
    windows = expected_windows(settings) if settings.workload.program == "window" else None
    outputs, is_verified = check_outputs(
        settings.workload, bench.topics.read_all(run.outputs), expected, windows
    )
    changelogs = bench.topics.changelogs(run.name)
    figures = Figures(
        run.peer,
        run.emit,
        settings.records,
        seconds=done_s - (process.first("FIRST") or first_output_s),
        seconds_with_start=done_s - process.started_s,
        cpu_s=cpu_s,
        cpu_s_after_start=cpu_s - process.cpu_at_first_s,
        thread_cpu_s=thread_cpu_s,
        rss_max_mb=rss_mb,
        outputs=outputs,
        is_verified=is_verified,
        warm_records_per_s=warm_records_per_s(samples, settings.records, done_s),
        changelog_records=sum(bench.topics.end(topic) for topic in changelogs) or None,
        **around,
    )
    bench.clean(is_verified=is_verified)
    return figures


def _observe(
    bench: Bench, process: MeasuredProcess, expected: Expected
) -> tuple[list[Sample], float]:
    """Watch until all is done: (when, how much was committed), and when the first output came.

    The last sample is the end of the run.
    """
    settings, run, topics = bench.settings, bench.run, bench.topics
    by_outputs = run.peer in WITHOUT_OFFSETS
    wanted = {"passthrough": expected.passed, "join": expected.records}
    least = wanted.get(settings.workload.program, settings.records if by_outputs else 1)
    is_committed = settings.workload.is_exactly_once
    samples: list[Sample] = []
    first_output_s = process.started_s
    while not bench.is_late(process):
        outputs = topics.end(run.outputs, is_committed=is_committed)
        if outputs and first_output_s == process.started_s:
            first_output_s = time.time()
        done = outputs if by_outputs else topics.committed(run.name, run.inputs)
        now = time.time()
        is_done = (by_outputs or done >= settings.records) and outputs >= least
        if is_done or not samples or done != samples[-1][1]:
            samples.append((now, done))
        if is_done:
            return samples, first_output_s
        time.sleep(look_again_in_s(samples, settings.records, now))
    seen = samples[-1][1] if samples else 0
    raise bench.give_up(f"{seen:,} of {settings.records:,} records in {settings.limit_s:g} s")
