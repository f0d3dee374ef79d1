"""Detect that the records of a task wait for an empty input partition, and warn about it.

A task processes the records of its partitions in the order of their timestamps, so it waits for a
partition whose next records have not arrived. Its stream time does not advance meanwhile. Positions
are compared a few times a second, so an ordinary record costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from logstate.contracts.clock import date_of
from logstate.contracts.records import TaskId, TopicPartition

#: a wait of this length is worth a warning
WARN_AFTER_MS = 60_000.0
#: time between two warnings about one partition
WARN_INTERVAL_MS = 600_000.0


@dataclass
class InputWait:
    """The partitions that the records of one task wait for, and since when.

    >>> wait, clicks = InputWait(), TopicPartition("clicks", 0)
    >>> wait.update(0.0, records=7, awaited=[clicks])
    >>> wait.update(900.0, records=7, awaited=[clicks])
    >>> wait.longest_ms(1_000.0)
    1000.0
    >>> wait.update(1_100.0, records=8, awaited=[clicks])  # a record was processed
    >>> wait.longest_ms(1_200.0)
    100.0
    """

    records: int = -1
    #: partition -> monotonic time at which the wait for it began
    since_ms: dict[TopicPartition, float] = field(default_factory=dict)
    warned_ms: dict[TopicPartition, float] = field(default_factory=dict)

    def update(self, now_ms: float, records: int, awaited: list[TopicPartition]) -> None:
        """Take the state of the task.

        Args:
            now_ms: monotonic time.
            records: processed by the task so far; a wait ends with each.
            awaited: the partitions that records wait for now.
        """
        before = self.since_ms if records == self.records else {}
        self.records = records
        self.since_ms = {partition: before.get(partition, now_ms) for partition in awaited}

    def longest_ms(self, now_ms: float) -> float:
        """Return how long the records have waited; 0.0 if they do not wait."""
        return now_ms - min(self.since_ms.values(), default=now_ms)

    def to_warn_about(self, now_ms: float) -> list[TopicPartition]:
        """Return the partitions that a warning is due for, which is given then."""
        due = [
            partition
            for partition, since_ms in self.since_ms.items()
            if now_ms - since_ms >= WARN_AFTER_MS
            and now_ms - self.warned_ms.get(partition, float("-inf")) >= WARN_INTERVAL_MS
        ]
        self.warned_ms.update(dict.fromkeys(due, now_ms))
        return due


def wait_line(
    task: TaskId,
    partition: TopicPartition,
    waited_ms: float,
    position: int,
    end: int | None,
    partition_times: Mapping[TopicPartition, int],
) -> str:
    """Return the warning: what waits for what, how far behind it is, likely causes, remedies.

    ``position`` and ``end`` are offsets of the awaited partition; ``end`` is None if it is unknown.
    ``partition_times`` are the largest timestamps processed per partition.
    """
    if end is None or end > position:
        known = "an end that is not known" if end is None else f"end {end}"
        cause = (
            f"It is at offset {position}, with {known}: the leader of the partition may be"
            " unavailable, or a transaction is open there (`logstate doctor` shows both)"
        )
    else:
        cause = (
            f"It is at its end, offset {position}, and max_task_idle makes the task wait for new"
            " records: choose a shorter max_task_idle, or write to the partition more often"
        )
    others = [time for one, time in partition_times.items() if one != partition]
    ahead = max(others, default=-1)
    own = partition_times.get(partition, -1)
    times = f"The newest record of {partition} {_at(own)}, that of the other inputs {_at(ahead)}."
    return (
        f"task {task}: no record of {partition} has arrived for {waited_ms / 1000:.0f} s, and the"
        f" records of its other inputs wait for it: stream time does not advance. {cause}. {times}"
        " See docs/time.md (metrics partition_time_ms, input_lag_records; logged at most every 10"
        " minutes)"
    )


def _at(time_ms: int) -> str:
    return f"is of {date_of(time_ms)}" if time_ms >= 0 else "has not been processed"
