"""Planting every bug in turn: how many schedules until one breaks a promise.

What found a bug last time is tried first (``finders.txt``), then all seeds from 0 on, or those with
the faults that a rare bug needs (drawing a schedule costs nothing). So the table takes seconds, and
a seed that does not find its bug any more, because the engine takes other steps by now, costs a
search and no wrong answer. ``--remember`` writes down what was found.

A schedule compares what crashes leave with what would have been without them. Bugs that are the
same in both are found by tests: in ``finders.txt`` such a bug has the name of a test instead of a
seed, which has to fail.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from logstate.testing.simulation.swarm import Swarm
from tests.campaigns.simulation.campaign import Outcome, run_seeds
from tests.campaigns.simulation.planted import (  # noqa: F401  each registers its bugs
    aggregate_bugs,
    async_bugs,
    buffer_bugs,
    claim_bugs,
    clock_bugs,
    collection_bugs,
    commit_bugs,
    count_window_bugs,
    cut_bugs,
    delta_bugs,
    directory_bugs,
    distinct_bugs,
    expiry_bugs,
    handler_bugs,
    held_output_bugs,
    idle_bugs,
    idle_chain_bugs,
    index_bugs,
    interval_bugs,
    late_bugs,
    membership_bugs,
    move_bugs,
    ordering_bugs,
    overlap_bugs,
    pane_bugs,
    production_bugs,
    replay_bugs,
    restore_bugs,
    standby_bugs,
    start_bugs,
    state_bugs,
    table_bugs,
    time_bugs,
    timer_bugs,
    ttl_bugs,
    version_bugs,
    waiting_bugs,
)
from tests.campaigns.simulation.planted.bug import BUGS, Bug, planted
from tests.campaigns.simulation.reference import names
from tests.campaigns.simulation.swarm import draw

#: schedules after which a bug counts as not found
SCHEDULES_MAX = 400
#: seeds from which those are chosen that suit a rare bug
_POOL = 4_000

_FINDERS = Path(__file__).with_name("finders.txt")
_ROOT = Path(__file__).resolve().parents[4]
#: of plugins that are imported before pytest asks for them
_REWRITE_WARNING = "pytest.PytestAssertRewriteWarning"
#: copies a process that has imported everything and started no thread: a test begins at once
_FORKED = multiprocessing.get_context("forkserver")
_FORKED.set_forkserver_preload(["pytest", "tests.conftest", __name__])


class Found(NamedTuple):
    """How a bug was found; ``seed`` None where it was not by a schedule, nor by a test."""

    bug: str
    #: or the name of a test
    seed: int | str | None
    failure: str
    schedules: int
    elapsed_s: float


def finders() -> dict[str, int | str]:
    """Bug -> the seed that found it last time, or the test that finds it."""
    lines = _FINDERS.read_text(encoding="utf-8").splitlines()
    pairs = [line.split(maxsplit=1) for line in lines]
    return {bug: int(found) if found.isdecimal() else found for bug, found in pairs}


def search(found: Bug, schedules_max: int = SCHEDULES_MAX) -> Found:
    """Plant a bug and run schedules until one fails, or the test that finds it."""
    known = finders().get(found.name)
    if isinstance(known, str):
        return _tested(found, known)
    seeds = [*([] if known is None else [known]), *_in_order(found, schedules_max)]
    names()  # kept for all schedules: what they are compared with is of the code without the bug
    started = time.process_time()
    with planted(found):
        for count, outcome in enumerate(run_seeds(seeds, found.make), 1):
            if outcome.failure is not None:
                elapsed_s = time.process_time() - started
                if _is_stale(outcome):
                    return Found(found.name, None, f"DOES NOT FIT: {outcome.failure}", count, 0.0)
                return Found(found.name, outcome.seed, outcome.failure, count, elapsed_s)
    return Found(found.name, None, "NOT FOUND", len(seeds), time.process_time() - started)


def _tested(found: Bug, test: str) -> Found:
    """Run the test, which was written for the code as it is, with the bug in it."""
    started = time.monotonic()
    with tempfile.NamedTemporaryFile("r", encoding="utf-8") as told:
        process = _FORKED.Process(target=_test, args=(found.name, test, told.name))
        process.start()
        process.join()
        lines = told.read()
    failed = re.search(r"^FAILED .*", lines, re.MULTILINE)
    elapsed_s = time.monotonic() - started
    if process.exitcode != pytest.ExitCode.TESTS_FAILED or failed is None:
        why = (lines.strip() or f"exit code {process.exitcode}").splitlines()[-1]
        return Found(found.name, None, f"NOT FOUND by {test}: {why}", 0, elapsed_s)
    return Found(found.name, test, failed[0], 0, elapsed_s)


def _test(name: str, test: str, told: str) -> None:
    """In a process of its own: plant a bug, run a test, and write what pytest tells to a file."""
    with Path(told).open("wb") as file:
        for descriptor in (sys.stdout.fileno(), sys.stderr.fileno()):
            os.dup2(file.fileno(), descriptor)
    os.chdir(_ROOT)
    os.environ.pop("PYTEST_ADDOPTS", None)  # what it asks for is asked for once, of who runs this
    options = ["-q", "-x", "-p", "no:cacheprovider", "-W", f"ignore::{_REWRITE_WARNING}"]
    with planted(BUGS[name]):
        sys.exit(pytest.main([*options, test]))


def _is_stale(outcome: Outcome) -> bool:
    """The planted code itself does not fit what it replaces any more: that finds nothing."""
    if not str(outcome.failure).startswith(("AttributeError", "NameError", "TypeError")):
        return False
    innermost = [line for line in outcome.details.splitlines() if line.startswith("  File ")][-1]
    return "planted" in innermost or ".wrong() " in str(outcome.failure)


def _in_order(found: Bug, count: int) -> list[int]:
    """The seeds from 0 on, or those of the first thousands that suit a bug best."""
    needs = found.needs
    if needs is None:
        return list(range(count))
    swarms = sorted(_pool(), key=needs, reverse=True)
    return [swarm.seed for swarm in swarms[:count]]


@cache
def _pool() -> list[Swarm]:
    return [draw(seed) for seed in range(_POOL)]


def print_table(only: str | None, *, jobs: int = 1, remembers: bool = False) -> int:
    """One line per bug; returns the exit code: 1 where a bug was not found."""
    bugs = list(BUGS) if only is None else only.split(",")
    print(f"{'planted bug':47} {'seed':>5} {'schedules':>9} {'s':>5}  first broken promise")
    known = finders()
    missed: list[str] = []
    for found in _searched(bugs, jobs):
        seed = found.seed if isinstance(found.seed, int) else "-"
        line = found.failure.splitlines()[0][:80]
        print(
            f"{found.bug:47} {seed:>5} {found.schedules:9} {found.elapsed_s:5.1f}  {line}",
            flush=True,
        )
        if found.seed is None:
            missed.append(f"{found.bug}: {found.failure}")
        else:
            known[found.bug] = found.seed
    print(*missed, sep="\n")
    print(f"{len(bugs)} planted bugs, {len(bugs) - len(missed)} found")
    if remembers:
        lines = [f"{name} {known[name]}\n" for name in BUGS if name in known]
        _FINDERS.write_text("".join(lines), encoding="utf-8")
    return 1 if missed else 0


def _searched(bugs: Iterable[str], jobs: int) -> Iterator[Found]:
    if jobs == 1:
        yield from map(_search, bugs)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context) as pool:
        yield from pool.map(_search, bugs)


def _search(name: str) -> Found:
    logging.disable(logging.CRITICAL)
    return search(BUGS[name])
