"""A store filled from a DataFrame: all rows or none, each batch once, beside nobody."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from logstate import Materialized, SessionWindows, StreamsBuilder, TumblingWindows
from logstate.admin.backfill import backfill
from logstate.admin.handover import check_group_is_empty
from logstate.app.application import Application
from logstate.contracts.clients import NewTopic, run_steps
from logstate.contracts.errors import (
    ConfigError,
    MembersLiveError,
    SerdeError,
    StoreUnavailableError,
)
from logstate.contracts.records import ProducedRecord
from logstate.kafka.cluster import KafkaCluster
from logstate.topology.plan.plan import Topology
from tests.markers import are_written
from tests.patience import until

LONG = timedelta(days=300)


class Profile(msgspec.Struct, frozen=True):
    name: str
    visits: int
    tags: list[str] = []
    rank: float | None = None


class Shop:
    """An application with stores of every kind that can be filled, and nothing in them."""

    def __init__(self, bootstrap: str, name: str, path: Path, partitions: int = 3) -> None:
        self.bootstrap, self.name, self.path = bootstrap, name, path
        self.cluster = KafkaCluster(bootstrap)
        self.admin = self.cluster.admin()
        inputs = [NewTopic(f"{name}.{one}", partitions, 1, {}) for one in ("clicks", "profiles")]
        self.admin.create_topics(inputs)

    def topology(self) -> Topology:
        builder = StreamsBuilder()
        clicks = builder.stream(f"{self.name}.clicks", key=str, value=str)
        by_user = clicks.group_by_key()
        by_user.count(store="counts")
        windows = TumblingWindows(size=timedelta(seconds=10))
        by_user.windowed_by(windows).count(store=Materialized("windows", retention=LONG))
        sessions = SessionWindows(gap=timedelta(seconds=1))
        by_user.windowed_by(sessions).count(store=Materialized("sessions", retention=LONG))
        builder.table(
            f"{self.name}.profiles", key=str, value=Profile, store=Materialized("profiles")
        )
        clicks.to_table(store=Materialized("pages", history=LONG))
        return builder.build()

    def app(self) -> Application:
        return Application(
            self.topology(),
            application_id=self.name,
            bootstrap=self.bootstrap,
            state_dir=self.path / "state",
            commit_interval=timedelta(milliseconds=20),
        )

    def click(self, user: str, page: str, time_ms: int) -> None:
        producer = self.cluster.plain_producer()
        record = ProducedRecord(f"{self.name}.clicks", None, user.encode(), page.encode(), time_ms)
        producer.produce([record])
        producer.flush()
        producer.close()

    def run(self, user: str = "ada", count: int = 1) -> None:
        """Until a user's count is so much."""
        with self.app() as app:
            until(lambda: counted(app, user) == count)
        until(lambda: self.has_ended(app), "the application has not left its group")

    def has_ended(self, app: Application) -> bool:
        """Whether the brokers know that it has left, and its last commit is there for readers."""
        try:
            run_steps(check_group_is_empty(self.admin, self.name))
        except MembersLiveError:
            return False
        return are_written(self.bootstrap, app.transactional_id)

    def options(self, store: str) -> dict[str, str]:
        return {"bootstrap": self.bootstrap, "application": self.name, "store": store}


def counted(app: Application, user: str) -> int:
    try:
        row = app.store("counts").get(user)
    except StoreUnavailableError:
        return -1
    return 0 if row is None else int(row.value)


def is_readable(app: Application) -> bool:
    try:
        for store in ("counts", "windows", "profiles"):
            list(app.store(store).all())
        return app.store("pages").get("bob", 310_000) is not None
    except StoreUnavailableError:
        return False


@pytest.fixture
def shop(bootstrap: str, unique: Callable[[str], str], tmp_path: Path) -> Shop:
    found = Shop(bootstrap, unique("filled"), tmp_path)
    found.click("ada", "home", 100_000)
    found.run()
    return found


def write(frame: DataFrame, shop: Shop, store: str, **options: str) -> None:
    writer = frame.write.format("logstate").options(**shop.options(store), **options)
    writer.mode("append").save()


def read(spark: SparkSession, shop: Shop, store: str) -> DataFrame:
    return spark.read.format("logstate").options(**shop.options(store)).load()


def rows(frame: DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in frame.select(*columns).collect())


def test_a_store_holds_what_the_frame_held_and_the_application_goes_on(
    spark: SparkSession, shop: Shop, tmp_path: Path
) -> None:
    frame = spark.range(3_000).select(
        f.concat(f.lit("user-"), "id").alias("key"), (f.col("id") * 7).alias("value")
    )
    frame.write.parquet(str(tmp_path / "counts.parquet"))
    from_file = spark.read.parquet(str(tmp_path / "counts.parquet"))

    write(from_file, shop, "counts", batchId="first")

    assert rows(read(spark, shop, "counts").where("key != 'ada'"), "key", "value") == rows(
        from_file, "key", "value"
    )
    shop.click("user-5", "home", 200_000)
    shop.run("user-5", 36)
    with shop.app() as app:
        until(lambda: counted(app, "user-7") == 49)
        assert counted(app, "ada") == 1


def test_a_batch_that_has_come_is_not_written_again(spark: SparkSession, shop: Shop) -> None:
    frame = spark.createDataFrame([("bob", 5)], "key string, value bigint")
    write(frame, shop, "counts", batchId="once")
    shop.click("bob", "home", 200_000)
    shop.run("bob", 6)

    write(frame, shop, "counts", batchId="once")

    assert ("bob", 6) in rows(read(spark, shop, "counts"), "key", "value")


