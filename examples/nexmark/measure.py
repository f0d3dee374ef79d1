"""Lines and speed of each query, as a table in Markdown.

    ./dev run python -m examples.nexmark.measure

Lines are those of the query's function that contain code. Records per second are input records of
the topics that the query reads, in the test driver on one core, per second of CPU time: encoded,
processed, committed every 1,000 records, in memory.
"""

from __future__ import annotations

import argparse
import inspect
import time

from examples.nexmark import queries, reference, results
from examples.nexmark.events import Event, events


def lines_of(*names: str) -> int:
    """Count the lines of functions and classes that contain code, docstrings left out."""
    source = "".join(inspect.getsource(getattr(queries, name)) for name in names)
    return sum(1 for line in source.splitlines() if line.strip() and '"""' not in line)


#: what several queries share
SHARED = (
    *("persons", "auctions", "bids", "Offer", "offers", "better", "winners", "all_greatest"),
    *("number", "at", "day", "rank", "bidder", "auction", "price", "of_rank", "statistics"),
)


def records_per_second(query: str, inputs: list[Event]) -> int:
    with results.driver_of(query, commit_every=1_000) as driver:
        started = time.process_time()
        piped = results.pipe(driver, inputs)
        return round(piped / (time.process_time() - started))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--events", type=int, default=5_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    inputs = list(events(arguments.events, arguments.seed))
    print("| query | lines | records/s |\n|---|---|---|")
    for query in reference.QUERIES:
        speed = records_per_second(query, inputs)
        print(f"| {query} | {lines_of(query)} | {speed:,} |", flush=True)
    print(f"shared: {lines_of(*SHARED)} lines")


if __name__ == "__main__":
    main()
