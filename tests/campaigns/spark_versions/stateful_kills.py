"""Stateful queries over a change feed, killed, and continued by newer releases of PySpark.

One application, one checkpoint for each query, and releases one after the other: in each the
driver is killed some times, and between these kills executors are, while orders come in. At the
end of a release the queries take in all that is left, and what they wrote has to be each change of
the store once, with the number that it has among those of its key. Two stores are joined in each
micro-batch meanwhile: their rows have to agree, and to include the batch.
"""

from __future__ import annotations

import os
import random
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.campaigns.spark_versions.environments import Environment
from tests.campaigns.spark_versions.lake import LAKE_RELEASES, lake_settings
from tests.campaigns.spark_versions.life import Life
from tests.campaigns.spark_versions.spend_store import STORE, SpendStore, differing

_EXECUTOR = b"CoarseGrainedExecutorBackend"
_MASTER = "local-cluster[2,1,1024]"
_ORDERS = 40
_END_S = 600
#: executors killed before each kill of the driver
_EXECUTORS_A_LIFE = 2


class StatefulRun(NamedTuple):
    """What came of one release."""

    version: str
    sinks: list[str]
    drivers: int
    executors: int
    rows: dict[str, int]
    wrong: int
    """Rows of the sinks that are not in the changelog, are missing, or are there twice."""
    joins: int
    disagreeing: int
    """Joined rows that differ, or that lack a change of their batch."""
    seconds: int


class StatefulKills:
    """The lives of the program, over all releases."""

    def __init__(self, store: SpendStore, seed: int) -> None:
        self._store = store
        self._random = random.Random(seed)
        self._folder = Path(tempfile.mkdtemp(prefix="stateful-kills-"))
        self._joins = self._disagreeing = 0

    def run(
        self, environment: Environment, kills: int, report: Callable[[str], None]
    ) -> StatefulRun:
        """Continue the queries with one release, and kill its driver so many times."""
        began = time.monotonic()
        self._joins = self._disagreeing = executors = 0
        for number in range(kills):
            self._store.order(_ORDERS)
            with self._life(environment) as life:
                self._batches(life, environment)
                for _ in range(_EXECUTORS_A_LIFE):
                    executors += self._kill_executor(life)
                    self._store.order(_ORDERS)
                    self._batches(life, environment)
                self._store.order(_ORDERS)
                threading.Event().wait(self._random.random() * 4)
            seconds = time.monotonic() - began
            killed = f"{number + 1} drivers and {executors} executors killed"
            report(f"{seconds:6.0f} s  {environment.version}: {killed}")
        found = self._last(environment)
        wanted = self._store.changes()
        return StatefulRun(
            environment.version,
            self._sinks(environment),
            kills,
            executors,
            {sink: len(rows) for sink, rows in found.items()},
            sum(len(differing(rows, wanted)) for rows in found.values()),
            self._joins,
            self._disagreeing,
            round(time.monotonic() - began),
        )

    def _sinks(self, environment: Environment) -> list[str]:
        has_delta = environment.release in LAKE_RELEASES["delta"]
        return ["delta", "parquet"] if has_delta else ["parquet"]

    def _life(self, environment: Environment, *, is_last: bool = False) -> Life:
        sinks = self._sinks(environment)
        settings = {}
        if "delta" in sinks:
            settings = lake_settings("delta", environment.release, self._folder / "warehouse")
        given = {
            "bootstrap": self._store.bootstrap,
            "application": self._store.application,
            "store": STORE,
            "master": "local[2]" if is_last else _MASTER,
            "sinks": sinks,
            "settings": settings,
            "classes": "",
            "folder": str(self._folder),
            "is_last": is_last,
        }
        return Life(environment.python, "stateful_query.py", given, self._folder)

    def _batches(self, life: Life, environment: Environment) -> None:
        """Wait until each query has finished a batch from now on."""
        waiting = {*self._sinks(environment), "joined"}
        while waiting:
            step = life.step()
            if step.name == "joined":
                self._joins += 1
                self._disagreeing += sum(step.values[2:])
            elif step.name == "batch":
                waiting.discard(step.values[0])

    def _kill_executor(self, life: Life) -> bool:
        found = list(executors_of(life.process.pid))
        if not found:
            return False
        os.kill(self._random.choice(found), signal.SIGKILL)
        return True

    def _last(self, environment: Environment) -> dict[str, list[Any]]:
        """What each sink holds when all changes are in it."""
        self._store.order(_ORDERS)
        self._store.settle()
        found: dict[str, list[Any]] = {}
        with self._life(environment, is_last=True) as life:
            while len(found) < len(self._sinks(environment)):
                step = life.step()
                if step.name == "rows":
                    found[step.values[0]] = step.values[1]
            life.process.wait(_END_S)
        return found


def executors_of(group: int) -> Iterator[int]:
    """The executors in a process group, as Linux tells."""
    for folder in Path("/proc").glob("[0-9]*"):
        pid = int(folder.name)
        try:
            if os.getpgid(pid) == group and _EXECUTOR in (folder / "cmdline").read_bytes():
                yield pid
        except OSError:  # it has ended
            continue
