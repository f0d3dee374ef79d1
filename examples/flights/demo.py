"""The whole line on a real broker: load, process, kill, take over, restart, compare.

    ./dev demo [--seed N] [--days N] [--break duplicates|reference|spark]

Progress goes to standard error. Standard output gets a table, a chart and, as its last line, one
JSON object with what was measured (see `examples.flights.verdict`). The exit status is 0 only if
all of it is as it must be. ``--seed`` moves the kill to another moment and another instance;
``--break`` plants a fault, to show that it would be noticed; it may be given several times.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import msgspec
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)

from examples.flights import chart, comparison, faults, loader, reference
from examples.flights.app import NO_TAIL_NUMBER, UNKNOWN_PLANE
from examples.flights.comparison import Table
from examples.flights.faults import Fault
from examples.flights.kill import aborted_records
from examples.flights.outputs import OutputAudit, offsets
from examples.flights.reference import Reference
from examples.flights.scenario import Scenario, Survived
from examples.flights.spark_view import SparkView
from examples.flights.verdict import Verdict
from logstate.local_broker.broker import LocalBroker

APPLICATION_ID = "flights"
_MODELS_SHOWN = 16
# Between two batches of flights, once half of them are there and nobody has been killed yet; then
# more and more, so that there are flights left however late the kill comes.
_PACE_S = 0.25


class Settings(NamedTuple):
    """What the command line says."""

    seed: int
    days: int | None
    faults: Sequence[Fault]
    chart: Path


class Read(NamedTuple):
    """What Spark reads when everything is processed."""

    carrier_hours: Table
    model_totals: Table
    viewed_carrier_hours: Table


def main() -> int:
    # pyspark is not sure about the newest pandas, of which only Arrow tables are used here.
    warnings.filterwarnings("ignore", category=FutureWarning, module="pyspark")
    settings = _settings()
    progress = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True, log_path=False),
    )
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="flights-")))
        stack.enter_context(progress)
        demo = Demo(settings, directory, progress, stack)
        verdict, expected = demo.run()
    failures = verdict.failures(
        records=expected.records,
        null_tailnums=expected.null_tailnums,
        unmatched_planes=expected.unmatched_planes,
    )
    for failure in failures:
        print(f"NOT AS IT MUST BE: {failure}", file=sys.stderr)
    print(msgspec.json.encode(verdict).decode(), flush=True)
    return 1 if failures else 0


class Demo:
    """One run. What it starts, it registers with the stack to be stopped in reverse order."""

    def __init__(
        self,
        settings: Settings,
        directory: Path,
        progress: Progress,
        stack: ExitStack,
    ) -> None:
        self._settings = settings
        self._directory = directory
        self._progress = progress
        self._background = ThreadPoolExecutor()
        self._stack = stack
        self._started_s = time.monotonic()
        self._first_view: Future[None]

    def run(self) -> tuple[Verdict, Reference]:
        reading = self._background.submit(loader.rows, self._settings.days)
        computing = self._background.submit(reference.compute, self._settings.days)
        self._say("starting the broker")
        bootstrap = self._stack.enter_context(LocalBroker.start()).bootstrap
        # Before the broker goes, because what runs in the background talks to it.
        self._stack.callback(self._background.shutdown, cancel_futures=True)
        starting = self._background.submit(self._start_spark, bootstrap)
        loader.create_topics(bootstrap)
        topics = reading.result()
        flights = {"flights": topics.pop("flights")}
        self._load(bootstrap, topics)
        audit = OutputAudit(bootstrap, len(flights["flights"]))
        self._stack.callback(audit.close)
        scenario = Scenario(bootstrap, APPLICATION_ID, self._directory, audit, self._progress)
        self._stack.callback(scenario.close)
        scenario.start()
        self._say("both instances run; here come the flights")
        survived = scenario.run(
            random.Random(self._settings.seed),  # noqa: S311  to choose a moment, not a secret
            loading=self._background.submit(self._load, bootstrap, flights, scenario.is_killed),
            on_restart=lambda: self._view_in_background(starting),
        )
        scenario.stop()
        self._say("everything is processed and both instances have stopped")
        if "duplicates" in self._settings.faults:
            faults.produce_again(bootstrap, loader.OUTPUT_TOPICS[0])
        audit.read_to_end()
        self._first_view.result()
        read = self._read_with(starting.result())
        self._show(read)
        expected = computing.result()
        return self._verdict(bootstrap, audit, survived, read, expected), expected

    def _load(
        self,
        bootstrap: str,
        topics: dict[str, list[loader.Row]],
        is_killed: threading.Event | None = None,
    ) -> None:
        """The second half comes slowly until ``is_killed``, lest all is done before the kill."""
        bars = {
            topic: self._progress.add_task(f"load {topic}", total=len(rows))
            for topic, rows in topics.items()
        }

        def loaded(topic: str, count: int) -> None:
            self._progress.advance(bars[topic], count)
            bar = self._progress.tasks[bars[topic]]
            if is_killed is not None and bar.percentage > 50:
                is_killed.wait(_PACE_S * 50 / max(100 - bar.percentage, 1))

        loader.load(bootstrap, topics, loaded)

    def _start_spark(self, bootstrap: str) -> SparkView:
        """Runs beside the rest: a JVM takes seconds to come up."""
        spark = SparkView(bootstrap, APPLICATION_ID, self._directory)
        self._stack.callback(spark.stop)
        return spark

    def _view_in_background(self, starting: Future[SparkView]) -> None:
        """Run the streaming query while the instances work: it takes what is committed by then."""

        def view() -> None:
            rows = starting.result().refresh()
            self._say(f"the parquet view has {rows:,} rows so far")

        self._first_view = self._background.submit(view)

    def _read_with(self, spark: SparkView) -> Read:
        options = faults.ONE_PARTITION if "spark" in self._settings.faults else {}
        self._say(f"the parquet view has {spark.refresh():,} rows in the end")
        return Read(
            carrier_hours=spark.carrier_hours(**options),
            model_totals=spark.model_totals(**options),
            viewed_carrier_hours=spark.viewed_carrier_hours(),
        )

    def _show(self, read: Read) -> None:
        airlines = chart.summaries(read.carrier_hours)
        models = chart.summaries(read.model_totals)[:_MODELS_SHOWN]
        self._progress.stop()
        console = Console()
        chart.print_table(console, "Departure delays in minutes, by airline", airlines)
        chart.print_table(console, "By model of plane, the most flights first", models)
        chart.print_chart(console, "Mean departure delay in minutes", airlines)
        self._settings.chart.parent.mkdir(parents=True, exist_ok=True)
        chart.write_chart(self._settings.chart, airlines, models)
        print(f"chart: {self._settings.chart}", file=sys.stderr)

    def _verdict(
        self,
        bootstrap: str,
        audit: OutputAudit,
        survived: Survived,
        read: Read,
        expected: Reference,
    ) -> Verdict:
        if "reference" in self._settings.faults:
            expected = faults.wrong_by_a_minute(expected)
        keys = ("carrier", "start_ms", "end_ms")
        hours = comparison.reference_table(expected.carrier_hours, keys, "airline")
        totals = comparison.reference_table(expected.model_totals, ("model",), "model")
        return Verdict(
            records=_records(bootstrap),
            kills=survived.kills,
            open_transaction_at_kill=survived.kill.was_open,
            aborted_records_on_log=aborted_records(bootstrap, survived.kill),
            restored_records=survived.restored_records,
            outputs_expected=audit.expected,
            outputs_lost=audit.lost,
            outputs_duplicated=audit.duplicated,
            null_tailnums=_flights_of(survived.model_totals, NO_TAIL_NUMBER),
            unmatched_planes=_flights_of(survived.model_totals, UNKNOWN_PLANE),
            dropped=survived.dropped_records,
            stores_equal_reference=_equal("store carrier-hours", hours, survived.carrier_hours)
            & _equal("store model-totals", totals, survived.model_totals),
            spark_equals_reference=_equal("Spark, carrier-hours", hours, read.carrier_hours)
            & _equal("Spark, model-totals", totals, read.model_totals),
            parquet_view_equals_reference=_equal("parquet view", hours, read.viewed_carrier_hours),
            seed=self._settings.seed,
            seconds=round(time.monotonic() - self._started_s, 1),
        )

    def _say(self, what: str) -> None:
        self._progress.console.log(what)


def _records(bootstrap: str) -> int:
    flights = [("flights", partition) for partition in range(loader.PARTITIONS)]
    return sum(end.committed for _, end in offsets(bootstrap, flights))


def _flights_of(totals: Table, model: str) -> int:
    _, flights, *_ = totals.get((model,), (model, 0))
    return int(flights)


def _equal(what: str, expected: Table, found: Table) -> bool:
    differences = comparison.differences(expected, found)
    for difference in differences:
        print(f"{what}: {difference}", file=sys.stderr)
    return not differences


def _settings() -> Settings:
    parser = argparse.ArgumentParser(prog="./dev demo", description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=int, default=1, help="moves the kill (default 1)")
    parser.add_argument("--days", type=int, help="only the first days of the year")
    parser.add_argument(
        "--break",
        dest="faults",
        action="append",
        default=[],
        choices=faults.FAULTS,
        help="plant a fault, which must end with status 1; may be given several times",
    )
    parser.add_argument(
        "--chart", type=Path, default=Path("out/flights.png"), help="where the PNG file goes"
    )
    return Settings(**vars(parser.parse_args()))


if __name__ == "__main__":
    sys.exit(main())
