"""The MERGE of a change feed into a lakehouse, killed before, during and after it.

A program merges each batch into some tables at the same time, and is killed with SIGKILL when each
of these MERGEs is at its moment: it has not begun, it began a random time ago, or it has returned
and Spark has not noted the batch as done. The next life repeats the batch. At the end one life
merges all that is left, and each table has to have the rows of the store.
"""

from __future__ import annotations

import random
import shutil
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from tests.campaigns.spark_versions.environments import Environment
from tests.campaigns.spark_versions.lake import lake_settings, lake_table, table_versions
from tests.campaigns.spark_versions.life import Life, Step
from tests.campaigns.spark_versions.spend_store import STORE, SpendStore, differing

MOMENTS = ("before", "during", "after")
TABLES = 10
_ORDERS = 40
_EXAMPLES = 6
_END_S = 600
#: how many lives let the repeated batch pass and are killed in the one after it
_PASSES_ONE_IN = 2


class MergeRun(NamedTuple):
    """What came of the kills of one format and release."""

    lake: str
    version: str
    kills: dict[str, int]
    lives: int
    committed: int
    """Kills during a MERGE after which the table had a new version."""
    repeated: int
    """Lives that began with the batch of the life before."""
    rows: int
    wrong: int
    """Rows of all tables that only a table or only the store has, or that a table has twice."""
    examples: list[Any]
    """Some of them."""
    seconds: int


class Target:
    """What the parent knows of one table and its MERGE."""

    def __init__(self, number: int) -> None:
        self.number, self.name = number, f"spend_{number}"
        self.moment = ""
        """Where this life has to end it."""


class MergeKills:
    """The lives of the program, in one format and release."""

    def __init__(self, store: SpendStore, lake: str, environment: Environment, seed: int) -> None:
        self._store, self._lake, self._environment = store, lake, environment
        self._random = random.Random(seed)
        self._folder = Path(tempfile.mkdtemp(prefix="merge-kills-"))
        self._warehouse = self._folder / "warehouse"
        self._targets = [Target(number) for number in range(TABLES)]
        self._merge_s = 5.0
        self._done: Counter[str] = Counter()
        self._unfinished: int | None = None
        self._lives = self._committed = self._repeated = 0

    def run(self, kills: int, report: Callable[[str], None]) -> MergeRun:
        """Kill so many MERGEs at each moment, and compare the tables with the store."""
        began = time.monotonic()
        self._last()  # makes the tables, which are empty yet, and the archive of classes
        moments = [moment for moment in MOMENTS for _ in range(kills)]
        self._random.shuffle(moments)
        while moments:
            for target in self._targets:
                target.moment = moments.pop() if moments else "after"
            moments += self._killed()
            seconds = time.monotonic() - began
            version = self._environment.version
            report(f"{seconds:6.0f} s  {self._lake} {version}: {dict(self._done)}")
        self._store.order(2 * _ORDERS)
        self._store.settle()
        found, wanted = self._last(), self._store.rows()
        wrong = [row for rows in found for row in differing(rows, wanted)]
        shutil.rmtree(self._folder)
        return MergeRun(
            self._lake,
            self._environment.version,
            dict(self._done),
            self._lives,
            self._committed,
            self._repeated,
            len(wanted),
            len(wrong),
            wrong[:_EXAMPLES],
            round(time.monotonic() - began),
        )

    def _last(self) -> list[Any]:
        """The rows of each table when all changes are in them."""
        with self._life(is_last=True) as life:
            found = life.step().values
            life.process.wait(_END_S)
        return found

    def _life(self, *, is_last: bool = False) -> Life:
        names = [target.name for target in self._targets]
        given = {
            "bootstrap": self._store.bootstrap,
            "application": self._store.application,
            "store": STORE,
            "lake": self._lake,
            "settings": lake_settings(self._lake, self._environment.release, self._warehouse),
            "classes": str(self._folder / "classes.jsa"),
            "tables": [lake_table(self._lake, self._warehouse, name) for name in names],
            "checkpoint": str(self._folder / "checkpoint"),
            "is_last": is_last,
        }
        return Life(self._environment.python, "merge_query.py", given, self._folder)

    def _killed(self) -> list[str]:
        """One life, killed when each MERGE is at its moment; the moments that were missed."""
        self._lives += 1
        self._repeated += self._unfinished is not None
        self._store.order(_ORDERS)
        with self._life() as life:
            if self._random.randrange(_PASSES_ONE_IN) == 0:
                self._pass_repeated(life)
            self._lead(life)
            during = [target for target in self._targets if target.moment == "during"]
            versions = {target.number: self._versions(target) for target in during}
            for target in during:
                life.go_on(target.number)
            # Those of a pass shared the machine with all others.
            expected_s = self._merge_s * len(during) / TABLES
            threading.Event().wait(self._random.random() * expected_s)
            life.kill()
            late = {step.values[0] for step in life.steps_now()}
        for target in during:
            self._committed += self._versions(target) > versions[target.number]
        missed = [target for target in during if target.number in late]
        if missed:
            self._merge_s /= 2
        self._done.update(target.moment for target in self._targets if target not in missed)
        return [target.moment for target in missed]

    def _pass_repeated(self, life: Life) -> None:
        """Let all MERGEs of the batch pass that the life before did not finish."""
        if self._unfinished is None:
            return
        began = None
        for _ in range(2 * TABLES):
            step = life.step()
            self._check(step)
            began = began or time.monotonic()
            if step.name == "after":
                self._merge_s = time.monotonic() - began
            life.go_on(step.values[0])
        self._store.order(_ORDERS)
        self._unfinished = None

    def _lead(self, life: Life) -> None:
        """Until each MERGE of a batch is at its moment; those of ``during`` wait before it."""
        waiting = {target.number for target in self._targets}
        while waiting:
            step = life.step()
            self._check(step)
            number = step.values[0]
            if step.name == "before" and self._targets[number].moment == "after":
                life.go_on(number)
            else:
                waiting.remove(number)

    def _check(self, step: Step) -> None:
        """Raises AssertionError if Spark does not repeat the batch that was not finished."""
        batch = step.values[1]
        assert self._unfinished in (None, batch), (self._unfinished, step)
        self._unfinished = batch

    def _versions(self, target: Target) -> int:
        return table_versions(self._lake, self._warehouse, target.name)
