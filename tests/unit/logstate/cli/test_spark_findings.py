"""``logstate doctor spark``: what is made of the facts."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from logstate.cli.diagnosis.doctor_spark import spark_facts
from logstate.cli.diagnosis.findings import Level, connector, placed, placement_of, workers_python
from logstate.contracts.changelog_keys import PLAIN, WINDOW
from logstate.kafka.partition_counts import murmur2_partition
from logstate.testing.fake.fetched import StoredRecord

HERE = {"python": "3.12.1", "logstate": "1.0", "confluent-kafka": "2.14", "pyarrow": "20",
        "pyspark": "4.3.0"}  # fmt: skip


def record_of(key: bytes, partition: int) -> StoredRecord:
    return StoredRecord("shop-spend-changelog", partition, 0, key, b"", 0)


def levels(there: dict[str, str] | None, why: str = "") -> dict[str, Level]:
    return {one.subject: one.level for one in workers_python("python3", HERE, there, why)}


def test_a_worker_that_has_what_the_driver_has_is_fine() -> None:
    assert levels(HERE) == {"worker's python": Level.OK}


def test_a_workers_python_of_another_minor_version_is_a_problem() -> None:
    assert levels({**HERE, "python": "3.11.9"})["worker's python"] is Level.PROBLEM
    assert levels({**HERE, "python": "3.12.9"})["worker's python"] is Level.OK


def test_a_package_that_the_worker_lacks_is_a_problem_and_another_version_a_warning() -> None:
    found = levels({**HERE, "confluent-kafka": "", "pyarrow": "19"})

    assert found["worker's confluent-kafka"] is Level.PROBLEM
    assert found["worker's pyarrow"] is Level.WARNING


def test_a_python_that_does_not_start_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", str(Path("nowhere") / "python3"))

    (_, found) = spark_facts()

    assert found.level is Level.PROBLEM
    assert "No such file" in found.found


def test_the_python_here_is_asked_for_its_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)

    found = {one.subject: one.level for one in spark_facts()}

    assert found["worker's python"] is Level.OK
    assert "worker's confluent-kafka" not in found


def test_the_connector_of_another_spark_is_a_warning_and_none_is_no_problem() -> None:
    jar = "spark-sql-kafka-0-10_2.13-4.3.0.jar"

    assert connector("4.3.0", ["other.jar", jar]).level is Level.OK
    assert connector("4.2.0", [jar]).level is Level.WARNING
    assert "0-10_2.13:4.3.0" in connector("4.3.0", []).advice
    assert connector(None, []).level is Level.PROBLEM


def test_keys_that_no_murmur2_put_there_are_counted() -> None:
    keys = [b"%d" % n for n in range(20)]
    right = [record_of(key, murmur2_partition(key, 4)) for key in keys]
    wrong = [record_of(key, (murmur2_partition(key, 4) + 1) % 4) for key in keys[:3]]

    found = placement_of(PLAIN, [*right, *wrong], 4, murmur2_partition)

    assert (found.keys, found.misplaced) == (23, 3)
    assert placed("spend", found).level is Level.WARNING
    assert placed("spend", placement_of(PLAIN, right, 4, murmur2_partition)).level is Level.OK


def test_windows_are_no_part_of_where_a_key_belongs() -> None:
    partition = murmur2_partition(b"ada", 4)
    record = record_of(b"ada" + bytes(12), partition)

    assert placement_of(WINDOW, [record], 4, murmur2_partition).misplaced == 0
