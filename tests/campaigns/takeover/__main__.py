"""Run an application in turns with Kafka Streams and logstate; print one line per case.

Run ``python -m tests.campaigns.takeover [--case NAME] [--direction JLJ] [--jobs 2]``.

A direction names the generations: J Kafka Streams on the JVM, L logstate, with ! where it is killed
in the middle of its part; S and C are the same in a group of the ``streams`` protocol, and of the
classic one that may follow it. Every case runs the same records through generations of both
libraries, and through Kafka Streams alone; what comes out must be equal, record by record. Kafka
Streams has several ways to get through the parts (it goes on, is restarted, is restarted without
its disk, is killed), and some of its operators lose results on the way: one of them has to be met
exactly. Who is killed has committed some records of the chunk before it, by chance more or fewer;
Kafka Streams alone is killed when it has committed as many. Where it stops to hand on what waits in
a buffer until it is restarted (``FORGETS_WHAT_WAITS``), logstate hands that on after it; then the
results have to be those of Kafka Streams that went on, and their order is told. The last line
counts.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from pathlib import Path

from logstate.local_broker.broker import LocalBroker
from tests.campaigns.takeover.generations import Outcome, controls, run
from tests.campaigns.takeover.process import GenerationFailedError
from tests.campaigns.takeover.topologies import TOPOLOGIES
from tests.campaigns.takeover.world import Output

DIRECTIONS = ("JL", "LJ", "JLJ", "LJL", "J!L", "L!J")
#: a group of the ``streams`` protocol is the same whatever runs in it
OF_STREAMS_GROUPS = {"closed-windows": ("S!C", "SCLCS")}

#: restarted, Kafka Streams does not know any more that rows of their buffers are due
FORGETS_WHAT_WAITS = {"versioned-join"}


def difference(expected: list[Output], found: list[Output]) -> str | None:
    """The first difference in words; None where there is none."""
    for number, (one, other) in enumerate(zip(expected, found, strict=False)):
        if one != other:
            return f"output {number}: Kafka Streams alone {one}, found {other}"
    if len(expected) != len(found):
        return f"Kafka Streams alone has {len(expected)} outputs, found {len(found)}"
    return None


def main() -> int:
    """Run the cases; 1 where one differs or is refused."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaigns.takeover")
    parser.add_argument("--case", choices=TOPOLOGIES, action="append")
    parser.add_argument("--direction", action="append", help=f"of {', '.join(DIRECTIONS)}")
    parser.add_argument("--jobs", type=int, default=2, help="topologies at the same time")
    chosen = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        LocalBroker.start() as broker,
        ThreadPoolExecutor(chosen.jobs) as pool,
    ):
        running = [
            pool.submit(
                _run,
                broker.bootstrap,
                Path(folder),
                topology,
                chosen.direction or (*DIRECTIONS, *OF_STREAMS_GROUPS.get(topology, ())),
            )
            for topology in chosen.case or TOPOLOGIES
        ]
        kinds = Counter(kind for topology in running for kind in topology.result())
    print(f"{kinds.total()} cases, {kinds['DIFFERENT']} different, {kinds['refused']} refused")
    return 0 if kinds.total() == kinds["equal"] else 1


def _run(bootstrap: str, folder: Path, topology: str, directions: Sequence[str]) -> list[str]:
    """What became of a topology in every direction: equal, DIFFERENT or refused."""
    outcome = cache(partial(_outcome, bootstrap, folder, topology))
    kinds = []
    for who in directions:
        try:
            kind, said = _compared(outcome, who, is_ordered=topology not in FORGETS_WHAT_WAITS)
        except (GenerationFailedError, AssertionError) as error:  # it failed, or it stands still
            kind, said = "refused", str(error)
        print(f"{kind:10} {topology} {who}: {said}", flush=True)
        kinds.append(kind)
    return kinds


def _compared(
    outcome: Callable[[str, int | None], Outcome], who: str, *, is_ordered: bool
) -> tuple[str, str]:
    found, killed_behind = outcome(who, None)
    where = "" if killed_behind is None else f", killed behind {killed_behind} records"
    told = None
    for alone in controls(who):
        behind = killed_behind if "!" in alone else None
        different = difference(outcome(alone, behind).outputs, found)
        if different is None:
            return "equal", f"{len(found)} outputs, as {alone} alone{where}"
        told = told or different
    went_on = next(alone for alone in controls(who) if "!" not in alone and set(alone[1:]) == {"-"})
    if not is_ordered and sorted(outcome(went_on, None).outputs) == sorted(found):
        return "equal", f"{len(found)} outputs, as {went_on} alone, and what waited came later"
    return "DIFFERENT", f"{told}{where}"


def _outcome(
    bootstrap: str, folder: Path, topology: str, who: str, killed_behind: int | None
) -> Outcome:
    name = f"{topology}-{uuid.uuid4().hex[:8]}"
    return run(bootstrap, name, folder / name, topology, who, killed_behind)


if __name__ == "__main__":
    sys.exit(main())
