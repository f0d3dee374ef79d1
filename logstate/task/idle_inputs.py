"""Since when the inputs of one running task have been idle; pure, the caller asks the brokers.

A task is quiet while each of its partitions has been read to its end, everything is processed, and
nothing is paused or waits. That it has the same positions for a while proves nothing: records may
be on their way. So before a tick the brokers are asked for the ends of the log, read uncommitted:
if these are still the positions, no record, and no open transaction, was there in between.

A task that reads repartition topics is idle only if the tasks that write to them are: the ends of
all topics above it, however many repartitions there are in between, are what the group has
committed, and have been since. The committed offsets are read first. They are committed together
with what was sent to the repartition topics, so when the ends are read, all of that is there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from logstate.contracts.processing import IdleTime
from logstate.contracts.records import TopicPartition

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
    ) -> IdleTime | None:
        """Return for how long the task has been idle, by an answer; None: it is not, or not yet.

        ``asked_ms``: when the brokers were asked for the ends, of its partitions and of those
        ``above``, which ``committed`` has too.
        """
        self._asked_ms = asked_ms
        positions = self._positions
        if self._since_ms is None or positions is None:
            return None
        if any(ends[tp] != position for tp, position in positions.items()):
            self._since_ms = None
            return None
        if any(committed[tp] != ends[tp] for tp in above):
            self._ends_above = None
            return None
        ends_above = {tp: ends[tp] for tp in above}
        if above and ends_above != self._ends_above:
            self._ends_above = ends_above
            self._since_ms = max(self._since_ms, asked_ms)
            return None
        return IdleTime(self._since_ms, asked_ms)
