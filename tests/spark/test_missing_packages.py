"""The readers import without the packages that only the application needs."""

from __future__ import annotations

import subprocess
import sys

BLOCKED = """
import sys
sys.modules["rocksdict"] = None
sys.modules["confluent_kafka"] = None
import logstate.changelog.spark.source as spark
import pyspark_logstate
assert pyspark_logstate.DefaultSource.name() == "logstate"
source = spark.LogstateDataSource({"bootstrap": "b:1", "application": "a", "store": "s"})
"""


def run(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=300, check=False
    )


def test_importing_needs_neither_rocksdict_nor_confluent_kafka() -> None:
    result = run(BLOCKED)

    assert result.returncode == 0, result.stderr


def test_reading_says_in_one_sentence_that_confluent_kafka_is_missing() -> None:
    result = run(BLOCKED + "source.schema()")

    last = result.stderr.strip().splitlines()[-1]
    assert result.returncode == 1
    assert "needs the package confluent-kafka on the driver and on every executor" in last
    assert sys.executable in last
