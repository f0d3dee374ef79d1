"""The summary in the log: when it is due, and what it says."""

from __future__ import annotations

import pytest

from logstate.metrics import catalogue
from logstate.metrics.instruments import Metrics
from logstate.worker.summary import GROWING, Summary, SummaryIntervals
from logstate.worker.task_lag import TaskLag

MINUTE_MS = 60_000.0
RUNNING = TaskLag("running", 0, 0)


def minutes_of(intervals: SummaryIntervals | None, minutes: int) -> list[int]:
    """The minutes in which a summary is due, if one looks every minute."""
    summary = Summary(Metrics(), intervals)
    found = []
    for minute in range(minutes + 1):
        now = 5_000.0 + minute * MINUTE_MS
        if summary.is_due(now):
            summary.described(now, [RUNNING])
            found.append(minute)
    return found


@pytest.mark.parametrize(
    ("intervals", "due"),
    [
        (GROWING, [2, 6, 14, 30, 60]),
        (SummaryIntervals(15 * MINUTE_MS, 15 * MINUTE_MS), [15, 30, 45, 60, 75]),
        (SummaryIntervals(30 * MINUTE_MS, 30 * MINUTE_MS), [30, 60]),
        (None, []),
    ],
)
def test_summaries_are_due_at_these_minutes(
    intervals: SummaryIntervals | None, due: list[int]
) -> None:
    assert minutes_of(intervals, 75) == due


def test_a_summary_counts_since_the_last_one() -> None:
    metrics = Metrics()
    summary = Summary(metrics, SummaryIntervals(1.0, 1.0))
    summary.is_due(0.0)
    commits = metrics.counter(catalogue.COMMITS, worker="0")
    for task, topic in (("0_0", "a"), ("0_1", "b")):
        metrics.counter(catalogue.RECORDS_CONSUMED, task=task, topic=topic).add(600)
    commits.add(3)
    assert summary.described(
        240_000.0, [TaskLag("running", 7, 0), TaskLag("restoring", None, 9)]
    ) == (
        "in the last 4 min: 1200 records processed (5.0/s), 3 commits; tasks: 1 running,"
        " 1 restoring; 7 records behind the ends of their inputs, 9 to restore"
    )
    commits.add(2)
    assert summary.described(300_000.0, []) == (
        "in the last 60 s: 0 records processed (0.0/s), 2 commits; no tasks"
    )
