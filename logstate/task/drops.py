"""Records dropped by the operators and stores of a task, counted by node and reason and logged."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Protocol
from weakref import WeakSet

from logstate.contracts.drops import Dropped, DropReason
from logstate.contracts.records import TaskId

_LOGGER = logging.getLogger(__name__)

#: between two log messages about one node and reason
_TELL_INTERVAL_MS = 600_000.0

_WHY = {
    DropReason.LATE: "its window had closed: the grace was {late_ms} ms too short",
    DropReason.EXPIRED: (
        "it was older than the retention or TTL of the node's store, by {late_ms} ms"
    ),
    DropReason.NULL_KEY: "its key is null",
    DropReason.NULL_VALUE: "its value is null",
    DropReason.NULL_MAPPED_KEY: "the key that it was mapped to is None",
    DropReason.NULL_FOREIGN_KEY: "its foreign key is None",
    DropReason.NULL_GROUP_KEY: "its key is null, so it cannot be placed on a repartition topic",
    DropReason.NEGATIVE_TIMESTAMP: "the timestamp extractor returned a negative time",
    DropReason.NO_PARTITION: "the partitioner returned no partition",
    DropReason.OUT_OF_ORDER: "it is older than the row of its key",
    DropReason.STALE_RESPONSE: "its row had changed since the request",
    DropReason.DUPLICATE: "a duplicate was forwarded within the interval",
    DropReason.THROTTLED: "its window has forwarded as many records of the key as it may",
}

_LINE = (
    "task %s: node %s dropped the record at %s: %s. %d dropped since the last such line, %d in all"
    " (metric dropped_records_total, reason %r; logged at most every 10 minutes,"
    " for all tasks of a worker)"
)


class RecordLocation(Protocol):
    """The part of a task that a log message needs."""

    task_id: TaskId
    topic: str | None
    partition: int
    offset: int
    timestamp: int

    def monotonic_ms(self) -> float: ...
    def shown_node(self, name: str) -> str: ...


class DropLines:
    """The log messages of all tasks of a worker, and the counts that they have reported."""

    def __init__(self) -> None:
        self._told: dict[tuple[str, DropReason | None], int] = {}
        self._tell_at_ms: dict[tuple[str, DropReason | None], float] = {}
        self._droppers: WeakSet[Dropper] = WeakSet()

    def add(self, dropper: Dropper) -> None:
        """Add a dropper, whose count is part of the messages about its node and reason."""
        self._droppers.add(dropper)

    def due(self, dropper: Dropper, now_ms: float) -> tuple[int, int] | None:
        """Return the drops since the last message and in all, if another one may follow."""
        key = dropper.node, dropper.reason
        if now_ms < self._tell_at_ms.get(key, now_ms):
            return None
        self._tell_at_ms[key] = now_ms + _TELL_INTERVAL_MS
        total = sum(one.count for one in self._droppers if (one.node, one.reason) == key)
        since, self._told[key] = max(1, total - self._told.get(key, 0)), total
        return since, total


class Drops:
    """The droppers of one task. A rollback restores counts, but not log messages."""

    def __init__(self, place: RecordLocation) -> None:
        self.place = place
        #: the tasks of a worker share them
        self.lines = DropLines()
        #: those of late streams, which drop nothing, have no reason
        self._droppers: dict[tuple[str, DropReason | None], Dropper] = {}
        #: drops since ``begin_journal``, with the maximum lateness before each
        self.journal: list[tuple[Dropper, int]] | None = None

    def dropper(self, node: str, reason: DropReason) -> Dropper:
        """Return the dropper of a node for a reason; always the same object."""
        found = self._droppers.get((node, reason))
        if found is None:
            found = self._droppers[node, reason] = Dropper(self, node, reason)
            self.lines.add(found)
        return found

    def late_counter(self, stream: str) -> Dropper:
        """Return the counter of a late stream: its records are counted, and neither dropped nor
        logged.
        """
        found = self._droppers.get((stream, None))
        if found is None:
            found = self._droppers[stream, None] = Dropper(self, stream, None)
        return found

    def __iter__(self) -> Iterator[Dropped]:
        for one in self._droppers.values():
            if one.reason is not None:
                yield Dropped(one.node, one.reason, one.count, one.late_max_ms)

    def late_streams(self) -> Iterator[Dropper]:
        """The counters of the late streams."""
        return (one for one in self._droppers.values() if one.reason is None)

    def by_reason(self) -> Counter[DropReason]:
        """Return the number of drops in all nodes by reason."""
        counts: Counter[DropReason] = Counter()
        for one in self:
            counts[one.reason] += one.count
        return +counts

    def counts(self) -> Mapping[tuple[str, DropReason | None], int]:
        """Return the current counts, for ``go_back_to``."""
        return {at: one.count for at, one in self._droppers.items()}

    def go_back_to(self, counts: Mapping[tuple[str, DropReason | None], int]) -> None:
        """Restore earlier counts; the drops since then will be counted again."""
        for node, reason in (*self._droppers, *counts):
            found = self.late_counter(node) if reason is None else self.dropper(node, reason)
            found.count = counts.get((node, reason), 0)

    def begin_journal(self) -> None:
        """Start recording drops, so that they can be undone."""
        self.journal = []

    def end_journal(self, *, rollback: bool) -> None:
        """Stop recording; with ``rollback`` undo the counts since ``begin_journal``."""
        journal, self.journal = self.journal or (), None
        for dropper, late_max_ms in reversed(journal) if rollback else ():
            dropper.count -= 1
            dropper.late_max_ms = late_max_ms


class Dropper:
    """A :class:`logstate.contracts.drops.Drop` that logs at most once per interval."""

    __slots__ = ("__weakref__", "_drops", "_tell_at_ms", "count", "late_max_ms", "node", "reason")

    def __init__(self, drops: Drops, node: str, reason: DropReason | None) -> None:
        self.node = node
        self.reason = reason
        self.count = self.late_max_ms = 0
        self._drops = drops
        #: until then no log message may follow
        self._tell_at_ms = float("-inf")

    def __call__(self, late_ms: int = 0) -> None:
        if self._drops.journal is not None:
            self._drops.journal.append((self, self.late_max_ms))
        self.count += 1
        if late_ms:
            self.late_max_ms = max(self.late_max_ms, late_ms)
        if self.reason is None:
            return
        now_ms = self._drops.place.monotonic_ms()
        if now_ms >= self._tell_at_ms:
            self._tell_at_ms = now_ms + _TELL_INTERVAL_MS
            found = self._drops.lines.due(self, now_ms)
            if found is not None:
                self._log(self.reason, late_ms, *found)

    def _log(self, reason: DropReason, late_ms: int, since: int, total: int) -> None:
        place = self._drops.place
        _LOGGER.log(
            logging.INFO if reason.is_expected else logging.WARNING,
            _LINE,
            *(
                place.task_id,
                place.shown_node(self.node),
                _position_text(place),
                _WHY[reason].format(late_ms=late_ms),
            ),
            *(since, total, reason.value),
        )


def _position_text(place: RecordLocation) -> str:
    if place.topic is None:
        return f"timestamp {place.timestamp}, from a schedule"
    return (
        f"{place.topic!r}, partition {place.partition}, offset {place.offset},"
        f" timestamp {place.timestamp}"
    )
