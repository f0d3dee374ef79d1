"""Two stores of the flights application and a batch table in one chart: who is late, and when?

    python -m examples.spark.delays --bootstrap localhost:9092 --chart delays.png

Both stores are read at one cut, so they have counted the same flights per task; the application may
be running or not. What is known of planes beside Kafka is a plain DataFrame, joined like any other.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import msgspec
import pyarrow as pa
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from examples.flights import data
from logstate.changelog.spark import session, tables

STORES = ["carrier-hours", "model-totals"]
_SEATS_PER_CLASS = 100


def planes(spark: SparkSession) -> DataFrame:
    """A batch table: seats of each model, the mean over its planes."""
    rows = [msgspec.to_builtins(plane) for plane in data.planes()]
    found = spark.createDataFrame(pa.Table.from_pylist(rows))
    return found.groupBy("model").agg(f.avg("seats").alias("seats"))


def by_hour(carrier_hours: DataFrame) -> DataFrame:
    """Flights and their mean delay per hour of the day (UTC)."""
    return _mean_delays(carrier_hours, f.hour("window_start").alias("hour")).orderBy("hour")


def by_seats(model_totals: DataFrame, planes: DataFrame) -> DataFrame:
    """The same by size of the plane, in steps of a hundred seats."""
    joined = model_totals.join(planes, model_totals["key"] == planes["model"])
    seats = (f.floor(f.col("seats") / _SEATS_PER_CLASS) * _SEATS_PER_CLASS).alias("seats_from")
    return _mean_delays(joined, seats).orderBy("seats_from")


def write_chart(path: Path, hours: DataFrame, sizes: DataFrame) -> None:
    """Two panels of bars, as PNG."""
    figure = Figure(figsize=(12, 5), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle("Departures out of New York: mean delay in minutes")
    titles = ("by hour of the day (UTC)", "by seats of the plane, from")
    for axes, title, found in zip(figure.subplots(1, 2), titles, (hours, sizes), strict=True):
        rows = found.collect()
        bars = axes.bar([str(row[0]) for row in rows], [row["mean_delay"] for row in rows])
        axes.bar_label(bars, [f"{row['flights']:,}" for row in rows], fontsize=7)
        axes.set_title(f"{title} (flights above)")
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=120)


def _mean_delays(rows: DataFrame, group: Column) -> DataFrame:
    known = f.sum("value.flights") - f.sum("value.without_delay")
    mean = (f.sum("value.minutes") / f.greatest(known, f.lit(1))).alias("mean_delay")
    return rows.groupBy(group).agg(f.sum("value.flights").alias("flights"), mean)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--bootstrap", required=True, help="host:port of a broker")
    parser.add_argument("--application", default="flights", help="id of the flights application")
    parser.add_argument("--chart", type=Path, default=Path("delays.png"), help="where it goes")
    arguments = parser.parse_args()
    spark = session("flights-delays")
    found = tables(arguments.application, STORES, bootstrap=arguments.bootstrap)
    hours = by_hour(found["carrier-hours"])
    sizes = by_seats(found["model-totals"], planes(spark))
    hours.show(24)
    sizes.show()
    write_chart(arguments.chart, hours, sizes)
    print(f"wrote {arguments.chart}")


if __name__ == "__main__":
    main()
