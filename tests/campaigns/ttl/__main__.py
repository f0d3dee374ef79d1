"""Rows that expire, after a kill and a lost disk: store, changelog, remote query and Spark agree.

    python -m tests.campaigns.ttl --keys 1000000 [--without-spark]

Each key is written, a tenth of them again half a TTL later, and then stream time passes the TTL of
the others. The instance is killed while it writes the first half of its changelog, and another one
begins with an empty disk. The last line is JSON. The end is 1 where a reader sees other rows.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from logstate.local_broker.broker import LocalBroker
from tests.campaigns.ttl.application import STORE
from tests.campaigns.ttl.story import Rows, run

_SPARK = {
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.driver.memory": "1g",
}


def spark_rows(bootstrap: str, name: str) -> Rows:
    """The store as a Spark table."""
    from logstate.changelog.spark import session, tables  # needs PySpark

    spark = session("ttl", master="local[2]", conf=_SPARK)
    spark.sparkContext.setLogLevel("ERROR")
    found = tables(name, [STORE], bootstrap=bootstrap, stallSeconds="180")[STORE]
    rows = {row["key"]: row["value"] for row in found.select("key", "value").collect()}
    spark.stop()
    return rows


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaigns.ttl", description=__doc__)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--without-spark", action="store_true")
    a = parser.parse_args()
    begin = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="ttl-") as path,
        LocalBroker.start(data=Path(path) / "broker") as broker,
    ):
        spark = None if a.without_spark else spark_rows
        found = run(broker.bootstrap, "ttl", Path(path), a.keys, spark=spark, report=print)
    figures = {
        "keys": a.keys,
        "expected": len(found.expected),
        **{name: len(rows) for name, rows in found.by_reader.items()},
        "logged": found.logged,
        "wrong": found.wrong,
        "seconds": round(time.monotonic() - begin),
    }
    print(json.dumps(figures, separators=(",", ":")))
    return 1 if found.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
