"""Backfill 1,000,000 rows from parquet and compare them with the file.

Run ``python -m tests.campaigns.filling``.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
import uuid
from pathlib import Path

from pyspark.sql import functions as f

from logstate.changelog.spark import session
from logstate.local_broker.broker import LocalBroker
from tests.spark.test_backfill import Shop, read, write

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    arguments = parser.parse_args()
    spark = session("filling", master="local[2]", conf={"spark.sql.shuffle.partitions": "2"})
    spark.sparkContext.setLogLevel("ERROR")
    with LocalBroker.start() as broker, tempfile.TemporaryDirectory() as folder:
        shop = Shop(broker.bootstrap, f"filled{uuid.uuid4().hex[:6]}", Path(folder), partitions=4)
        shop.click("ada", "home", 100_000)
        shop.run()
        path = str(Path(folder) / "counts.parquet")
        made = spark.range(arguments.rows).select(
            f.concat(f.lit("user-"), "id").alias("key"), (f.col("id") * 7).alias("value")
        )
        made.write.parquet(path)
        frame = spark.read.parquet(path)
        began = time.monotonic()
        write(frame, shop, "counts", batchId="all")
        seconds = time.monotonic() - began
        stored = read(spark, shop, "counts").where("key != 'ada'").select("key", "value")
        missing, strange = frame.exceptAll(stored).count(), stored.exceptAll(frame).count()
        figures = {
            "rows": stored.count(),
            "missing": missing,
            "strange": strange,
            "write_seconds": round(seconds, 1),
            "rows_per_s": round(arguments.rows / seconds),
        }
        print(json.dumps(figures))
        assert not missing
        assert not strange
    spark.stop()
