"""The simulation's command line.

    python -m tests.campaigns.simulation --seeds 0..1000 [--jobs 2]   run a range of schedules
                                         [--story NAME]     of another kind
    python -m tests.campaigns.simulation --seed 41 [--without 0,3]    show one, call by call
    python -m tests.campaigns.simulation --systematic [--pairs N]  crash at every step, in pairs
                                         [--only GUARANTEE]
    python -m tests.campaigns.simulation --mutants [--only A,B,…]  find the planted bugs
                                         [--jobs 2] [--remember]

Exits with 1 where a promise was broken, where a planted bug was not found, and where a range of
five hundred schedules or more tells too little: a fault fired in less than 1 % of them, an oracle
had nothing to compare in more than half of those it applies to.
"""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from tests.campaigns.simulation.campaign import Outcome, Totals, run_chunk, run_seeds
from tests.campaigns.simulation.coverage import Coverage
from tests.campaigns.simulation.planted.table import print_table
from tests.campaigns.simulation.schedule import Schedule
from tests.campaigns.simulation.shrink import replay, replay_command, shrink
from tests.campaigns.simulation.stories import DRAWN, STORIES
from tests.campaigns.simulation.systematic import print_systematic

_CHUNK = 100
#: failures that are shown and made small
_SHOWN_MAX = 5


def main(arguments: list[str] | None = None) -> int:
    """Parse and run; returns the exit code."""
    logging.disable(logging.CRITICAL)
    options = _parser().parse_args(arguments)
    if options.seed is not None:
        lines = replay(options.seed, _numbers(options.without))
        print("\n".join(lines))
        return 0 if lines[-1] == "every promise held" else 1
    if options.systematic:
        return print_systematic(options.pairs, options.only)
    if options.mutants:
        return print_table(options.only, jobs=options.jobs, remembers=options.remember)
    if options.seeds is None:
        _parser().print_help()
        return 2
    first, _, last = options.seeds.partition("..")
    return _run_range(int(first), int(last), options.jobs, options.story)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.campaigns.simulation", description=__doc__
    )
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--seeds", metavar="A..B", help="seeds A to B-1")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--story", choices=STORIES, default=DRAWN, help="another kind of schedules")
    parser.add_argument("--seed", type=int, help="one seed, shown call by call")
    parser.add_argument("--without", default="", help="numbers of faults to leave out")
    parser.add_argument("--systematic", action="store_true")
    parser.add_argument("--pairs", type=int, help="at most so many pairs, spread evenly")
    parser.add_argument("--mutants", action="store_true")
    parser.add_argument("--only", help="planted bugs (A,B,…), or one guarantee")
    parser.add_argument("--remember", action="store_true", help="note which seeds found them")
    return parser


def _numbers(text: str) -> set[int]:
    return {int(word) for word in text.split(",") if word}


def _run_range(first: int, last: int, jobs: int, story: str) -> int:
    totals = Totals(coverage=Coverage(STORIES[story].faults))
    started = time.monotonic()
    for outcome in _outcomes(range(first, last), jobs, STORIES[story].make):
        totals.add(outcome)
        if outcome.failure is not None and len(totals.failures) <= _SHOWN_MAX:
            print(f"seed {outcome.seed}: {outcome.failure}", flush=True)
    elapsed_s = time.monotonic() - started
    for name, count in sorted(totals.counters.items()):
        print(f"  {name:48} {count:10,}")
    for failure in totals.failures[:_SHOWN_MAX] if story == DRAWN else ():
        dropped, _ = shrink(failure.seed)
        print(f"replay: {replay_command(failure.seed, dropped)}")
    per_minute = totals.schedules / elapsed_s * 60
    for line in totals.coverage.lines():
        print(line)
    holes = totals.coverage.holes()
    for hole in holes:
        print(f"HOLE: {hole}")
    print(f"trace {totals.trace}, {per_minute:,.0f} schedules a minute with {jobs} process(es)")
    print(totals.summary())
    return 1 if totals.failures or holes else 0


def _outcomes(seeds: range, jobs: int, make: Callable[[int], Schedule]) -> Iterable[Outcome]:
    if jobs == 1:
        yield from run_seeds(seeds, make)
        return
    chunks = [seeds[i : i + _CHUNK] for i in range(0, len(seeds), _CHUNK)]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context) as pool:
        for outcomes in pool.map(partial(run_chunk, make=make), chunks):
            yield from outcomes


if __name__ == "__main__":
    sys.exit(main())
