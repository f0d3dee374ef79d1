"""Random compositions of logstate's operators under drawn faults.

    python -m tests.campaigns.compositions --seeds 0..1000 [--schedules 6]

Each seed draws a topology of the operators that Kafka Streams has not, and inputs. ``simulate``
runs it with crashes, aborts and moves, and compares outputs and stores with the uninterrupted run.
The end is 1 where one differs.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections import Counter

from logstate.contracts.errors import TopologyError
from tests.campaigns.compositions.case import drawn_case


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.campaigns.compositions", description=__doc__
    )
    parser.add_argument("--seeds", default="0..200", help="FROM..TO, the latter not included")
    parser.add_argument("--schedules", type=int, default=6, help="of each topology")
    a = parser.parse_args()
    logging.disable(logging.ERROR)  # late records and lost disks are wanted here
    counts: Counter[str] = Counter()
    for seed in range(*map(int, a.seeds.split(".."))):
        case = drawn_case(seed)
        if isinstance(case.topology, TopologyError):
            counts["refused"] += 1
            continue
        found = case.simulate(a.schedules, seed)
        counts.update(topologies=1, schedules=found.schedules, wrong=not found.ok)
        counts.update({name: found.counters.get(name, 0) for name in ("crashes", "aborts")})
        if not found.ok:
            print(f"seed {seed}, {', '.join(case.operators)}\n{found}", flush=True)
    print(", ".join(f"{counts[name]} {name}" for name in ("topologies", "refused", "schedules")))
    print(f"{counts['crashes']} crashes, {counts['wrong']} wrong")
    return 1 if counts["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
