"""Run random topologies with logstate and Kafka Streams, and compare.

Run ``python -m tests.campaigns.differential [--seeds 0..1000]``.

Every topic that comes of a case (outputs, changelogs, repartition topics), what was dropped and the
topology's description have to be equal. With ``--vary`` the case is run here alone: with other
commit intervals, and with crashes that keep or lose the disk. One line per case that is not equal;
``--show SEED`` prints a whole case. The last line counts.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections import Counter
from contextlib import ExitStack
from functools import partial

from .cases import drawn_case
from .jvm import KafkaStreams
from .verdict import judged, varied


def main() -> int:
    """Run the seeds; 1 where a case is not equal."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.campaigns.differential", description=__doc__
    )
    parser.add_argument("--seeds", default="0..200", help="FROM..TO, the latter not included")
    parser.add_argument("--show", type=int, help="print the case of this seed, and run it alone")
    parser.add_argument("--vary", action="store_true", help="without Kafka Streams, with crashes")
    parser.add_argument("--on-commit", action="store_true", help="with a record cache and commits")
    chosen = parser.parse_args()
    first, last = map(int, chosen.seeds.split(".."))
    if chosen.show is not None:
        first, last = chosen.show, chosen.show + 1
        case = drawn_case(chosen.show, emits_on_commit=chosen.on_commit)
        print(*map(json.dumps, case["topology"]), sep="\n")
        print(*map(json.dumps, enumerate(case["events"])), sep="\n")
    logging.disable(logging.WARNING)  # of late records and deleted rows, which are wanted here
    kinds: Counter[str] = Counter()
    rows = 0
    with ExitStack() as closing:
        judge = varied if chosen.vary else partial(judged, closing.enter_context(KafkaStreams()))
        for seed in range(first, last):
            verdict = judge(drawn_case(seed, emits_on_commit=chosen.on_commit))
            kinds[verdict.kind] += 1
            rows += verdict.rows
            if verdict.kind in ("different", "refused") or chosen.show is not None:
                print(f"{verdict.kind:10} {seed}: {verdict.said}", flush=True)
    print(
        f"{kinds.total()} cases, {kinds['different']} different, {kinds['refused']} refused here,"
        f" {kinds['ours']} there, {kinds['void']} void; {rows} records"
    )
    return 1 if kinds["different"] or kinds["refused"] else 0


if __name__ == "__main__":
    sys.exit(main())
