"""One instance of the application, as a process of its own: start as many as you like.

    python -m examples.flights.instance --bootstrap localhost:9092 --application-id flights \\
        --state-dir state/a --instance-id a

Without ``--supervised`` it runs until Ctrl-C or SIGTERM. With it, it prints a status as one line of
JSON every quarter of a second, obeys the lines ``stores PATH`` (write the rows that this instance
holds to a file) and ``stop`` on its standard input, and ends when that is closed, so that it never
outlives the program that started it.
"""

from __future__ import annotations

import argparse
import sys
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any, TextIO

import msgspec

from examples.flights.app import topology
from logstate import Application

STATUS_INTERVAL_S = 0.25


class Status(msgspec.Struct, frozen=True, tag=True):
    """What the supervisor reads. The record counts are of this process since it started."""

    running_tasks: int
    consumed_records: int
    dropped_records: int
    restored_records: int
    transactional_id: str


class StoresWritten(msgspec.Struct, frozen=True, tag=True):
    """The answer to ``stores PATH``."""

    path: str


class StoreRows(msgspec.Struct, frozen=True):
    """The committed rows that one instance holds of both stores; values as plain objects."""

    carrier_hours: list[tuple[str, int, int, dict[str, Any]]]
    model_totals: list[tuple[str, dict[str, Any]]]


def application(arguments: argparse.Namespace) -> Application:
    return Application(
        topology(),
        application_id=arguments.application_id,
        bootstrap=arguments.bootstrap,
        state_dir=arguments.state_dir,
        guarantee="exactly_once",
        commit_interval=timedelta(milliseconds=arguments.commit_interval_ms),
        kafka={"client.id": f"{arguments.application_id}-{arguments.instance_id}"},
    )


def supervise(app: Application, commands: TextIO) -> None:
    """Report until told to stop, until nobody can tell any more, or until the application fails."""
    stopped = threading.Event()
    threading.Thread(target=_obey, args=(app, commands, stopped), daemon=True).start()
    with app:
        while app.is_alive and not stopped.wait(STATUS_INTERVAL_S):
            _print(status(app))


def status(app: Application) -> Status:
    """The figures of this moment, out of everything that the application measures."""
    metrics = app.metrics()
    return Status(
        running_tasks=_total(metrics, "tasks", state="running"),
        consumed_records=_total(metrics, "records_consumed_total"),
        dropped_records=_total(metrics, "dropped_records_total"),
        restored_records=_total(metrics, "restore_total"),
        transactional_id=app.transactional_id,
    )


def store_rows(app: Application) -> StoreRows:
    """Everything this instance holds; raises while one of its partitions is being restored."""
    return StoreRows(
        carrier_hours=[
            (window.key, window.start_ms, window.end_ms, msgspec.to_builtins(row.value))
            for window, row in app.store("carrier-hours").all()
        ],
        model_totals=[
            (model, msgspec.to_builtins(row.value))
            for model, row in app.store("model-totals").all()
        ],
    )


def _obey(app: Application, commands: TextIO, stopped: threading.Event) -> None:
    try:
        for line in commands:
            command, _, path = line.strip().partition(" ")
            if command == "stop":
                break
            Path(path).write_bytes(msgspec.json.encode(store_rows(app)))
            _print(StoresWritten(path))
    finally:
        stopped.set()


def _total(metrics: dict[str, Any], name: str, **labels: str) -> int:
    series = metrics.get(name, {"series": []})["series"]
    return int(sum(one["value"] for one in series if labels.items() <= one["labels"].items()))


def _print(report: msgspec.Struct) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(report) + b"\n")
    sys.stdout.buffer.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--bootstrap", required=True, help="host:port of a broker")
    parser.add_argument("--application-id", default="flights")
    parser.add_argument("--state-dir", required=True, help="of this instance alone")
    parser.add_argument("--instance-id", required=True, help="its name in the broker's logs")
    parser.add_argument("--commit-interval-ms", type=int, default=100)
    parser.add_argument("--supervised", action="store_true", help="see the module's description")
    arguments = parser.parse_args()
    app = application(arguments)
    if arguments.supervised:
        supervise(app, sys.stdin)
    else:
        app.run()


if __name__ == "__main__":
    main()
