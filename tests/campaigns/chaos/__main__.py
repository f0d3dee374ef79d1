"""Kill workers under load and compare every result.

Run ``python -m tests.campaigns.chaos --kills N --seed S``. The last line is
``N kills, L lost, D duplicated``.

Exits with 1 where something was lost or doubled, or a worker did not behave.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
from pathlib import Path

from tests.campaigns.chaos.campaign import Campaign
from tests.campaigns.chaos.schedule import WEIGHTS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.campaigns.chaos", description=__doc__)
    parser.add_argument("--kills", type=int, default=20, help="number of faults")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--standby", type=int, default=0, help="standby replicas of each task")
    parser.add_argument("--per-second", type=int, default=300, help="orders per second")
    parser.add_argument("--brokers", type=int, choices=(1, 3), default=1)
    parser.add_argument("--protocol", choices=("consumer", "classic"), default="consumer")
    parser.add_argument("--only", nargs="+", choices=WEIGHTS, help="kinds of faults")
    parser.add_argument("--keep", type=Path, help="keep the workers' logs in this new directory")
    arguments = parser.parse_args()
    logging.getLogger("logstate.kafka").setLevel(logging.CRITICAL)
    with tempfile.TemporaryDirectory(prefix="chaos-") as temporary:
        campaign = Campaign(
            arguments.kills,
            arguments.seed,
            workers=arguments.workers,
            standbys=arguments.standby,
            per_second=arguments.per_second,
            protocol=arguments.protocol,
            brokers=arguments.brokers,
            only=arguments.only,
            path=arguments.keep or Path(temporary),
            report=lambda line: print(line, flush=True),
        )
        try:
            outcome = campaign.run()
        finally:
            campaign.close()
    for line in outcome.lines:
        print(line)
    print(outcome.summary)
    return 0 if outcome.is_good else 1


if __name__ == "__main__":
    sys.exit(main())
