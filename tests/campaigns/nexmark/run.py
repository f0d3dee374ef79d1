"""A query of Nexmark on a broker, whose instance is killed: its rows and those of SQL."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec

from examples.nexmark import reference, results
from examples.nexmark.events import SIDE_INPUT, Event
from logstate.serdes.built_in import serde_of
from tests.broker.example_run import PARTITIONS, Entry, ExampleRun, running
from tests.patience import until

#: how long a join waits for records of its other topic (seconds); a busy machine is slower than
#: the grace of the queries
IDLE_S = 5
#: their windows follow a repartition topic. The tasks that write to it advance independently, so
#: that records of a slower one are late: results are those of SQL with one partition only
OF_ONE_PARTITION = {"q8", "q11"}
Rows = Counter[reference.Row]


def number(value: int) -> bytes:
    return value.to_bytes(8, "big", signed=True)


def record(event: Event) -> tuple[str, Entry]:
    value = msgspec.json.encode(event.value)
    return event.topic, (number(event.key), value, event.value.date_time)


def found(run: ExampleRun, query: str) -> Rows:
    """Return the rows of the committed records of a query's topic."""
    form = results.FORMS[query]
    key = serde_of(form.key, what="the key").deserializer(query, True)
    value = serde_of(form.value, what="the value").deserializer(query, False)
    records = [
        (key(one) if one is not None else None, value(other) if other is not None else None)
        for one, other, _ in run.read(query)
    ]
    return Counter(results.rows_of(query, records))


def difference(wanted: Rows, rows: Rows) -> str:
    missing, more = wanted - rows, rows - wanted
    return (
        f"of {wanted.total()} rows {missing.total()} are missing, such as {list(missing)[:2]}; "
        f"there are {more.total()} others, such as {list(more)[:2]}"
    )


def run_query(
    query: str,
    events: Sequence[Event],
    bootstrap: str,
    name: str,
    path: Path,
    kills: int,
    seed: int,
) -> Rows:
    """Return the rows of the query, which are those of SQL; else raise AssertionError.

    They are compared until they are equal, and once more after the instance has ended.
    """
    with reference.connect(events, path) as database:
        wanted = Counter(reference.rows(database, query))
    topics = ("persons", "auctions", "bids", "side-input", query)
    records = [record(event) for event in events]
    module = f"examples.nexmark.app:{query}"
    partitions = 1 if query in OF_ONE_PARTITION else PARTITIONS
    with running(module, bootstrap, name, path, topics, 0, partitions) as run:
        run.arguments = ["--max-task-idle", str(IDLE_S)]
        run.send(
            [("side-input", (number(key), text.encode(), 0)) for key, text in SIDE_INPUT.items()]
        )
        run.start(0)
        run.send_with_kills(records, kills, seed)
        until(lambda: found(run, query) == wanted, lambda: difference(wanted, found(run, query)))
        run.stop()
        assert found(run, query) == wanted, difference(wanted, found(run, query))
        return wanted
