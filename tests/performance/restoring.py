"""How long a lost store takes to come back: one probe per partition, answered from the store.

The store is filled, its directory deleted, and the program started again with four probes waiting
in its input. The clock stops when all are answered. logstate is killed at that moment (SIGKILL) and
its directory opened: every row must be in RocksDB, with the position that stands for it.
"""

from __future__ import annotations

import time

from tests.performance.bench import Bench
from tests.performance.figures import Figures
from tests.performance.inputs import load_state
from tests.performance.local_state import local_state
from tests.performance.measured_process import MeasuredProcess
from tests.performance.topics import Loader
from tests.performance.workload import OURS

_POLL_S = 0.02


def measure_restore(bench: Bench) -> Figures:
    """Fill, lose, restore."""
    settings, run, topics = bench.settings, bench.run, bench.topics
    probes = load_state(settings, topics, run.inputs)
    topics.create(run.outputs)
    _fill(bench)
    bench.lose_state()
    _ask(bench, probes)
    before = topics.end(run.outputs)
    process = bench.start()
    try:
        done_s = _wait_for_answers(bench, process, before + len(probes))
        # What is read here belongs to a process that may be gone a line later.
        cpu_s, rss_mb = process.cpu_s(), process.rss_max_mb()
        around = bench.application_context(cpu_s)
        is_complete = True
        if run.peer in OURS:
            process.kill()
            is_complete = _is_complete(bench)
    finally:
        process.stop()
    answers = {message.key(): message.value() for message in topics.read_all(run.outputs)}
    is_right = all(answers.get(key) == value for key, value in probes.values())
    start_s = process.first("RESTORE_START") or process.first("READY") or process.started_s
    end_s = process.last("RESTORE_END") or process.first("FIRST") or done_s
    figures = Figures(
        run.peer,
        run.emit,
        settings.records,
        seconds=max(end_s - start_s, _POLL_S),
        seconds_with_start=done_s - process.started_s,
        cpu_s=cpu_s,
        cpu_s_after_start=cpu_s,
        rss_max_mb=rss_mb,
        outputs=len(answers),
        is_verified=is_right and is_complete,
        **around,
    )
    bench.clean(is_verified=figures.is_verified)
    return figures


def _fill(bench: Bench) -> None:
    """The first life: every record goes into the store and its changelog."""
    process = bench.start()
    try:
        while bench.topics.committed(bench.run.name, bench.run.inputs) < bench.settings.records:
            if bench.is_late(process):
                raise bench.give_up("the store was not filled in time")
            time.sleep(_POLL_S)
    finally:
        process.stop()


def _ask(bench: Bench, probes: dict[int, tuple[bytes, bytes]]) -> None:
    loader = Loader(bench.settings.bootstrap)
    now_ms = int(time.time() * 1000)
    for partition, (key, _) in probes.items():
        loader.send(bench.run.inputs, key, b"probe", now_ms, partition=partition)
    loader.flush()


def _wait_for_answers(bench: Bench, process: MeasuredProcess, answers: int) -> float:
    while bench.topics.end(bench.run.outputs) < answers:
        if bench.is_late(process):
            raise bench.give_up(f"not restored in {bench.settings.limit_s:g} s")
        time.sleep(_POLL_S)
    return time.time()


def _is_complete(bench: Bench) -> bool:
    """Whether all rows lie in RocksDB beside the position that is the changelog's end."""
    found = local_state(bench.state)
    ends = sum(bench.topics.end(topic) for topic in bench.topics.changelogs(bench.run.name))
    return found.rows == bench.settings.records and found.positions == ends
