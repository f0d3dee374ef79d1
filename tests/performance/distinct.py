"""Instructions of a record of ``distinct``, compared with a record of ``count``.

    python -m tests.performance.distinct

Both read JSON records of 500 keys. ``count`` writes each result; ``distinct`` forwards the first
record of each key (``key``), or of each key and one of two ids (``id``), and drops all others.
"""

from __future__ import annotations

import argparse
import sys

from logstate import StreamsBuilder
from logstate.topology.plan.plan import Topology
from tests.performance.events import Event as Written
from tests.performance.events import write_events
from tests.performance.instructions import MANY, instructions, process_all, task_of
from tests.performance.logstate_peer import Event

_MODULE = "tests.performance.distinct"
_KEYS = 500


def _size_of(event: Event) -> str:
    return "large" if event.amount > 50 else "small"


def _declared(name: str) -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=Event)
    if name == "count":
        stream.group_by_key().count(store="s").to_stream().to("out")
    elif name == "key":
        stream.distinct(store="s").to("out")
    else:
        stream.distinct(_size_of, id=str, store="s").to("out")
    return builder.build()


def work(name: str, records: int) -> None:
    """What is counted: ``records`` records through one task."""
    events: list[Written] = []
    write_events(MANY, _KEYS, "", events.append)
    process_all(task_of(_declared(name), "distinct", ("in", "out")), "in", events[:records])


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.performance.distinct")
    parser.add_argument("name", nargs="?", choices=["count", "key", "id"])
    parser.add_argument("--inside", type=int, metavar="RECORDS", help="do the work, count nothing")
    a = parser.parse_args()
    if a.inside is not None:
        work(a.name, a.inside)
        return
    base = instructions(_MODULE, "count")
    for name in [a.name] if a.name else ("key", "id"):
        measured = instructions(_MODULE, name)
        ratio = f"{measured / base:.3f}"
        print(f"distinct by {name}: {measured:,.0f}, count: {base:,.0f} per record: {ratio}")


if __name__ == "__main__":
    sys.exit(main())
