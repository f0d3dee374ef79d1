"""Spark 4.0 and 4.1 read tables and streams; what they cannot do is refused in a sentence."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from pyspark.sql import types
from pyspark.sql.conversion import ArrowTableToRowsConversion

from logstate.admin.spark_sink import rows_of

# What these versions lack, for a process of its own: modules cannot be imported anew in this one.
_OLDER = """
import sys
import pyspark.sql.datasource
sys.modules["pyspark.sql.streaming.datasource"] = None
from logstate.changelog.spark import LogstateDataSource, admission, change_reader
from logstate.changelog.reading.changelog_source import ChangelogSource
from logstate.changelog.reading.options import SourceOptions
"""


def run_on_older(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", _OLDER + code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_spark_without_read_limits_asks_for_an_offset_and_says_nothing() -> None:
    told = run_on_older(
        "source = ChangelogSource('t', 'i', 1, {})\n"
        "reader = change_reader.ChangeReader(SourceOptions('b'), source)\n"
        "class Bounds: stable_end = 7\n"
        "reader._bounds = lambda: {0: Bounds}\n"
        "print(admission.HAS_READ_LIMITS, reader.latestOffset())"
    )

    assert told == "False {'t': {'0': 7}, 'topic_ids': {'t': 'i'}}"


def test_a_limit_is_refused_by_a_spark_that_has_none() -> None:
    told = run_on_older(
        "source = LogstateDataSource({'bootstrap': 'b', 'topic': 't', 'readChangeFeed': 'true',"
        " 'maxOffsetsPerTrigger': '1'})\n"
        "try: source.streamReader(None).latestOffset()\n"
        "except Exception as error: print(type(error).__name__, error)"
    )

    assert told.startswith("ConfigError maxOffsetsPerTrigger needs Spark 4.2")


@pytest.fixture
def far_from_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A process whose clock shows another time than that of UTC."""
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def test_points_in_time_that_are_written_row_by_row_are_not_moved_by_the_zone_of_the_executor(
    far_from_utc: None,
) -> None:
    noon = datetime(2026, 7, 1, 12, tzinfo=UTC)
    nested = types.StructType([types.StructField("at", types.TimestampType())])
    schema = types.StructType(
        [
            types.StructField("window_start", types.TimestampType()),
            types.StructField("local", types.TimestampNTZType()),
            types.StructField("value", types.ArrayType(nested)),
            types.StructField("by_name", types.MapType(types.StringType(), nested)),
        ]
    )
    table = pa.table(
        {
            "window_start": pa.array([noon], pa.timestamp("us", "UTC")),
            "local": pa.array([noon.replace(tzinfo=None)], pa.timestamp("us")),
            "value": [[{"at": noon}]],
            "by_name": pa.array(
                [[("a", {"at": noon}), ("b", None)]],
                pa.map_(pa.string(), pa.struct([("at", pa.timestamp("us", "UTC"))])),
            ),
        }
    )
    (row,) = ArrowTableToRowsConversion.convert(table, schema)  # as Spark before 4.1 has them

    assert row.window_start == noon.replace(hour=8, tzinfo=None)
    assert list(rows_of(row, schema)) == [
        {
            "window_start": noon,
            "local": noon.replace(tzinfo=None),
            "value": [{"at": noon}],
            "by_name": {"a": {"at": noon}, "b": None},
        }
    ]
