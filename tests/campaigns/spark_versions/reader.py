"""What a user does with stores in Spark, in an environment that has that Spark: a program.

It knows nothing of the tests: it imports what is installed beside it, does one thing after another
and prints what it found, a line ``@cell`` of JSON for each. What was right to find is compared
elsewhere. It prints ``@more`` and waits for a line where more has to be written to the stores.

    python reader.py classic|connect '{"bootstrap": …, "application": …, "backfilled": …}' [CHECK …]
"""

from __future__ import annotations

import io
import json
import socket
import sys
import tempfile
from collections.abc import Callable, Iterable
from contextlib import redirect_stdout
from functools import cached_property
from pathlib import Path
from typing import Any

from late_python import again_where_python_was_late, run_available
from plain_rows import NotDoneError, rows, told_first
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from logstate.changelog.spark import (
    LogstateDataSource,
    bucketed_view,
    latest_cut,
    merge_into,
    parquet_view,
    session,
    tables,
    temp_views,
)
from logstate.changelog.spark.kafka_sql import kafka_table
from logstate.contracts.errors import LogstateError

FEED = ("change_type", "key", "value", "_partition")


class Reader:
    """One session, and the stores of one application."""

    def __init__(self, mode: str, told: dict[str, str]) -> None:
        self.folder = Path(tempfile.mkdtemp(dir=Path.cwd()))
        self.told = told
        self.spark = started(mode, self.folder)
        self.feed_checkpoint = str(self.folder / "feed-checkpoint")

    @cached_property
    def early_cut(self) -> str:
        """A cut of before more was written."""
        return latest_cut(self.told["bootstrap"], self.told["application"])

    def options(self, store: str, **options: str) -> dict[str, str]:
        given = {name: self.told[name] for name in ("bootstrap", "application")}
        return {**given, "store": store, "stallSeconds": "150", **options}

    def table(self, store: str, **options: str) -> Any:
        return self.spark.read.format("logstate").options(**self.options(store, **options)).load()

    def stream(self, store: str, **options: str) -> Any:
        given = self.options(store, readChangeFeed="true", **options)
        return self.spark.readStream.format("logstate").options(**given).load()

    def batches(self, stream: Any, *columns: str, checkpoint: str | None = None) -> list[Any]:
        """The rows of each micro-batch of a query over what is there now."""
        target = Path(tempfile.mkdtemp(dir=self.folder))
        where = checkpoint or str(target / "checkpoint")
        writer = stream.writeStream.foreachBatch(into_folders(target, columns))
        run_available(writer.option("checkpointLocation", where))
        return self.rows_of_batches(target)

    def rows_of_batches(self, target: Path) -> list[Any]:
        found = sorted(target.glob("batch-*"))
        return [rows(self.spark.read.parquet(str(one))) for one in found]


