"""Two stores of the flights application in SQL, without Spark: in DuckDB, and in Polars.

    python -m examples.sql.delays --bootstrap localhost:9092

Both stores are read at one cut, so they have counted the same flights per task; the application may
be running or not. The tables are Arrow, so a query runs on them as they are.
"""

from __future__ import annotations

import argparse

import duckdb
import polars as pl

import logstate
from logstate.changelog.reading.stored_table import StoredTable

Row = tuple[object, ...]

STORES = ("carrier-hours", "model-totals")

#: flights and minutes of delay per hour of the day (UTC), from windows of an hour
BY_HOUR = """
    SELECT hour(window_start AT TIME ZONE 'UTC') AS hour,
           sum(value.flights)::BIGINT AS flights,
           sum(value.minutes)::DOUBLE AS minutes
    FROM hours GROUP BY ALL ORDER BY hour
"""

#: how many flights each of both stores has counted
TOTALS = """
    SELECT (SELECT sum(value.flights) FROM hours)::BIGINT AS of_hours,
           (SELECT sum(value.flights) FROM models)::BIGINT AS of_models
"""


def stores(application: str, bootstrap: str, **options: bool) -> tuple[StoredTable, StoredTable]:
    """Both stores at one cut; ``options`` are those of ``logstate.read``."""
    cut = logstate.latest_cut(bootstrap, application)
    hours, models = (
        logstate.read(application, store, bootstrap=bootstrap, cut=cut, **options)  # type: ignore[arg-type]
        for store in STORES
    )
    return hours, models


def with_duckdb(query: str, hours: StoredTable, models: StoredTable) -> list[Row]:
    """The rows of a query over the tables ``hours`` and ``models``."""
    with duckdb.connect() as connection:
        connection.register("hours", hours.to_arrow())
        connection.register("models", models.to_arrow())
        found: list[Row] = connection.sql(query).fetchall()
    return found


def by_hour_with_polars(hours: StoredTable) -> list[Row]:
    """The same as ``BY_HOUR``, in Polars."""
    found = (
        pl.DataFrame(hours)
        .lazy()
        .group_by(pl.col("window_start").dt.convert_time_zone("UTC").dt.hour().alias("hour"))
        .agg(
            pl.col("value").struct.field("flights").sum(),
            pl.col("value").struct.field("minutes").sum().cast(pl.Float64),
        )
        .sort("hour")
    )
    rows: list[Row] = found.collect().rows()
    return rows


def totals_with_polars(hours: StoredTable, models: StoredTable) -> list[Row]:
    """The same as ``TOTALS``, in the SQL of Polars."""
    tables = {"hours": pl.DataFrame(hours), "models": pl.DataFrame(models)}
    flights = {
        name: pl.DataFrame({"flights": table["value"].struct.field("flights")})
        for name, table in tables.items()
    }
    query = """
        SELECT of_hours, of_models
        FROM (SELECT sum(flights) AS of_hours FROM hours) AS h
        CROSS JOIN (SELECT sum(flights) AS of_models FROM models) AS m
    """
    found: list[Row] = pl.SQLContext(flights).execute(query, eager=True).rows()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--bootstrap", required=True, help="host:port of a broker")
    parser.add_argument("--application", default="flights", help="id of the flights application")
    arguments = parser.parse_args()
    hours, models = stores(arguments.application, arguments.bootstrap)
    for query in (BY_HOUR, TOTALS):
        for row in with_duckdb(query, hours, models):
            print(*row)
    print(by_hour_with_polars(hours))
    print(totals_with_polars(hours, models))


if __name__ == "__main__":
    main()
