"""The same stores through Spark: as tables, and as a parquet view that a streaming query keeps.

Spark reads the changelog topics with the application running or not; it asks no instance anything.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from examples.flights import comparison
from examples.flights.comparison import Table
from logstate.changelog.spark import parquet_view, session

_CONF = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # The data are small and the machine may be, too: every further partition is a task to start.
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "1g",
    # Too short a run for the second compiler to pay: 20 s of processor time instead of 42 s.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.log.level": "ERROR",
}


class SparkView:
    """The stores of one application as Spark sees them. Starting takes seconds: it is a JVM."""

    def __init__(self, bootstrap: str, application_id: str, directory: Path) -> None:
        self._options = {"bootstrap": bootstrap, "application": application_id}
        self._checkpoint = directory / "checkpoint"
        conf = {**_CONF, "spark.sql.warehouse.dir": str(directory / "warehouse")}
        self._spark: SparkSession = session("flights", master="local[2]", conf=conf)
        self._view = parquet_view(directory / "carrier-hours")
        self._refreshing = threading.Lock()

    def store(self, name: str, **options: str) -> DataFrame:
        """The latest value per key at the latest commit."""
        reader = self._spark.read.format("logstate").options(**self._options)
        return reader.options(store=name, **options).load()

    def carrier_hours(self, **options: str) -> Table:
        # All hours that the log has: more than the store shows of them.
        return _carrier_hours(self.store("carrier-hours", includeExpired="true", **options))

    def model_totals(self, **options: str) -> Table:
        rows = self.store("model-totals", **options).select("key", "value").toArrow()
        return comparison.model_totals((row["key"], row["value"]) for row in rows.to_pylist())

    def refresh(self) -> int:
        """Bring the parquet view of the store carrier-hours up to date; returns its row count.

        The query is a stream with a checkpoint: it goes on where it stopped, and ends when it has
        taken what was committed by now.
        """
        with self._refreshing:
            self._take_what_is_committed()
            return int(self._view.read(self._spark).count())

    def _take_what_is_committed(self, starts: int = 5) -> None:
        changes = self._spark.readStream.format("logstate").options(**self._options)
        changes = changes.options(store="carrier-hours", readChangeFeed="true")
        query = changes.load().writeStream.foreachBatch(self._view)
        query = query.option("checkpointLocation", str(self._checkpoint))
        try:
            query.trigger(availableNow=True).start().awaitTermination()
        except PySparkException as failure:
            # A Python process of Spark has 10 s to come up, whatever else the machine does.
            if starts == 1 or "Python worker failed to connect back" not in str(failure):
                raise
            self._take_what_is_committed(starts - 1)

    def viewed_carrier_hours(self) -> Table:
        """The parquet view."""
        return _carrier_hours(self._view.read(self._spark))

    def stop(self) -> None:
        self._spark.stop()


def _carrier_hours(rows: DataFrame) -> Table:
    columns: list[Any] = [
        "key",
        f.unix_millis("window_start").alias("start_ms"),
        f.unix_millis("window_end").alias("end_ms"),
        "value",
    ]
    return comparison.carrier_hours(
        (row["key"], row["start_ms"], row["end_ms"], row["value"])
        for row in rows.select(*columns).toArrow().to_pylist()
    )
