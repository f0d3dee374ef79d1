"""Whether a task loses many of its records because they come late: told, once in a while. Pure.

Small graces fit records in order. A backlog behind a repartition topic comes in none, and what is
dropped then is only a number unless somebody says so. Totals are looked at a few times a second, so
that an ordinary record costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from logstate.contracts.records import TaskId

#: of the records of a span, from which on it is told
SHARE_MIN = 0.1
#: and as many at least: a few stragglers of a quiet topic are no news
LATE_MIN = 10
#: a span ends with so many records, or after so long
SPAN_RECORDS = 1_000
SPAN_MS = 10_000.0
#: between two lines about one task
TELL_INTERVAL_MS = 600_000.0


@dataclass
class LateRecordRate:
    """The figures of one task; ``since`` is where its span began."""

    records_since: int = 0
    late_since: int = 0
    since_ms: float = float("-inf")
    tell_at_ms: float = float("-inf")

    def look(self, now_ms: float, records: int, late: int) -> tuple[int, int] | None:
        """Records and late ones of the span that ends here, if that is worth a line.

        Args:
            now_ms: monotonic time.
            records: processed by the task so far.
            late: how often one came too late so far, once per window.
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
    """The line: what was found, why probably, and what to do."""
    behind = [topic for topic in topics if topic.endswith("-repartition")]
    cause = (
        f"It reads {', '.join(map(repr, behind))}: a backlog behind a repartition topic comes in"
        " no order, because every task in front of it writes at its own pace"
        if behind
        else "Its input is farther out of order than the grace allows"
    )
    return (
        f"task {task}: late records: {late} drops (one per closed window) and missed joins in the"
        f" last {records} records, which came after their windows had closed. {cause}. Give the"
        " windows a grace as long as the records may be behind each other; see docs/late-records.md"
        " (metrics late_records_total, late_join_records_total; said at most every 10 minutes)"
    )