def test_windows_sessions_versions_and_structs_come_back_as_they_went(
    spark: SparkSession, shop: Shop
) -> None:
    at = "to_timestamp('1970-01-01 00:{}')"
    window = spark.sql(
        f"select 'bob' key, 3L value, {at.format('05:00')} window_start,"
        f" {at.format('05:10')} window_end"
    )
    session = spark.sql(
        f"select 'bob' key, 4L value, {at.format('05:00')} window_start,"
        f" {at.format('05:07')} window_end"
    )
    versions = spark.sql(
        f"select 'bob' key, 'old' value, {at.format('05:00')} valid_from union all"
        f" select 'bob', 'new', {at.format('06:00')}"
    )
    profile = spark.sql(
        "select 'bob' key, named_struct('name', 'Bob', 'visits', 2L, 'tags', array('a'), 'rank',"
        " cast(null as double)) value"
    )
    for store, frame in (("windows", window), ("sessions", session), ("pages", versions)):
        write(frame, shop, store)
    write(profile, shop, "profiles")

    for store, frame in (("windows", window), ("sessions", session)):
        columns = ("key", "value", "window_start", "window_end")
        found = read(spark, shop, store).where("key = 'bob'")
        assert rows(found, *columns) == rows(frame, *columns)
    found = read(spark, shop, "pages").where("key = 'bob'")
    assert [row[:2] for row in rows(found, "valid_from", "value")] == [
        row[:2] for row in rows(versions, "valid_from", "value")
    ]
    assert rows(read(spark, shop, "profiles"), "key", "value") == rows(profile, "key", "value")
    with shop.app() as app:
        until(lambda: is_readable(app))
        assert app.store("profiles").get("bob").value == Profile("Bob", 2, ["a"])
        assert app.store("pages").get("bob", 310_000).value == "old"
        assert [(w.start_ms, row.value) for w, row in app.store("windows").all() if w.key == "bob"]


def test_writing_is_refused_beside_a_live_member(spark: SparkSession, shop: Shop) -> None:
    frame = spark.createDataFrame([("bob", 5)], "key string, value bigint")
    with shop.app() as app:
        until(lambda: counted(app, "ada") == 1)
        with pytest.raises(Exception, match="has members"):
            write(frame, shop, "counts")

    assert rows(read(spark, shop, "counts"), "key", "value") == [("ada", 1)]


def test_a_row_that_does_not_fit_leaves_the_store_as_it_was(
    spark: SparkSession, shop: Shop
) -> None:
    frame = spark.sql("select cast(id as string) key, id value from range(100)")
    broken = frame.union(spark.sql("select cast(null as string), 1L"))
    with pytest.raises(Exception, match="its key is null"):
        write(broken, shop, "counts")
    with pytest.raises(Exception, match="'value' is missing"):
        write(frame.drop("value"), shop, "counts")

    assert rows(read(spark, shop, "counts"), "key", "value") == [("ada", 1)]
    assert not [t for t in shop.admin.topic_names() if t.startswith(f"{shop.name}-backfill-")]


_KILLED = """
import os, signal, sys
from logstate.admin.backfill import backfill
bootstrap, name, step = sys.argv[1:]
def told(now):
    if now == step:
        os.kill(os.getpid(), signal.SIGKILL)
backfill(({"key": f"user-{n}", "value": n} for n in range(5000)), application_id=name,
    store="counts", bootstrap=bootstrap, batch_id="killed", on_step=told)
"""


def test_a_fill_that_is_killed_leaves_all_or_nothing_and_is_done_once(
    spark: SparkSession, shop: Shop
) -> None:
    def attempt(step: str) -> int:
        command = [sys.executable, "-c", _KILLED, shop.bootstrap, shop.name, step]
        return subprocess.run(command, timeout=300, check=False).returncode

    for step in ("write the rows", "hand over", "commit"):
        assert attempt(step) == -signal.SIGKILL
        assert rows(read(spark, shop, "counts"), "key", "value") == [("ada", 1)]
    assert attempt("done") == -signal.SIGKILL
    assert read(spark, shop, "counts").count() == 5_001

    other = [{"key": f"user-{n}", "value": 0} for n in range(5_000)]
    again = backfill(
        other, application_id=shop.name, store="counts", bootstrap=shop.bootstrap, batch_id="killed"
    )
    assert again.is_repeat
    with shop.app() as app:
        until(lambda: counted(app, "user-4999") == 4999)


def test_rows_that_an_iterable_gives_are_checked_against_the_store(shop: Shop) -> None:
    def fill(rows: Any, store: str = "counts") -> None:
        backfill(rows, application_id=shop.name, store=store, bootstrap=shop.bootstrap)

    with pytest.raises(SerdeError, match="does not fit store 'counts'"):
        fill([{"key": "bob", "value": "many"}])
    with pytest.raises(ConfigError, match="no store 'count'"):
        fill([], "count")
    with pytest.raises(ConfigError, match="'window_start' is missing"):
        fill([{"key": "bob", "value": 1}], "windows")
    with shop.app() as app:
        until(lambda: counted(app, "ada") == 1)
        with pytest.raises(MembersLiveError, match=shop.name):
            fill([{"key": "bob", "value": 1}])
