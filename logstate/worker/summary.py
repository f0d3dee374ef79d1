"""The line in the log about what an instance has done since the last such line.

One worker logs its own. Of several worker processes, the instance logs one line for all.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection
from typing import NamedTuple

from logstate.metrics import catalogue
from logstate.metrics.instruments import Metrics
from logstate.worker.task_lag import TaskLag

_LOGGER = logging.getLogger(__name__)


class SummaryIntervals(NamedTuple):
    """The time before the first summary, and the longest time between two."""

    first_ms: float
    most_ms: float


#: of ``log_summary_interval="growing"``
GROWING = SummaryIntervals(2 * 60_000.0, 30 * 60_000.0)


class Summary:
    """Describes what the metrics have counted since the last description.

    The interval doubles after each description, up to the longest one.

    >>> from logstate.metrics.instruments import Metrics
    >>> metrics = Metrics()
    >>> summary = Summary(metrics, SummaryIntervals(120_000.0, 120_000.0))
    >>> summary.is_due(0.0)
    False
    >>> metrics.counter(catalogue.RECORDS_CONSUMED, task="0_0", topic="clicks").add(6_000)
    >>> summary.is_due(120_000.0)
    True
    >>> print(summary.described(120_000.0, [TaskLag("running", 3, 0)]))  # doctest: +ELLIPSIS
    in the last 2 min: 6000 records processed (50.0/s), 0 commits; tasks: 1 running; 3 records ...
    """

    def __init__(self, metrics: Metrics, intervals: SummaryIntervals | None) -> None:
        self._metrics = metrics
        self._interval_ms, self._most_ms = intervals or (float("inf"), float("inf"))
        self._since_ms: float | None = None
        self._records = self._commits = 0.0

    def is_due(self, now_ms: float) -> bool:
        """Whether the interval has passed since the last description, or since the first call."""
        if self._since_ms is None:
            self._since_ms = now_ms
        return now_ms - self._since_ms >= self._interval_ms

    def log(self, now_ms: float, tasks: Collection[TaskLag]) -> None:
        """Write the description."""
        _LOGGER.info("%s", self.described(now_ms, tasks))

    def described(self, now_ms: float, tasks: Collection[TaskLag]) -> str:
        """Return the description, and begin the next interval."""
        records = self._metrics.total(catalogue.RECORDS_CONSUMED.name)
        commits = self._metrics.total(catalogue.COMMITS.name)
        passed_s = (now_ms - (self._since_ms or 0.0)) / 1_000
        done = max(0.0, records - self._records)
        text = (
            f"in the last {_in_words(passed_s)}: {done:.0f} records processed"
            f" ({done / passed_s:.1f}/s), {max(0.0, commits - self._commits):.0f} commits;"
            f" {_tasks_in_words(tasks)}"
        )
        self._since_ms, self._records, self._commits = now_ms, records, commits
        self._interval_ms = min(2 * self._interval_ms, self._most_ms)
        return text


def _in_words(seconds: float) -> str:
    """A time in seconds, or in minutes if it is long.

    >>> _in_words(90.0), _in_words(240.2)
    ('90 s', '4 min')
    """
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _tasks_in_words(tasks: Collection[TaskLag]) -> str:
    if not tasks:
        return "no tasks"
    stages = Counter(lag.stage for lag in tasks)
    parts = [f"{count} {stage}" for stage, count in stages.items()]
    behind = sum(lag.input_records or 0 for lag in tasks)
    text = f"tasks: {', '.join(parts)}; {behind} records behind the ends of their inputs"
    restoring = sum(lag.restore_records for lag in tasks)
    return f"{text}, {restoring} to restore" if restoring else text
