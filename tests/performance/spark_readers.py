"""``python -m tests.performance spark``: Spark reads a changelog by logstate and by its own source.

One session, the same log, the same columns out, in turns; each query writes all its columns into
Spark's ``noop`` sink. Four questions are asked of both: every record typed (scan), the newest of
each key typed (latest), every record as bytes (raw), one key (lookup; of logstate also through an
export). CPU time is that of Spark and its Python processes. A ratio is Spark's own by logstate's:
above 1, logstate is the faster one. Medians over the rounds, without the first, which warms up.

The last line is one JSON object. Exits with 1 if a table is not what it has to be, with 2 when
something is missing that cannot be installed from here.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import logstate
from logstate.changelog.reading.parquet_export import write_parquet
from logstate.changelog.spark import session
from logstate.contracts.errors import BrokerError, ConfigError
from logstate.local_broker.broker import LocalBroker
from tests.performance.jvm_peer import MissingToolError
from tests.performance.machine import process_cpu_s, process_tree
from tests.performance.parser import parser_of
from tests.performance.spark_connector import connector_jars
from tests.performance.spark_log import DDL, STORE, CustomerLog

Query = Callable[[], DataFrame]
_ARROW = """
import os, sys, time
os.sched_setaffinity(0, {{min(os.sched_getaffinity(0))}})
import logstate, pyarrow
table = logstate.read({application!r}, {store!r}, bootstrap={bootstrap!r})
started = time.perf_counter(), time.process_time()
rows = pyarrow.table(table).num_rows
print(rows, time.perf_counter() - started[0], time.process_time() - started[1])
"""


class Queries:
    """What is asked, of both sides."""

    def __init__(self, spark: SparkSession, log: CustomerLog, export: Path) -> None:
        self._spark, self._log, self._export = spark, log, export
        self._key = next(iter(log.newest))

    def ours(self) -> dict[str, Query]:
        """By logstate."""
        changes = {"readChangeFeed": "true"}
        return {
            "scan": lambda: self._store(**changes).select(
                "key", "value.*", "_partition", "_offset", "_timestamp"
            ),
            "latest": lambda: self._store().select("key", "value.*"),
            "raw": lambda: self._logstate(topic=self._log.topic, **changes).drop("change_type"),
            "lookup": lambda: self._store(pushKeyFilter="true").where(f.col("key") == self._key),
            "lookup_export": lambda: self._spark.read.parquet(str(self._export)).where(
                f.col("key") == self._key
            ),
        }

    def theirs(self) -> dict[str, Query]:
        """By Spark's own source."""
        return {
            "scan": lambda: (
                self._kafka()
                .select(
                    f.col("key").cast("string"),
                    f.from_json(f.col("value").cast("string"), DDL).alias("value"),
                    *("partition", "offset", "timestamp"),
                )
                .select("key", "value.*", "partition", "offset", "timestamp")
            ),
            "latest": lambda: self._newest().select("key", "value.*"),
            "raw": lambda: self._kafka().select("key", "value", "partition", "offset", "timestamp"),
            "lookup": lambda: self._newest(self._kafka().where(f.col("key") == self._key.encode())),
        }

    def check(self) -> bool:
        """Whether both tables are what was written."""
        sums = f.count("*").alias("rows"), f.sum("orders").alias("orders")
        tables = (self.ours()["latest"](), self.theirs()["latest"]())
        found = [table.agg(*sums).collect()[0].asDict() for table in tables]
        one = [
            [row["value"]["orders"] for row in side["lookup"]().collect()]
            for side in (self.ours(), self.theirs())
        ]
        expected = self._log.expected()
        return found == [expected] * 2 and one == [[self._log.newest[self._key]]] * 2

    def _logstate(self, **options: str) -> DataFrame:
        reader = self._spark.read.format("logstate").option("bootstrap", self._log.bootstrap)
        return reader.options(**options).load()

    def _store(self, **options: str) -> DataFrame:
        return self._logstate(application=self._log.application, store=STORE, **options)

    def _kafka(self) -> DataFrame:
        reader = self._spark.read.format("kafka").option("subscribe", self._log.topic)
        return reader.options(
            **{
                "kafka.bootstrap.servers": self._log.bootstrap,
                "kafka.isolation.level": "read_committed",
            }
        ).load()

    def _newest(self, records: DataFrame | None = None) -> DataFrame:
        records = self._kafka() if records is None else records
        newest = records.groupBy("key").agg(f.max_by("value", "offset").alias("value"))
        return newest.where(f.col("value").isNotNull()).select(
            f.col("key").cast("string"),
            f.from_json(f.col("value").cast("string"), DDL).alias("value"),
        )


