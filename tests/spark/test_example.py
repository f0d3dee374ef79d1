"""examples/spark and examples/sql, over an application that has counted the first day."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from examples.flights import loader
from examples.flights.app import topology
from examples.spark import delays
from examples.sql import delays as sql_delays
from logstate import Application
from logstate.changelog.spark import tables
from logstate.contracts.errors import StoreUnavailableError
from logstate.kafka.cluster import KafkaCluster
from tests.markers import are_written
from tests.patience import PATIENCE_S, until


@pytest.fixture
def flights(bootstrap: str) -> Iterator[dict[str, list[loader.Row]]]:
    """The first day, on topics that are gone afterwards: their names are fixed."""
    rows = loader.rows(days=1)
    loader.create_topics(bootstrap)
    loader.load(bootstrap, rows, lambda topic, count: None)
    yield rows
    KafkaCluster(bootstrap).admin().delete_topics([*loader.INPUT_TOPICS, *loader.OUTPUT_TOPICS])


def test_two_stores_make_a_chart_in_spark_and_the_same_numbers_in_duckdb_and_polars(
    bootstrap: str,
    unique: Callable[[str], str],
    flights: dict[str, list[loader.Row]],
    spark: SparkSession,
    tmp_path: Path,
) -> None:
    app = Application(
        topology(),
        application_id=unique("flights"),
        bootstrap=bootstrap,
        state_dir=tmp_path / "state",
        commit_interval=timedelta(milliseconds=50),
    )
    with app:
        app.wait_until_running(timedelta(seconds=PATIENCE_S))
        for store in delays.STORES:
            until(lambda store=store: _counted(app, store) == len(flights["flights"]))
    until(lambda: are_written(bootstrap, app.transactional_id))

    found = tables(app.application_id, delays.STORES, bootstrap=bootstrap, includeExpired="true")
    hours = delays.by_hour(found["carrier-hours"])
    sizes = delays.by_seats(found["model-totals"], delays.planes(spark))
    delays.write_chart(tmp_path / "delays.png", hours, sizes)

    assert sum(row["flights"] for row in hours.collect()) == len(flights["flights"])
    models = {plane.model for plane in (row.value for row in flights["planes"])}
    known = found["model-totals"].where(found["model-totals"]["key"].isin(models))
    expected = sum(row["value"]["flights"] for row in known.collect())
    assert sum(row["flights"] for row in sizes.collect()) == expected > 0
    assert (tmp_path / "delays.png").read_bytes().startswith(b"\x89PNG")

    by_sql = sql_delays.stores(app.application_id, bootstrap, include_expired=True)
    flights_by_hour = {row["hour"]: row["flights"] for row in hours.collect()}
    of_duckdb = sql_delays.with_duckdb(sql_delays.BY_HOUR, *by_sql)
    assert {hour: number for hour, number, _ in of_duckdb} == flights_by_hour
    assert sql_delays.by_hour_with_polars(by_sql[0]) == of_duckdb
    total = len(flights["flights"])
    assert sql_delays.with_duckdb(sql_delays.TOTALS, *by_sql) == [(total, total)]
    assert sql_delays.totals_with_polars(*by_sql) == [(total, total)]


def _counted(app: Application, store: str) -> int:
    """How many; 0 while the tasks of the store are not there: the others run before them."""
    try:
        return sum(row.value.flights for _, row in app.store(store).all())
    except StoreUnavailableError:
        return 0
