"""One recorded run, replayed: the events go in, what comes out has the shape of a recording."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from logstate.contracts.errors import LogstateError
from logstate.contracts.records import ProducedRecord
from logstate.testing.driver import TopologyTestDriver
from logstate.topology import Topology

from .observer import Observer, recorded_class
from .settings import driver_settings
from .vectors import Case, Run


def replay(case: Case, topology: Topology, expected: Run) -> Run:
    """Run the events of ``expected`` through the topology, noting what each one caused."""
    output: list[dict[str, Any]] = []
    dropped: list[list[int]] = []
    changelog: dict[str, list[list[Any]]] = {}
    internal: dict[str, list[list[Any]]] = {}
    error = None
    with TopologyTestDriver(topology, **driver_settings(case.config)) as driver:
        observer = Observer(case, topology, driver)
        dropped_before = driver.dropped_total
        for cause, event in enumerate(expected.events):
            try:
                observer.apply(event)
            except LogstateError as failure:
                # What the event caused before the record that failed was committed and counts.
                error = {"cause": cause, "exception": recorded_class(failure)}
            output += [observer.output(r) | {"cause": cause} for r in driver.take_outputs()]
            collect_new(changelog, driver.changelogs, cause)
            collect_new(internal, driver.internal, cause)
            if driver.dropped_total != dropped_before:
                dropped.append([cause, driver.dropped_total - dropped_before])
                dropped_before = driver.dropped_total
            if error is not None:
                break
        return Run(
            seed=expected.seed,
            events=expected.events,
            output=output,
            stores={} if error else observer.stores(),
            dropped=dropped,
            changelog=changelog,
            internal=internal,
            error=error,
        )


def collect_new(
    rows: dict[str, list[list[Any]]], topics: Mapping[str, Sequence[ProducedRecord]], cause: int
) -> None:
    """Append what the topics got since the last look, as the recordings write it."""
    for topic, records in topics.items():
        seen = len(rows.get(topic, ()))
        for record in records[seen:]:
            rows.setdefault(topic, []).append(raw_row(record, cause))


def raw_row(record: ProducedRecord, cause: int) -> list[Any]:
    row = [
        cause,
        None if record.key is None else record.key.hex(),
        None if record.value is None else record.value.hex(),
        None if record.timestamp == -1 else record.timestamp,
    ]
    if record.headers:
        row.append([[name, None if raw is None else raw.hex()] for name, raw in record.headers])
    return row
