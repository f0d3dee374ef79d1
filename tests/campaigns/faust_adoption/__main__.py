"""Run Faust and then logstate on its tables, or both at once.

Run ``python -m tests.campaigns.faust_adoption [--records 100000] [--kills 3]``.

A Faust worker counts into a plain and a windowed table and is stopped in order; its tables are
taken over, and logstate reads what is left. Printed is what each of them did; the last line says
whether the totals are exact and whether a record was read twice.

With ``--kills`` both libraries count beside each other in one process instead, which is killed so
often; Faust, which is at-least-once, may count records of a kill twice, and logstate may not.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import uuid
from pathlib import Path

from logstate.local_broker.broker import LocalBroker
from tests.campaigns.faust_adoption.beside_story import tell_beside
from tests.campaigns.faust_adoption.story import Story, tell


def main() -> int:
    """Tell the story; 1 where a total is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaigns.faust_adoption")
    parser.add_argument("--records", type=int, default=100_000, help="that Faust is to count")
    parser.add_argument("--kills", type=int, default=0, help="of a process with both libraries")
    arguments = parser.parse_args()
    if arguments.kills:
        return together(arguments.records, arguments.kills)
    records = arguments.records
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, LocalBroker.start() as broker:
        seen = tell(broker.bootstrap, f"visits-{uuid.uuid4().hex[:8]}", Path(folder), records)
    by_faust = sum(seen.adopted.offsets.values())
    wrong = sum(
        found != expected
        for table, other in zip(seen.found, seen.expected, strict=True)
        for found, expected in ((table.get(key), other.get(key)) for key in {*table, *other})
    )
    print(f"{by_faust} records counted by Faust; {sum(seen.adopted.rows.values())} rows taken over")
    print(f"{seen.read} records read by logstate, {seen.unread} were left")
    print(
        f"{by_faust + seen.read} records, {wrong} totals wrong, "
        f"{max(0, seen.read - seen.unread)} read twice, "
        f"{time.monotonic() - started:.0f} s"
    )
    return 0 if wrong == 0 and seen.read == seen.unread else 1


def together(records: int, kills: int) -> int:
    """Both in one process; 1 where logstate has a wrong total, or Faust one that is too small."""
    with tempfile.TemporaryDirectory() as folder, LocalBroker.start() as broker:
        story = Story(broker.bootstrap, f"visits-{uuid.uuid4().hex[:8]}", Path(folder))
        seen = tell_beside(story, records // (kills + 1), kills)
    wrong = sum(seen.logstate.get(page) != total for page, total in seen.expected.items())
    lost = sum(seen.faust.get(page, 0) < total for page, total in seen.expected.items())
    more = sum(seen.faust.values()) - sum(seen.expected.values())
    print(f"Faust: {lost} totals too small, all together {more} too large")
    print(f"{story.sent} records, {kills} kills, {wrong} totals of logstate wrong")
    return 0 if wrong == lost == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
