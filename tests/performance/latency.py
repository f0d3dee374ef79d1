"""How old a result is: LogAppendTime of the output minus the time its input was written.

Both on the same machine's clock, in steps of a millisecond. The first ten seconds are left out.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterable
from typing import Any

import msgspec

from tests.performance.bench import Bench
from tests.performance.command import feeder_command
from tests.performance.events import event_value, key_name
from tests.performance.figures import Figures
from tests.performance.measured_process import ROOT, MeasuredProcess
from tests.performance.ratios import percentile
from tests.performance.topics import Loader

#: records that wake every partition up; their time of 0 keeps them out of the result
_WAKING = 400
_WARM_UP_S = 10.0
_DRAIN_S = 30.0
_POLL_S = 0.1

_decode = msgspec.json.Decoder().decode


def measure_latency(bench: Bench) -> Figures:
    """Feed the program at a steady rate and look at when its outputs appear."""
    settings, run, topics = bench.settings, bench.run, bench.topics
    topics.create(run.inputs)
    topics.create(run.outputs, **{"message.timestamp.type": "LogAppendTime"})
    records = settings.fed_records
    process = bench.start()
    try:
        _wake(bench, process)
        before_s, start_s = process.cpu_s(), time.time()
        around_before = bench.application_context(before_s)
        subprocess.run(feeder_command(settings, run.inputs), check=True, cwd=ROOT)
        fed_s = time.time()
        while time.time() - fed_s < _DRAIN_S and topics.end(run.outputs) < _WAKING + records:
            time.sleep(_POLL_S)
        done_s = time.time()
        cpu_s, rss_mb = process.cpu_s(), process.rss_max_mb()
        around = bench.application_context(cpu_s)
    finally:
        process.stop()
    outputs, ages_ms = _ages_ms(topics.read_all(run.outputs), start_s + _WARM_UP_S)
    figures = Figures(
        run.peer,
        run.emit,
        records,
        seconds=done_s - start_s,
        seconds_with_start=done_s - process.started_s,
        cpu_s=cpu_s,
        cpu_s_after_start=cpu_s - before_s,
        rss_max_mb=rss_mb,
        outputs=outputs,
        is_verified=outputs == records,
        p50_ms=percentile(ages_ms, 0.5),
        p99_ms=percentile(ages_ms, 0.99),
        p999_ms=percentile(ages_ms, 0.999),
        **_during(around_before, around),
    )
    bench.clean(is_verified=figures.is_verified)
    return figures


def _wake(bench: Bench, process: MeasuredProcess) -> None:
    loader = Loader(bench.settings.bootstrap)
    now_ms = int(time.time() * 1000)
    for number in range(_WAKING):
        key = key_name(number)
        loader.send(bench.run.inputs, key.encode(), event_value(key, 1.0, 0, "/"), now_ms)
    loader.flush()
    while bench.topics.end(bench.run.outputs) < _WAKING:
        if bench.is_late(process):
            raise bench.give_up("the program did not come up")
        time.sleep(_POLL_S)


def _ages_ms(messages: Iterable[Any], from_s: float) -> tuple[int, list[float]]:
    """The number of measured outputs, and the sorted ages of those from ``from_s`` on."""
    count, ages = 0, []
    for message in messages:
        written_ms = _decode(message.value())["ts"]
        if written_ms:
            count += 1
            if written_ms / 1000 >= from_s:
                ages.append(message.timestamp()[1] - written_ms)
    return count, sorted(ages)


def _during(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """What the application context used between two looks."""
    return {
        name: None if value is None else max(0.0, value - before[name])
        for name, value in after.items()
    }
