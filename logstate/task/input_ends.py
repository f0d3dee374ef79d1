"""When the committed rows of a task last included everything that its inputs contained.

The client reports the end of a partition with each response of a broker. A report that is new at a
look arrived after the look before it: at that earlier time the log was not longer. So once the rows
include the records up to that end, they are as current as they were at the earlier look. A
partition whose end the client has reported, and from which nothing has come since, is current as of
the look before.

Times are only ever too early: an answer may be younger than its age, and never older.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from logstate.contracts.records import TopicPartition

#: ends of a partition that are remembered; beyond that, every second one is dropped
_ENDS_MAX = 256
_LEAST_APART_MS = 100.0


class PartitionEnds:
    """The known ends of one partition, and when the rows included all records before one.

    >>> ends = PartitionEnds()
    >>> ends.check(0.0, end=10, position=3, is_at_end=False)
    >>> ends.check(200.0, end=15, position=4, is_at_end=False)
    >>> ends.check(400.0, end=15, position=15, is_at_end=False)
    >>> ends.caught_up_ms
    200.0
    >>> ends.check(600.0, end=15, position=15, is_at_end=True)
    >>> ends.caught_up_ms
    600.0
    """

    def __init__(self) -> None:
        #: when each end was not exceeded, and the end
        self._ends: deque[tuple[float, int]] = deque()
        #: minimum time between two of them
        self._apart_ms = _LEAST_APART_MS
        #: the last report; one from before the task began to run has no time
        self._last: int | None = None
        #: monotonic; None: not since the task began to run
        self.caught_up_ms: float | None = None

    def check(self, before_ms: float, *, end: int, position: int, is_at_end: bool) -> None:
        """Take the state of the partition. ``before_ms``: time of the look before.

        ``position``: the first offset that the rows do not include; ``is_at_end``: the client has
        reported the end there, nothing has arrived since, and it still fetches.
        """
        if self._last is not None and end != self._last:
            if end < self._last:  # the topic was created again
                self._ends.clear()
            self._remember_end(before_ms, end)
        self._last = end
        while self._ends and self._ends[0][1] <= position:
            self.caught_up_ms = self._ends.popleft()[0]
        if is_at_end and position >= end:
            self.caught_up_ms = before_ms

    def _remember_end(self, before_ms: float, end: int) -> None:
        """Remember the end; those of a long lag are farther apart."""
        if not self._ends:
            self._apart_ms = _LEAST_APART_MS
        elif before_ms - self._ends[-1][0] < self._apart_ms:
            return
        self._ends.append((before_ms, end))
        if len(self._ends) > _ENDS_MAX:
            self._ends = deque(list(self._ends)[::2])
            self._apart_ms *= 2


class InputEnds:
    """The known ends of the inputs of one task, since it began to run."""

    def __init__(self) -> None:
        self._partitions: dict[TopicPartition, PartitionEnds] = {}

    def check(
        self,
        before_ms: float,
        ends: Mapping[TopicPartition, int],
        positions: Mapping[TopicPartition, int],
        at_end: Mapping[TopicPartition, bool],
    ) -> float | None:
        """Return when the rows last included everything in all inputs; None: not yet.

        ``positions`` and ``at_end`` have every input, and ``ends`` those whose end is known.
        """
        for partition, end in ends.items():
            self._partitions.setdefault(partition, PartitionEnds()).check(
                before_ms, end=end, position=positions[partition], is_at_end=at_end[partition]
            )
        times = [
            None if partition not in self._partitions else self._partitions[partition].caught_up_ms
            for partition in positions
        ]
        known = [time for time in times if time is not None]
        return min(known) if known and len(known) == len(times) else None
