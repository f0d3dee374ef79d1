"""One Spark session for all tests of this tier, and application logs to read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from logstate.changelog.spark import session
from tests.spark.changelog_writer import ApplicationLog


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    conf = {
        "spark.sql.shuffle.partitions": "1",
        "spark.ui.enabled": "false",
        "spark.driver.memory": "1g",
        "spark.sql.streaming.ui.enabled": "false",
        "spark.python.worker.reuse": "true",
    }
    started = session("logstate-tests", master="local[1]", conf=conf)
    started.sparkContext.setLogLevel("ERROR")
    yield started
    started.stop()


@pytest.fixture
def log(bootstrap: str, unique: Callable[[str], str]) -> ApplicationLog:
    return ApplicationLog(bootstrap, unique("app"))


@pytest.fixture
def table(spark: SparkSession, log: ApplicationLog) -> Callable[..., DataFrame]:
    """Load a store of ``log``; keyword arguments are options."""

    def load(store: str, **options: Any) -> DataFrame:
        reader = spark.read.format("logstate").options(
            bootstrap=log.bootstrap, application=log.application, store=store, stallSeconds="150"
        )
        return reader.options(**options).load()

    return load


@pytest.fixture
def rows(table: Callable[..., DataFrame]) -> Callable[..., list[tuple[Any, ...]]]:
    """The rows of a store as sorted tuples."""

    def collect(store: str, **options: Any) -> list[tuple[Any, ...]]:
        return sorted((tuple(row) for row in table(store, **options).collect()), key=repr)

    return collect
