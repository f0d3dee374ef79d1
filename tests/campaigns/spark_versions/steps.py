"""How a program tells its parent where it is, and waits there for the parent to kill it or not."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

_SETTINGS = {
    "spark.driver.memory": "1g",
    "spark.executor.memory": "512m",
    # A life lasts seconds, for which generated code and the second compiler are too late.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "2",
    # Before 4.2 a query of availableNow ends after one batch without it: the repeated one, if any.
    "spark.sql.streaming.triggerAvailableNowWrapper.enabled": "true",
    # Other work may keep both cores busy.
    "spark.network.timeout": "900s",
    "spark.rpc.askTimeout": "900s",
    "spark.python.authenticate.socketTimeout": "300s",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_printing = threading.Lock()


def session_of(master: str, settings: Mapping[str, str], classes: str) -> SparkSession:
    """Start a session with the jars and settings of a lakehouse.

    ``classes`` is an archive of loaded classes, with which the JVM starts sooner; the first program
    that ends by itself makes it. Empty: there is none.
    """
    builder = SparkSession.builder.master(master).appName("spark-versions")
    option = "SharedArchiveFile" if Path(classes).exists() else "ArchiveClassesAtExit"
    archive = {_JAVA_OPTIONS: f"{_SETTINGS[_JAVA_OPTIONS]} -XX:{option}={classes}"}
    archive = archive if classes else {}
    for name, value in {**_SETTINGS, **archive, **settings}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def changes_of(session: SparkSession, given: Mapping[str, Any], **options: str) -> Any:
    """The change feed of the store, as a stream."""
    names = {name: given[name] for name in ("bootstrap", "application", "store")}
    reader = session.readStream.format("logstate").options(**names, readChangeFeed="true")
    return reader.options(stallSeconds="150", **options).load()


def report(step: str, *values: Any) -> None:
    """Print a line for the parent."""
    with _printing:
        print(f"@{step} {json.dumps(values)}", flush=True)


class Stops:
    """Where queries wait for their parent, which answers with the number of a query."""

    def __init__(self, count: int) -> None:
        self._answers = [threading.Semaphore(0) for _ in range(count)]
        threading.Thread(target=self._listen, daemon=True).start()

    def stop_at(self, step: str, number: int, *values: Any) -> None:
        """Report a step of a query and wait for the answer."""
        report(step, number, *values)
        self._answers[number].acquire()

    def _listen(self) -> None:
        for line in sys.stdin:
            self._answers[int(line)].release()
