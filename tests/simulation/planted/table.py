"""Planting every bug in turn: how many schedules until one breaks a promise."""

from __future__ import annotations

import time

from tests.simulation.campaign import run_seeds
from tests.simulation.planted import (  # noqa: F401  each registers its bugs
    clock_bugs,
    commit_bugs,
    membership_bugs,
    restore_bugs,
    state_bugs,
)
from tests.simulation.planted.bug import BUGS, Bug, planted

#: schedules after which a bug counts as not found
SCHEDULES_MAX = 1_000


def seed_that_finds(found: Bug, schedules_max: int = SCHEDULES_MAX) -> tuple[int, str] | None:
    """The first seed that fails with the bug, and how; None where none does."""
    with planted(found):
        for outcome in run_seeds(range(schedules_max)):
            if outcome.failure is not None:
                return outcome.seed, outcome.failure
    return None


def print_table(only: str | None) -> int:
    """One line per bug; returns the exit code: 1 where a bug was not found."""
    bugs = [b for b in BUGS.values() if only is None or b.name == only]
    missed = 0
    print(f"{'planted bug':50} {'found by seed':>14} {'s':>6}  first broken promise")
    for candidate in bugs:
        started = time.monotonic()
        found = seed_that_finds(candidate)
        elapsed_s = time.monotonic() - started
        missed += found is None
        seed, failure = ("-", "NOT FOUND") if found is None else (str(found[0]), found[1])
        line = failure.splitlines()[0][:90]
        print(f"{candidate.name:50} {seed:>14} {elapsed_s:6.1f}  {line}", flush=True)
    print(f"{len(bugs)} planted bugs, {len(bugs) - missed} found")
    return 1 if missed else 0
