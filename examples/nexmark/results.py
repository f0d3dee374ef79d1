"""Run a query in the test driver, and turn its records into the rows of its SQL."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from examples.nexmark.app import topology
from examples.nexmark.events import SIDE_INPUT, Bid, Event
from examples.nexmark.queries import Offer
from examples.nexmark.reference import Row
from logstate import TopologyTestDriver


class Form(NamedTuple):
    """Types of a query's results, and ``rows(key, value)``, the rows of a record."""

    key: Any
    value: Any
    rows: Callable[[Any, Any], list[Row]]
    #: the last record of a key counts, as for a table; else every record
    is_table: bool = False


def fields(record: Any) -> Row:
    return tuple(msgspec.structs.astuple(record))


def after_key(key: object, value: Sequence[object]) -> list[Row]:
    """Return the row that has the key first."""
    return [(key, *value)]


def in_dict(key: Any, value: dict[str, object]) -> list[Row]:
    parts = key if isinstance(key, tuple) else (key,)
    return [(*parts, *value.values())]


FORMS = {
    "q0": Form(int, Bid, lambda _, bid: [fields(bid)]),
    "q1": Form(int, dict, lambda _, row: [tuple(row.values())]),
    "q2": Form(int, int, lambda auction, price: [(auction, price)]),
    "q3": Form(int, list, lambda auction, seller: [(*seller, auction)]),
    "q4": Form(int, dict, in_dict, is_table=True),
    "q5": Form(int, list, lambda start, hot: [(*one, start) for one in hot], is_table=True),
    "q6": Form(int, float, lambda seller, mean: [(seller, mean)], is_table=True),
    "q7": Form(int, list[Bid], lambda _, best: [fields(bid) for bid in best], is_table=True),
    "q8": Form(int, list, lambda one, row: [(one, row[0], row[1] // 10_000 * 10_000)]),
    "q9": Form(
        int, Offer, lambda _, best: [(*fields(best.auction), *fields(best.bid))], is_table=True
    ),
    "q10": Form(str, Bid, lambda minute, bid: [(minute, *fields(bid))]),
    "q11": Form(int, list, after_key),
    "q13": Form(int, list, after_key),
    "q14": Form(int, list, after_key),
    "q15": Form(str, dict, in_dict, is_table=True),
    "q16": Form(tuple[str, str], dict, in_dict, is_table=True),
    "q17": Form(tuple[int, str], dict, in_dict, is_table=True),
    "q18": Form(tuple[int, int], Bid, lambda _, bid: [fields(bid)], is_table=True),
    "q19": Form(
        int,
        dict[str, list[tuple[int, int, Bid]]],
        lambda _, row: [(*fields(bid), n) for n, (_, _, bid) in enumerate(row["top"], 1)],
        is_table=True,
    ),
    "q20": Form(int, Offer, lambda _, one: [(*fields(one.bid), *fields(one.auction)[1:])]),
    "q21": Form(int, list, after_key),
    "q22": Form(int, list, after_key),
}


def driver_of(query: str, commit_every: int = 1) -> TopologyTestDriver:
    driver = TopologyTestDriver(topology(query=query), commit_every=commit_every)
    if driver.topology.global_sub_topologies:
        driver.pipe_all("side-input", [(key, value, 0) for key, value in SIDE_INPUT.items()])
    return driver


def pipe(driver: TopologyTestDriver, events: Iterable[Event]) -> int:
    """Pipe the events of the topics that the query reads, and return their number."""
    read = driver.task.source_topics
    piped = 0
    for event in events:
        if event.topic in read:
            driver.pipe(event.topic, event.key, event.value, timestamp=event.value.date_time)
            piped += 1
    return piped


def rows(driver: TopologyTestDriver, query: str) -> list[Row]:
    form = FORMS[query]
    return rows_of(query, driver.read(query, key=form.key, value=form.value))


def rows_of(query: str, records: Sequence[tuple[Any, Any]]) -> list[Row]:
    """Return the rows that the keys and values of a query's topic stand for."""
    form = FORMS[query]
    if form.is_table:
        records = [item for item in dict(records).items() if item[1] is not None]
    return [row for key, value in records for row in form.rows(key, value)]
