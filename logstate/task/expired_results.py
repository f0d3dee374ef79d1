"""Count and log final results that expired in their store before they were sent.

Aggregations with ``emit="close"`` look for closed windows when a record arrives, and only see
results that their store still has. Kafka Streams drops the others silently.
"""

from __future__ import annotations

import logging
from collections import Counter

from logstate.contracts.stores import StoreSpec
from logstate.task.drops import RecordLocation

_LOGGER = logging.getLogger(__name__)

#: between two log messages about one store of a task
_TELL_INTERVAL_MS = 10_000


_LINE = (
    "task %s: %d final results of store %r expired before they were sent, %d so far. The"
    " record at %r, partition %d, offset %d, timestamp %d advanced the store's time by more"
    " than its retention of %d ms beyond them, before the operator had looked for them"
    ' (emit="close" looks when a record arrives, at most once per emit interval). Kafka'
    " Streams loses them too. Give store=Materialized(%r, retention=timedelta(...)) as much"
    " as event time may jump, or use suppress(until_window_closes()); see"
    " docs/late-records.md"
)


class ExpiredResults:
    """The counts of one task by store."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        #: the count at the last log message, and when the next one may follow
        self._told: Counter[str] = Counter()
        self._tell_at_ms: dict[str, float] = {}

    def add(self, place: RecordLocation, store: StoreSpec, count: int) -> None:
        """Count lost results of ``store``, and log the first of many; 0 only makes it known."""
        name = store.name
        self.counts[name] += count
        if not count:
            return
        now_ms = place.monotonic_ms()
        if now_ms < self._tell_at_ms.get(name, float("-inf")):
            return
        new = self.counts[name] - self._told[name]
        _LOGGER.warning(
            _LINE,
            *(place.task_id, new, name, self.counts[name]),
            *(place.topic, place.partition, place.offset, place.timestamp),
            *(store.retention_ms or 0, name),
        )
        self._told[name] = self.counts[name]
        self._tell_at_ms[name] = now_ms + _TELL_INTERVAL_MS
