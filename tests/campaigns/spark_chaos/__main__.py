"""Read stores of every kind at cuts while workers are killed.

Run ``python -m tests.campaigns.spark_chaos --kills 40 --reads 200``.

Workers are killed and started again while events come in; a session reads their stores meanwhile,
some at the newest cut and some at one of before. Each read is compared with what the inputs say
that its cut names. Compaction is off, so that no refusal has a reason. The last line is JSON;
exits with 1 where a read was wrong or refused, or two answers that should agree do not.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import tempfile
import time
from pathlib import Path

from tests.campaigns.chaos.disk import unmount_below
from tests.campaigns.spark_chaos.campaign import Campaign


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.campaigns.spark_chaos", description=__doc__
    )
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--reads", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--per-second", type=int, default=120, help="events per second")
    parser.add_argument("--keep", type=Path, help="keep the workers' logs in this new directory")
    arguments = parser.parse_args()
    logging.getLogger("logstate.kafka").setLevel(logging.CRITICAL)
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="spark-chaos-") as temporary:
        path = arguments.keep or Path(temporary)
        campaign = Campaign(
            arguments.kills,
            arguments.reads,
            arguments.seed,
            per_second=arguments.per_second,
            path=path,
            report=lambda line: print(line, flush=True),
        )
        try:
            tally = campaign.run()
        finally:
            campaign.close()
            unmount_below(path)
    figures = {
        "kills": tally.kills,
        "reads": tally.reads,
        "wrong": tally.wrong,
        "refused": tally.refused,
        "counts_agree": tally.counts_agree,
        "counts": tally.counts,
        "joins": tally.joins,
        "mismatches": tally.mismatches,
        "read_again": tally.read_again,
        "refused_after_trimming": tally.trimmed,
        "store_reads": tally.stores.total(),
        "stores": len(tally.stores),
        "rows": tally.rows,
        "seconds": round(time.monotonic() - started),
    }
    for complaint in tally.client_errors:
        print(complaint)
    print(json.dumps(figures))
    return 0 if tally.is_good else 1


if __name__ == "__main__":
    sys.exit(main())
