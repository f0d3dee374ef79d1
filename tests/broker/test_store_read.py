"""``logstate.read`` and ``logstate export``: state as Arrow, from a real broker, without Spark."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import duckdb
import pandas
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

import logstate
from logstate import (
    Application,
    JoinWindows,
    Materialized,
    SessionWindows,
    StreamsBuilder,
    Topology,
    TumblingWindows,
    until_window_closes,
)
from logstate.cli.main import app as command
from logstate.contracts.clients import NewTopic
from logstate.contracts.errors import ConfigError, LogstateError, TopicError
from logstate.contracts.records import ProducedRecord
from logstate.kafka.cluster import KafkaCluster
from tests.patience import until

SECOND = timedelta(seconds=1)
#: of each partition of the two inputs: key, value, time in ms
CLICKS = [("ada", 1, 1_000), ("ada", 2, 1_500), ("bob", 3, 2_000), ("ada", 4, 9_000)]
RATES = [("ada", 10, 1_000), ("bob", 20, 1_000), ("ada", 30, 3_000)]


def topology(name: str) -> Topology:
    builder = StreamsBuilder()
    clicks = builder.stream(f"{name}.clicks", key=str, value=int)
    rates = builder.table(
        f"{name}.rates", key=str, value=int, store=Materialized("rates", history=10 * SECOND)
    )
    by_key = clicks.group_by_key()
    by_key.count(store="counts")
    windows = by_key.windowed_by(TumblingWindows(size=SECOND, grace=60 * SECOND))
    windows.reduce(lambda old, new: old + new, store="per_second")
    sessions = by_key.windowed_by(SessionWindows(gap=SECOND, grace=60 * SECOND))
    sessions.count(store="sessions")
    held = by_key.windowed_by(TumblingWindows(size=SECOND, grace=SECOND)).count(store="closing")
    held.suppress(until_window_closes(), name="held").to_stream().foreach(lambda _key, _count: None)
    pairs = clicks.join(
        rates.to_stream(),
        lambda click, rate: click * rate,
        windows=JoinWindows(before=SECOND, after=SECOND, grace=60 * SECOND),
        name="pairs",
        left_value=int,
        right_value=int,
    )
    pairs.foreach(lambda _key, _value: None)
    return builder.build()


class Counter:
    """An application with a store of each kind, and what it was given."""

    def __init__(self, bootstrap: str, name: str, path: Path) -> None:
        self.bootstrap, self.name, self.path = bootstrap, name, path
        self._cluster = KafkaCluster(bootstrap)
        admin = self._cluster.admin()
        admin.create_topics([NewTopic(f"{name}.{n}", 2, 1, {}) for n in ("clicks", "rates")])
        admin.close()
        self.send("rates", 0, RATES)
        self.send("clicks", 0, CLICKS)
        self.send("clicks", 1, [("eve", 1, 1_000)])

    def send(self, topic: str, partition: int, records: list[tuple[str, int, int]]) -> None:
        producer = self._cluster.plain_producer()
        producer.produce(
            [
                ProducedRecord(
                    f"{self.name}.{topic}", partition, key.encode(), value.to_bytes(8), time
                )
                for key, value, time in records
            ]
        )
        producer.flush()
        producer.close()

    @contextmanager
    def runs(self) -> Iterator[Application]:
        app = Application(
            topology(self.name),
            application_id=self.name,
            bootstrap=self.bootstrap,
            state_dir=self.path / "state",
            commit_interval=timedelta(milliseconds=10),
        )
        with app:
            yield app

    def read(self, store: str, **options: Any) -> Any:
        return logstate.read(self.name, store, bootstrap=self.bootstrap, **options)

    def rows(self, store: str, **options: Any) -> list[tuple[Any, ...]]:
        """Sorted, with times in ms."""
        found = self.read(store, times="ms", **options).to_arrow().to_pylist()
        return sorted((tuple(row.values()) for row in found), key=repr)

    def export(self, store: str, to: Path, *arguments: str) -> Result:
        place = [
            store,
            "--application-id",
            self.name,
            "--to",
            str(to),
            "--bootstrap",
            self.bootstrap,
        ]
        return CliRunner().invoke(command, ["export", *place, *arguments])


@pytest.fixture(scope="module")
def counter(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Counter:
    """After all that it was given is counted and committed."""
    path = tmp_path_factory.mktemp("store-read")
    made = Counter(bootstrap, f"store-read-{uuid.uuid4().hex[:10]}", path)
    with made.runs():
        until(lambda: sum(row[1] for row in rows_or_none(made, "counts")) == 5)
        until(lambda: len(rows_or_none(made, "rates")) == 3)
    return made


def rows_or_none(counter: Counter, store: str) -> list[tuple[Any, ...]]:
    try:
        return counter.rows(store)
    except LogstateError:  # nothing is committed yet, or nobody answers in time
        return []


EXPECTED: dict[str, list[tuple[Any, ...]]] = {
    "counts": [("ada", 3), ("bob", 1), ("eve", 1)],
    "per_second": [
        ("ada", 1_000, 2_000, 3),
        ("ada", 9_000, 10_000, 4),
        ("bob", 2_000, 3_000, 3),
        ("eve", 1_000, 2_000, 1),
    ],
    "sessions": [
        ("ada", 1_000, 1_500, 2),
        ("ada", 9_000, 9_000, 1),
        ("bob", 2_000, 2_000, 1),
        ("eve", 1_000, 1_000, 1),
    ],
    "rates": [("ada", 10, 1_000, 3_000), ("ada", 30, 3_000, None), ("bob", 20, 1_000, None)],
}


@pytest.mark.parametrize("store", EXPECTED)
def test_a_store_of_each_kind_reads_as_the_application_holds_it(
    counter: Counter, store: str
) -> None:
    assert counter.rows(store) == EXPECTED[store]


def test_the_stores_of_a_join_of_streams_keep_every_row(counter: Counter) -> None:
    stores = json.loads(
        CliRunner()
        .invoke(
            command,
            [
                "stores",
                "--application-id",
                counter.name,
                "--bootstrap",
                counter.bootstrap,
                "--json",
            ],
        )
        .stdout
    )["stores"]
    (left,) = [one for one in stores if one.endswith("this-join-store")]

    schema = counter.read(left, times="ms").schema
    assert schema.names == ["key", "window_start", "window_end", "_sequence", "value"]
    assert [(row[0], row[1], row[-1]) for row in counter.rows(left)] == sorted(
        (key, time, value) for key, value, time in [*CLICKS, ("eve", 1, 1_000)]
    )


def test_pandas_polars_duckdb_and_pyarrow_take_it_as_it_is(counter: Counter) -> None:
    counts = counter.read("counts")

    assert pandas.DataFrame.from_arrow(counts)["value"].sum() == 5
    assert polars.DataFrame(counts).filter(key="ada").item(0, "value") == 3
    assert duckdb.sql("select sum(value) from counts").fetchall() == [(5,)]
    assert pa.table(counts).num_rows == 3


def test_times_are_timestamps_unless_integers_are_wanted(counter: Counter) -> None:
    schema = counter.read("per_second").schema

    assert schema.field("window_start").type == pa.timestamp("us", tz="UTC")
    assert counter.read("per_second", times="ms").schema.field("window_end").type == pa.int64()


def test_only_the_keys_that_are_wanted_are_read(counter: Counter) -> None:
    assert counter.rows("counts", keys=["ada", "nobody"]) == [("ada", 3)]
    assert counter.rows("per_second", keys=["bob"]) == [("bob", 2_000, 3_000, 3)]
    with pytest.raises(ConfigError, match="not a string like the store's keys"):
        counter.read("counts", keys=[7])


def test_meta_columns_tell_where_a_row_came_from(counter: Counter) -> None:
    (row,) = counter.read("counts", keys=["eve"], include_meta=True).to_arrow().to_pylist()

    assert (row["_partition"], row["_is_tombstone"]) == (1, False)
    assert row["_timestamp"].timestamp() == 1


def test_a_table_stays_at_its_cut_and_a_cut_is_given_back(
    bootstrap: str, unique: Callable[[str], str], tmp_path: Path
) -> None:
    counter = Counter(bootstrap, unique("cut"), tmp_path)
    with counter.runs():
        until(lambda: sum(row[1] for row in rows_or_none(counter, "counts")) == 5)
        before = counter.read("counts", times="ms")
        both = logstate.latest_cut(bootstrap, counter.name)
        counter.send("clicks", 0, [("bob", 5, 2_100)])
        until(lambda: sum(row[1] for row in rows_or_none(counter, "counts")) == 6)

    assert sorted(before.to_arrow().to_pydict()["value"]) == [1, 1, 3]
    assert counter.rows("counts", cut=before.cut) == EXPECTED["counts"]
    assert counter.rows("counts", cut=both) == EXPECTED["counts"]
    assert counter.rows("per_second", cut=both) == EXPECTED["per_second"]
    assert ("bob", 2) in counter.rows("counts")


def test_export_writes_one_file_that_tells_its_cut(counter: Counter, tmp_path: Path) -> None:
    to = tmp_path / "counts.parquet"

    answer = counter.export("counts", to, "--json")

    assert answer.exit_code == 0, answer.output
    told = json.loads(answer.stdout)
    assert (told["rows"], told["files"]) == (3, [{"path": str(to), "rows": 3}])
    assert sorted(pq.read_table(to).to_pydict()["value"]) == [1, 1, 3]
    assert pq.read_schema(to).metadata[b"logstate.cut"].decode() == told["cut"]
    assert counter.rows("counts", cut=told["cut"]) == EXPECTED["counts"]
    assert [path.name for path in tmp_path.iterdir()] == ["counts.parquet"]


def test_export_into_a_directory_writes_a_file_a_partition_and_leaves_the_rest(
    counter: Counter, tmp_path: Path
) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "part-00007.parquet").write_text("of an earlier export")

    answers = [counter.export("counts", tmp_path) for _ in range(2)]

    assert [answer.exit_code for answer in answers] == [0, 0], answers[0].output
    assert answers[0].stdout == f"3 rows of 'counts' in {tmp_path}\n"
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["notes.txt", "part-00000.parquet", "part-00001.parquet"]
    assert polars.read_parquet(tmp_path / "part-*.parquet").height == 3


def test_an_export_that_fails_leaves_what_was_there(counter: Counter, tmp_path: Path) -> None:
    to = tmp_path / "counts.parquet"
    counter.export("counts", to)
    cut = json.loads(counter.read("counts").cut)
    (topic,) = cut["positions"]
    cut["positions"][topic]["1"] += 1_000

    answer = counter.export("counts", to, "--cut", json.dumps(cut))

    assert answer.exit_code == 1
    assert "the log ends at" in str(answer.exception)
    assert [path.name for path in tmp_path.iterdir()] == ["counts.parquet"]
    assert pq.read_table(to).num_rows == 3


def test_an_export_needs_a_place(counter: Counter, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not exist"):
        raise counter.export("counts", tmp_path / "gone" / "a.parquet").exception  # type: ignore[misc]


def test_an_export_to_a_place_that_cannot_be_written_to_names_it(
    counter: Counter, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    for place in (Path("/proc/counts.parquet"), Path("/dev/null"), tmp_path / "file" / "folder"):
        answer = counter.export("counts", place)
        assert isinstance(answer.exception, ConfigError)
        assert "the rows cannot be written to " in str(answer.exception)


def test_an_unknown_store_or_application_is_said_so(counter: Counter) -> None:
    with pytest.raises(ConfigError, match=r"has no store 'count'; it has .*'counts'"):
        counter.read("count")
    with pytest.raises(TopicError, match="Is the application id right"):
        logstate.read("nobody", "counts", bootstrap=counter.bootstrap)
