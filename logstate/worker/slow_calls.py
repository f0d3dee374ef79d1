"""Calls of user functions that take long: told while they run, and blamed for what they cost.

Theory. A worker that is inside a function neither polls nor commits. Two limits run out meanwhile:
transaction.timeout.ms, where a transaction is open, and max.poll.interval.ms, after which the group
gives its partitions to others. Either makes the call be made again, with its side effects, and what
the client says about it afterwards ("fenced", "erroneous state") names no function. So the worker
is looked at from beside it: a place that two looks in a row find is a call that stands.

After a turn that took long the worker is *careful* for a while: it opens no transaction before all
calls of a turn are made, and commits at its end. The next long call then costs nothing.

Pure: whoever looks brings the time, and gets what is to be logged. Nothing runs per record.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple

from logstate.worker.active_call import ActiveCall
from logstate.worker.outage import Note

#: a call is told once it takes this share of the limit that runs out first, then at each doubling
_TOLD_SHARE = 0.5
#: after a slow turn the worker is careful for so long
_CAREFUL_MS = 600_000
#: what failed so soon after a slow turn failed because of it
_BLAMED_MS = 5_000


class Place(NamedTuple):
    """What a worker processes; ``turn`` counts, so that a replay of a record is another place."""

    turn: int
    task: str
    topic: str | None
    partition: int
    offset: int


class SlowCalls:
    """See the module. Times are monotonic."""

    def __init__(self, max_poll_interval_ms: int, transaction_timeout_ms: int) -> None:
        self._max_poll_interval_ms = max_poll_interval_ms
        self._transaction_timeout_ms = transaction_timeout_ms
        self._slow_ms = _TOLD_SHARE * min(max_poll_interval_ms, transaction_timeout_ms)
        self._place: Place | None = None
        self._since_ms = 0.0
        self._next_ms = self._slow_ms
        #: the last call that was told, in words, and its turn
        self._told: tuple[int, str] | None = None
        self._slow_turn: tuple[int, float, float] | None = None

    # ------------------------------------------------------------------ from beside the worker

    def looked(
        self, now_ms: float, place: Place | None, where: Callable[[], ActiveCall | None]
    ) -> Note | None:
        """The worker was found at a place; None where it processes nothing."""
        if place is None or place != self._place:
            self._place, self._since_ms, self._next_ms = place, now_ms, self._slow_ms
            return None
        took_ms = now_ms - self._since_ms
        if took_ms < self._next_ms:
            return None
        self._next_ms = 2 * took_ms
        call = where()
        if call is None:
            return None
        self._told = place.turn, _in_words(place, call)
        stack = f"\n{call.stack}" if call.stack else ""
        return Note(
            logging.WARNING,
            f"a call has been running for {_seconds(took_ms)}: {self._told[1]}. Nothing else is"
            f" processed or committed meanwhile. {self._limits()} Give it a time-out of its own, or"
            f" raise kafka={{'max.poll.interval.ms': ...}} where it has to take so long.{stack}",
        )

    def hanging(self, now_ms: float) -> str | None:
        """The call that has been running for longer than max.poll.interval.ms, in words."""
        place, told, took_ms = self._place, self._told, now_ms - self._since_ms
        if place is None or told is None or took_ms < self._max_poll_interval_ms:
            return None
        return f"a call has been running for {_seconds(took_ms)}: {told[1]}"

    # ------------------------------------------------------------------ from the worker

    def took(self, turn: int, began_ms: float, ended_ms: float) -> None:
        """A turn's records were processed."""
        if ended_ms - began_ms >= self._slow_ms:
            self._slow_turn = turn, began_ms, ended_ms

    def is_careful(self, now_ms: float) -> bool:
        """Whether a turn took long lately."""
        return self._slow_turn is not None and now_ms - self._slow_turn[2] < _CAREFUL_MS

    def blame(self, now_ms: float) -> str:
        """What to add to a failure now, if a slow call explains it; else nothing."""
        if self._slow_turn is None or now_ms - self._slow_turn[2] > _BLAMED_MS:
            return ""
        turn, began_ms, ended_ms = self._slow_turn
        told = self._told[1] if self._told is not None and self._told[0] == turn else None
        what = told or "the functions that were called for the last records"
        return (
            f". Before that the worker was busy for {_seconds(ended_ms - began_ms)} with one call,"
            f" or a few: {what}. {self._limits()} The brokers are well: make the call shorter"
        )

    def _limits(self) -> str:
        return (
            "An open transaction ends by itself after transaction.timeout.ms ="
            f" {self._transaction_timeout_ms}, and the partitions go to others after"
            f" max.poll.interval.ms = {self._max_poll_interval_ms}; the records are then processed"
            " again, their side effects too."
        )


def _in_words(place: Place, call: ActiveCall) -> str:
    function = call.function or "the library itself"
    node = "" if call.node is None else f", node {call.node!r}"
    if place.topic is None:
        return f"{function}{node}, by a schedule of task {place.task}"
    return (
        f"{function}{node}, for topic {place.topic!r}, partition {place.partition}, offset"
        f" {place.offset}, task {place.task}"
    )


def _seconds(ms: float) -> str:
    return f"{ms / 1000:.0f} s" if ms >= 10_000 else f"{ms / 1000:.1f} s"
