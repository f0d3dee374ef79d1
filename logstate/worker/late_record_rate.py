"""Detect that a task drops many records because they are late, and warn about it occasionally.

Small grace periods suit ordered records. A backlog behind a repartition topic is not ordered, and
the drops would only show in a metric. Totals are compared a few times a second, so an ordinary
record costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from logstate.contracts.records import TaskId

#: minimum share of late records in a span for a warning
SHARE_MIN = 0.1
#: minimum number of late records: a few in a quiet topic are not worth a warning
LATE_MIN = 10
#: a span ends after this many records or this much time
SPAN_RECORDS = 1_000
SPAN_MS = 10_000.0
#: time between two warnings about one task
TELL_INTERVAL_MS = 600_000.0


@dataclass
class LateRecordRate:
    """The counts of one task; ``…_since`` are the totals when the current span began."""

    records_since: int = 0
    late_since: int = 0
    since_ms: float = float("-inf")
    tell_at_ms: float = float("-inf")

    def check(self, now_ms: float, records: int, late: int) -> tuple[int, int] | None:
        """Return the records and late records of a span that ends now, if they are worth a warning.

        Args:
            now_ms: monotonic time.
            records: processed by the task so far.
            late: number of late records so far, counted once per window.
        """
        if self.since_ms == float("-inf"):
            self.since_ms = now_ms
        new_records, new_late = records - self.records_since, late - self.late_since
        if new_records < SPAN_RECORDS and now_ms - self.since_ms < SPAN_MS:
            return None
        self.records_since, self.late_since, self.since_ms = records, late, now_ms
        if new_late < LATE_MIN or new_late < SHARE_MIN * new_records or now_ms < self.tell_at_ms:
            return None
        self.tell_at_ms = now_ms + TELL_INTERVAL_MS
        return new_records, new_late


def late_line(task: TaskId, topics: Iterable[str], records: int, late: int) -> str:
    """Return the warning: what was found, the likely cause, and the remedy."""
    behind = [topic for topic in topics if topic.endswith("-repartition")]
    cause = (
        f"It reads {', '.join(map(repr, behind))}: a backlog behind a repartition topic is not in"
        " order, because every task that writes to it has its own pace"
        if behind
        else "Its input is farther out of order than the grace allows"
    )
    return (
        f"task {task}: late records: {late} drops (one per closed window) and missed joins in the"
        f" last {records} records, which arrived after their windows had closed. {cause}. Give the"
        " windows a grace period that covers the disorder of the records; see docs/late-records.md"
        " (metrics late_records_total, late_join_records_total; logged at most every 10 minutes)"
    )
