"""``python -m tests.mutation_campaign --records N --seed S``.

The last line is ``N records, G good, B bad, W wrong``; exits with 1 where W > 0.
"""

from __future__ import annotations

import argparse
import sys

from tests.mutation_campaign.run import Tally, run_portion

_PORTION = 30_000
_SHOWN = 20


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation_campaign", description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0, help="of the first portion")
    arguments = parser.parse_args()
    tally = Tally()
    seed = arguments.seed
    while tally.records < arguments.records:
        left = arguments.records - tally.records
        run_portion(seed, max(3, min(_PORTION, left + -left % 3)), tally)
        seed += 1
        if len(tally.differences) > _SHOWN:
            break
    for difference in tally.differences[:_SHOWN]:
        print(difference)
    print(f"seeds {arguments.seed}..{seed - 1}")
    print(tally.summary)
    return 1 if tally.differences else 0


if __name__ == "__main__":
    sys.exit(main())
