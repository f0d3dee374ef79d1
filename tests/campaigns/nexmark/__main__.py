"""The queries of Nexmark on a broker, whose instances are killed, compared with SQL.

    python -m tests.campaigns.nexmark [--queries q4 q8] [--events 800] [--kills 3]

Each query runs alone. The last line is JSON; the end is 1 where a query has other rows.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from examples.nexmark import reference
from examples.nexmark.events import events
from logstate.local_broker.broker import LocalBroker
from tests.campaigns.nexmark.run import run_query


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaigns.nexmark", description=__doc__)
    parser.add_argument("--queries", nargs="+", default=list(reference.QUERIES))
    parser.add_argument("--events", type=int, default=800)
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--seed", type=int, default=7)
    a = parser.parse_args()
    begin = time.monotonic()
    inputs, wrong = list(events(a.events, a.seed)), {}
    with (
        tempfile.TemporaryDirectory(prefix="nexmark-") as path,
        LocalBroker.start(data=Path(path) / "broker") as broker,
    ):
        for query in a.queries:
            folder = Path(path) / query
            folder.mkdir()
            try:
                rows = run_query(query, inputs, broker.bootstrap, query, folder, a.kills, a.seed)
            except AssertionError as error:
                wrong[query] = str(error)
            print(query, wrong.get(query) or f"{rows.total()} rows", flush=True)
    figures = {
        "queries": len(a.queries),
        "kills": a.kills * len(a.queries),
        "wrong": wrong,
        "seconds": round(time.monotonic() - begin),
    }
    print(json.dumps(figures))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
