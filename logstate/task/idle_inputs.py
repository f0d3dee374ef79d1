"""Idle inputs of one task: since when, and waits for more records.

Everything here is pure: the caller asks the brokers.

A task is quiet while each of its partitions has been read to its end, everything is processed, and
nothing is paused or waits. That it has the same positions for a while proves nothing: records may
be on their way. So before a tick the brokers are asked for the ends of the log, read uncommitted:
if these are still the positions, no record, and no open transaction, was there in between.

A task that reads repartition topics is idle only if the tasks that write to them are: the ends of
all topics above it, however many repartitions there are in between, are what the group has
committed, and have been since. The committed offsets are read first. They are committed together
with what was sent to the repartition topics, so when the ends are read, all of that is there.

If operators above close on idle, too, the cuts with these offsets must say that nothing is open in
them. A cut with that has the results of the tick that closed the last of it, so the idle time of
the task begins when these are there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from logstate.contracts.processing import IdleTime
from logstate.contracts.records import TopicPartition
from logstate.task.queues import PartitionQueue


class TaskIdle:
    """How long records of other partitions wait for a partition that is at its end.

    The time of a partition begins when a record of another one could be processed first, and ends
    when a record of it arrives (KIP-353). So the records of inputs that are written at about the
    same time are processed in the order of their timestamps.

    >>> left, right = TopicPartition("left", 0), TopicPartition("right", 0)
    >>> queues = {left: PartitionQueue(left, 0), right: PartitionQueue(right, 0)}
    >>> queues[right].is_at_end = True
    >>> idle = TaskIdle(500)
    >>> idle.waits(queues.values(), now_ms=0), idle.waits(queues.values(), now_ms=500)
    (True, False)
    """

    def __init__(self, max_idle_ms: float) -> None:
        self._max_idle_ms = max_idle_ms
        self._ends_ms: dict[TopicPartition, float] = {}

    def waits(self, queues: Iterable[PartitionQueue], now_ms: float) -> bool:
        """Return whether a partition without records still has time."""
        return bool([one for one in queues if self._has_time(one, now_ms)])

    def awaited(self, now_ms: float) -> list[TopicPartition]:
        """Return the partitions that have time, as of the last check; from any thread."""
        return [partition for partition, end_ms in [*self._ends_ms.items()] if now_ms < end_ms]

    def _has_time(self, queue: PartitionQueue, now_ms: float) -> bool:
        if len(queue) or not queue.is_at_end:
            self._ends_ms.pop(queue.partition, None)
            return False
        return now_ms < self._ends_ms.setdefault(queue.partition, now_ms + self._max_idle_ms)


#: between two requests while the tasks above are not idle
_ASK_AGAIN_MS = 250.0
_NEVER_ASKED = float("-inf")


class IdleInputs:
    """Of one task, since it began to run.

    >>> clicks, idle = TopicPartition("clicks", 0), IdleInputs()
    >>> idle.check(0.0, {clicks: 7})
    >>> idle.check(900.0, {clicks: 7})
    >>> idle.confirmed(900.0, {clicks: 7}, {}, ())
    IdleTime(since_ms=0.0, now_ms=900.0)
    >>> idle.check(1_000.0, {clicks: 8})
    >>> idle.time(1_000.0)
    IdleTime(since_ms=1000.0, now_ms=1000.0)
    """

    def __init__(self) -> None:
        self._positions: Mapping[TopicPartition, int] | None = None
        self._since_ms: float | None = None
        #: the ends of the topics above when these were first found idle
        self._ends_above: Mapping[TopicPartition, int] | None = None
        self._asked_ms = _NEVER_ASKED

    def check(self, now_ms: float, positions: Mapping[TopicPartition, int] | None) -> None:
        """Take the positions of all partitions; None: the task is not quiet."""
        if positions is None or self._since_ms is None or positions != self._positions:
            self._since_ms = None if positions is None else now_ms
            self._ends_above = None
        self._positions = positions

    def time(self, now_ms: float) -> IdleTime | None:
        """Return for how long the task seems to be idle; None: it is not."""
        return None if self._since_ms is None else IdleTime(self._since_ms, now_ms)

    @property
    def knows_ends_above(self) -> bool:
        """Whether the topics above were found idle: the time of the task counts from then."""
        return self._ends_above is not None

    def may_ask_above(self, now_ms: float) -> bool:
        """Whether to ask for the ends of the topics above again while they are not idle."""
        return now_ms >= self._asked_ms + _ASK_AGAIN_MS

    def confirmed(
        self,
        asked_ms: float,
        ends: Mapping[TopicPartition, int],
        committed: Mapping[TopicPartition, int | None],
        above: Collection[TopicPartition],
        *,
        is_open_above: bool = False,
    ) -> IdleTime | None:
        """Return for how long the task has been idle, by an answer; None: it is not, or not yet.

        ``asked_ms``: when the brokers were asked for the ends, of its partitions and of those
        ``above``, which ``committed`` has too. ``is_open_above``: an operator above, by the cuts of
        these offsets, will still send something when it closes on idle.
        """
        self._asked_ms = asked_ms
        positions = self._positions
        if self._since_ms is None or positions is None:
            return None
        if any(ends[tp] != position for tp, position in positions.items()):
            self._since_ms = None
            return None
        if is_open_above or any(committed[tp] != ends[tp] for tp in above):
            self._ends_above = None
            return None
        ends_above = {tp: ends[tp] for tp in above}
        if above and ends_above != self._ends_above:
            self._ends_above = ends_above
            self._since_ms = max(self._since_ms, asked_ms)
            return None
        return IdleTime(self._since_ms, asked_ms)