def main(words: list[str]) -> int:
    """The command line."""
    parser = parser_of("python -m tests.performance spark", __doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3, help="that count; one more warms up")
    parser.add_argument("--bootstrap", help="a broker that runs; otherwise one is started")
    arguments = parser.parse_args(words)
    try:
        version, jars = connector_jars(pyspark.__version__)
        print(f"PySpark {pyspark.__version__}, connector {version}", flush=True)
        if arguments.bootstrap:
            return _measure(arguments, arguments.bootstrap, None, version, jars)
        with LocalBroker.start(heap="1g") as broker:
            return _measure(arguments, broker.bootstrap, broker.pid, version, jars)
    except (MissingToolError, ConfigError, BrokerError) as error:
        print(error, file=sys.stderr)
        return 2


def _measure(
    arguments: Any, bootstrap: str, broker: int | None, version: str, jars: list[Path]
) -> int:
    application = f"spark-readers-{time.time_ns()}"
    log = CustomerLog(
        bootstrap,
        application,
        records=arguments.records,
        keys=arguments.keys,
        partitions=arguments.partitions,
    )
    print(f"{log.records:,} records of {len(log.newest):,} keys written", flush=True)
    arrow = [_arrow_rate(log) for _ in range(arguments.rounds)]
    conf = {
        "spark.jars": ",".join(map(str, jars)),
        "spark.sql.shuffle.partitions": str(arguments.partitions),
        "spark.ui.enabled": "false",
        "spark.driver.memory": "2g",
    }
    spark = session("logstate-benchmark", master="local[2]", conf=conf)
    spark.sparkContext.setLogLevel("ERROR")
    with tempfile.TemporaryDirectory() as place:
        export = Path(place) / "export"
        write_parquet(logstate.read(application, STORE, bootstrap=bootstrap), export)
        queries = Queries(spark, log, export)
        found = _rounds(queries, arguments.rounds, broker)
        line = _ratios(found)
        line["arrow_records_per_s"] = round(statistics.median(arrow))
        line |= {"connector": version, "is_verified": queries.check()}
    spark.stop()
    print(json.dumps(line))
    return 0 if line["is_verified"] else 1


def _arrow_rate(log: CustomerLog) -> float:
    script = _ARROW.format(application=log.application, store=STORE, bootstrap=log.bootstrap)
    answer = subprocess.run(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, check=True
    )
    rows, wall_s, cpu_s = answer.stdout.split()
    rate = log.records / float(wall_s)
    print(
        f"logstate.read on one core: {rate:,.0f} records/s, CPU {float(cpu_s):.2f} s, {rows} rows"
    )
    return rate


def _rounds(
    queries: Queries, rounds: int, broker: int | None
) -> dict[tuple[str, str], list[tuple[float, float]]]:
    """Of each question and side the wall and CPU seconds."""
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    sides = {"logstate": queries.ours(), "kafka": queries.theirs()}
    for number in range(rounds + 1):
        for question in sides["logstate"]:
            for side, asked in sides.items():
                if question not in asked:
                    continue
                wall, cpu = time.perf_counter(), _cpu_s(broker)
                asked[question]().write.format("noop").mode("overwrite").save()
                took = time.perf_counter() - wall, _cpu_s(broker) - cpu
                print(
                    f"{number} {question} {side}: {took[0]:.2f} s, CPU {took[1]:.2f} s", flush=True
                )
                if number:
                    found.setdefault((question, side), []).append(took)
    return found


def _cpu_s(broker: int | None) -> float:
    """Of this process and all below it, without the broker."""
    ours = set(process_tree(os.getpid()))
    if broker is not None:
        ours -= set(process_tree(broker))
    return sum(map(process_cpu_s, ours))


def _ratios(found: dict[tuple[str, str], list[tuple[float, float]]]) -> dict[str, Any]:
    line: dict[str, Any] = {}
    for question in dict.fromkeys(question for question, _ in found):
        theirs = found.get((question, "kafka")) or found["lookup", "kafka"]
        for name, place in (("", 1), ("_wall", 0)):
            medians = [
                statistics.median(one[place] for one in side)
                for side in (theirs, found[question, "logstate"])
            ]
            line[f"{question}_ratio{name}"] = round(medians[0] / max(medians[1], 0.01), 2)
    return line