def started(mode: str, folder: Path) -> SparkSession:
    builder = SparkSession.builder.appName("spark-versions")
    settings = {
        **of_mode(mode),
        "spark.driver.memory": "1g",
        "spark.sql.python.filterPushdown.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": "false",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def of_mode(mode: str) -> dict[str, str]:
    """Of Connect: a server in this process, on a port that nobody else has."""
    if mode != "connect":
        return {"spark.master": "local[2]"}
    from pyspark.sql.connect.client import DefaultChannelBuilder

    with socket.create_server(("localhost", 0)) as free:
        port = free.getsockname()[1]
    # Spark binds to what is configured, and goes to its default whatever that is.
    DefaultChannelBuilder.default_port = staticmethod(lambda: port)
    return {"spark.remote": "local[2]", "spark.connect.grpc.binding.port": str(port)}


def into_folders(target: Path, columns: Iterable[str]) -> Callable[[Any, int], None]:
    """A function for ``foreachBatch`` that works where it runs in another process, too."""
    path, chosen = str(target), list(columns)

    def take(batch: Any, batch_id: int) -> None:
        chosen_rows = batch.select(*chosen) if chosen else batch
        chosen_rows.write.mode("overwrite").parquet(f"{path}/batch-{batch_id:04d}")

    return take


def format_by_name(reader: Reader) -> Any:
    try:
        return rows(reader.table("spend").limit(0))
    except PySparkException:
        reader.spark.dataSource.register(LogstateDataSource)
        raise


def key_value(reader: Reader) -> Any:
    return rows(reader.table("spend"))


def window(reader: Reader) -> Any:
    return rows(reader.table("hourly"))


def session_windows(reader: Reader) -> Any:
    return rows(reader.table("visits"))


def versions(reader: Reader) -> Any:
    return rows(reader.table("prices"))


def types(reader: Reader) -> Any:
    table = reader.table("wide")
    return [table.schema["value"].dataType.simpleString(), *rows(table)]


def meta_columns(reader: Reader) -> Any:
    table = reader.table("spend", includeMeta="true", includeTombstones="true")
    columns = ("key", "value", "_partition", "_offset", "_headers", "_is_tombstone")
    return rows(table.select(*columns))


def key_filter(reader: Reader) -> Any:
    table = reader.table("spend")
    return [rows(table.where(one)) for one in ("key = 'é'", "key in ('a', 'c') and value > 3")]


def time_filter(reader: Reader) -> Any:
    """In a process whose own time zone is another one than the session's."""
    table = reader.table("hourly")
    second = f"window_start > timestamp'{reader.told['first_window']}'"
    return [
        rows(table.where(second).select("key", "value")),
        rows(table.where(f"not ({second})").select("key", "value")),
    ]


def filter_handed_down(reader: Reader) -> Any:
    said = io.StringIO()
    with redirect_stdout(said):
        reader.table("spend").where("key = 'a'").explain("formatted")
    pushed = [line for line in said.getvalue().splitlines() if "Pushed" in line and "key" in line]
    if not pushed:
        raise NotDoneError("Spark hands no filters to Python sources")
    return "pushed"


def changes_as_a_table(reader: Reader) -> Any:
    return rows(reader.table("spend", readChangeFeed="true").select(*FEED))


def tables_at_one_cut(reader: Reader) -> Any:
    found = tables(
        reader.told["application"], ["spend", "hourly"], bootstrap=reader.told["bootstrap"]
    )
    return rows(found["spend"].join(found["hourly"], "key").select("key", "window_start"))


def own_session(reader: Reader) -> Any:
    own = session()
    names = temp_views(reader.told["application"], ["spend"], bootstrap=reader.told["bootstrap"])
    return [names, rows(own.sql("select sum(value) from spend"))]


def metadata(reader: Reader) -> Any:
    def load(table: str, *columns: str) -> Any:
        given = {name: reader.told[name] for name in ("bootstrap", "application")}
        frame = session().read.format("logstate-metadata").options(**given, table=table).load()
        return rows(frame.select(*columns))

    return [
        load("applications", "stores"),
        load("stores", "store", "kind", "window_size_ms"),
        load("schemas", "store", "column"),
        load("cuts", "cut", "store", "partition", "position"),
        load("lag", "topic", "partition", "lag"),
    ]


def error_as_a_sentence(reader: Reader) -> Any:
    return [
        told_first(lambda: reader.table("nobody").collect(), "nobody"),
        told_first(lambda: reader.table("spend", cut='{"t": {"0": 1}}').collect(), "cut"),
    ]


def missing_jars_named(reader: Reader) -> Any:
    where = {name: reader.told[name] for name in ("bootstrap", "application")}
    read = reader.table("spend", readChangeFeed="true").drop("_timestamp")
    columns = "key string, value bigint, _partition int, _offset bigint"
    reader.spark.sql(f"create table target ({columns}) using parquet")
    return [
        told_first(
            lambda: kafka_table(reader.spark, store="spend", **where), "this session cannot read"
        ),
        told_first(lambda: merge_into("target")(read, 0), "cannot be merged into target"),
    ]


def stream_available_now(reader: Reader) -> Any:
    return reader.batches(reader.stream("spend"), *FEED, checkpoint=reader.feed_checkpoint)


def stream_running(reader: Reader) -> Any:
    target = Path(tempfile.mkdtemp(dir=reader.folder))
    writer = reader.stream("spend").writeStream.foreachBatch(into_folders(target, FEED))
    writer = writer.option("checkpointLocation", str(target / "checkpoint"))

    def run() -> Any:
        query = writer.start()
        query.processAllAvailable()
        return query

    query = again_where_python_was_late(run)
    print("@more", flush=True)
    sys.stdin.readline()
    query.processAllAvailable()
    query.stop()
    first, *later = reader.rows_of_batches(target)
    # Each partition has a transaction of its own, and a batch may come in between.
    return [first, sorted((row for batch in later for row in batch), key=json.dumps)]


def stream_continued(reader: Reader) -> Any:
    return reader.batches(reader.stream("spend"), *FEED, checkpoint=reader.feed_checkpoint)


def stream_in_sparks_words(reader: Reader) -> Any:
    stream = reader.stream("spend", changeFeedFormat="spark", includePreimages="true")
    return reader.batches(stream, "_change_type", "key", "value", "_partition")


def stream_into_files(reader: Reader) -> Any:
    target = str(reader.folder / "files")
    writer = reader.stream("hourly").writeStream.format("parquet").option("path", target)
    run_available(writer.option("checkpointLocation", str(reader.folder / "files-checkpoint")))
    return rows(reader.spark.read.parquet(target).select("key", "window_start", "value"))


def limit_of_offsets(reader: Reader) -> Any:
    return bounded(reader, maxOffsetsPerTrigger="2")


def limit_of_records(reader: Reader) -> Any:
    return bounded(reader, maxRecordsPerTrigger="3")


def bounded(reader: Reader, **limit: str) -> Any:
    """The sizes of the batches, and all that was in them."""
    found = reader.batches(reader.stream("spend", **limit), *FEED)
    everything = sorted((row for batch in found for row in batch), key=json.dumps)
    return [max(map(len, found)), len(found) > 1, everything]


def stream_error_as_a_sentence(reader: Reader) -> Any:
    def run() -> None:
        stream = reader.spark.readStream.format("logstate").options(**reader.options("spend"))
        reader.batches(stream.load())

    return told_first(run, "readChangeFeed")


def views(reader: Reader) -> Any:
    found = []
    made = (parquet_view(reader.folder / "view"), bucketed_view(reader.folder / "buckets"))
    for n, view in enumerate(made):
        writer = reader.stream("spend").writeStream.foreachBatch(view)
        run_available(writer.option("checkpointLocation", str(reader.folder / f"view-{n}")))
        found.append(rows(view.read(reader.spark).select("key", "value")))
    return found


def newest_commit(reader: Reader) -> Any:
    return rows(reader.table("spend"))


def cut_given_back(reader: Reader) -> Any:
    return rows(reader.table("spend", cut=reader.early_cut))


def named_cut(reader: Reader) -> Any:
    return rows(reader.table("spend", cut="before"))


def backfill(reader: Reader) -> Any:
    return [written(reader, *one) for one in _FILLED.items() for _ in range(2)]


_FILLED = {
    "counts": "select concat('user-', id) key, id * 7 value from range(50)",
    "profiles": """
        select 'bob' key,
            named_struct('name', 'B', 'visits', 2L, 'tags', array('a'), 'rank', 0.5D) value
    """,
    "windows": """
        select 'bob' key, 3L value, timestamp'1970-01-01 00:05:00' window_start,
            timestamp'1970-01-01 00:05:10' window_end
    """,
}


def written(reader: Reader, store: str, query: str) -> Any:
    """What a store has beside what it had, after a frame was written; twice is once."""
    where = reader.options(store) | {"application": reader.told["backfilled"]}
    where.pop("stallSeconds")
    frame = reader.spark.sql(query)
    frame.write.format("logstate").options(**where, batchId=store).mode("append").save()
    found = reader.spark.read.format("logstate").options(**where).load().select(*frame.columns)
    return rows(found.where("key <> 'ada'")) == rows(frame)


CHECKS: tuple[Callable[[Reader], Any], ...] = (
    format_by_name,
    key_value,
    window,
    session_windows,
    versions,
    types,
    meta_columns,
    key_filter,
    time_filter,
    filter_handed_down,
    changes_as_a_table,
    tables_at_one_cut,
    own_session,
    metadata,
    error_as_a_sentence,
    missing_jars_named,
    stream_available_now,
    stream_running,
    newest_commit,
    cut_given_back,
    named_cut,
    stream_continued,
    stream_in_sparks_words,
    stream_into_files,
    limit_of_offsets,
    limit_of_records,
    stream_error_as_a_sentence,
    views,
    backfill,
)


def cell(check: Callable[[Reader], Any], reader: Reader) -> dict[str, Any]:
    try:
        return {"found": check(reader)}
    except (PySparkException, LogstateError, NotDoneError, TimeoutError) as error:
        return {"refused": str(error)}
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what came out
        return {"refused": f"{type(error).__name__}: {error}"}


def main(mode: str, told: str, *names: str) -> None:
    reader = Reader(mode, json.loads(told))
    if names and format_by_name.__name__ not in names:
        reader.spark.dataSource.register(LogstateDataSource)
    _ = reader.early_cut
    for check in CHECKS:
        if not names or check.__name__ in names:
            found = {"check": check.__name__, **cell(check, reader)}
            print(f"@cell {json.dumps(found)}", flush=True)
    reader.spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
