"""Instructions of a record of ``agg`` with four fields, compared with the aggregate by hand.

    python -m tests.performance.aggregates

Both aggregate JSON records by key and write every result: the number, the sum and the greatest of
the amounts, and their mean or the least. By hand that is one function; its mean is its own sum by
its own number, while the rows of ``agg`` have the sum and the number of a mean, too.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

import msgspec

from logstate import Aggregates, Count, Max, Mean, Min, StreamsBuilder, Sum
from logstate.topology.plan.plan import Topology
from tests.performance.events import Event as Written
from tests.performance.events import write_events
from tests.performance.instructions import MANY, instructions, process_all, task_of
from tests.performance.logstate_peer import Event

_MODULE = "tests.performance.aggregates"
_KEYS = 500


def _amount_of(event: Event) -> float:
    return event.amount


class Amounts(Aggregates[Event]):
    """The four with a mean, by ``agg``."""

    number = Count()
    total = Sum(_amount_of)
    largest = Max(_amount_of)
    mean = Mean(_amount_of)


class Extremes(Aggregates[Event]):
    """The four with the least, by ``agg``."""

    number = Count()
    total = Sum(_amount_of)
    largest = Max(_amount_of)
    least = Min(_amount_of)


class ByHand(msgspec.Struct, frozen=True):
    """The four, by hand; ``last`` is the mean or the least."""

    number: int = 0
    total: float = 0.0
    largest: float = 0.0
    last: float | None = None


def add_with_mean(row: ByHand, event: Event) -> ByHand:
    """The row with one more amount, and the mean."""
    amount, number = event.amount, row.number + 1
    total = row.total + amount
    largest = amount if amount > row.largest else row.largest
    return ByHand(number, total, largest, total / number)


def add_with_least(row: ByHand, event: Event) -> ByHand:
    """The row with one more amount, and the least."""
    amount, least = event.amount, row.last
    largest = amount if amount > row.largest else row.largest
    least = amount if least is None or amount < least else least
    return ByHand(row.number + 1, row.total + amount, largest, least)


#: the record of ``agg``, and the function that is compared
_COMPARED: dict[str, tuple[type[Any], Callable[[ByHand, Event], ByHand]]] = {
    "mean": (Amounts, add_with_mean),
    "least": (Extremes, add_with_least),
}


def _declared(name: str, *, by_hand: bool) -> Topology:
    builder = StreamsBuilder()
    groups = builder.stream("in", key=str, value=Event).group_by_key()
    record, add = _COMPARED[name]
    if by_hand:
        groups.aggregate(ByHand, add, store="s", value=ByHand).to_stream().to("out")
    else:
        groups.agg(record, store="s").to_stream().to("out")
    return builder.build()


def work(name: str, records: int, *, by_hand: bool) -> None:
    """What is counted: ``records`` records through one task."""
    events: list[Written] = []
    write_events(MANY, _KEYS, "", events.append)
    task = task_of(_declared(name, by_hand=by_hand), "aggregates", ("in", "out"))
    process_all(task, "in", events[:records])


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.performance.aggregates")
    parser.add_argument("names", nargs="*", choices=[*_COMPARED, []])
    parser.add_argument("--by-hand", action="store_true", help="inside: the aggregate by hand")
    parser.add_argument("--inside", type=int, metavar="RECORDS", help="do the work, count nothing")
    a = parser.parse_args()
    if a.inside is not None:
        work(a.names[0], a.inside, by_hand=a.by_hand)
        return
    for name in a.names or _COMPARED:
        base, measured = instructions(_MODULE, name, "--by-hand"), instructions(_MODULE, name)
        ratio = f"{measured / base:.3f}"
        print(f"with the {name}: {measured:,.0f}, by hand: {base:,.0f} per record: {ratio}")


if __name__ == "__main__":
    sys.exit(main())
