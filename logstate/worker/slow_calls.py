"""Calls of user functions that take long: log them while they run, and blame them for failures.

A worker that is inside a function neither polls nor commits. Two timeouts continue meanwhile:
transaction.timeout.ms, if a transaction is open, and max.poll.interval.ms, after which the group
assigns its partitions to others. Either one causes the call to be repeated, with its side effects,
and the client's error afterwards ("fenced", "erroneous state") does not name the function. So
another thread observes the worker: if two checks in a row find the same place, a call is running
long.

After a slow turn the worker is *careful* for a while: it opens a transaction only after all calls
of a turn, and commits at its end. The next long call then has no consequences.

The caller passes the time and logs the notes. Nothing runs per record.
"""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Callable, Mapping
from types import FrameType
from typing import NamedTuple, Self

from logstate.contracts.worker_config import WorkerConfig
from logstate.topology.declaring.declaration_site import is_library_file, short_path
from logstate.topology.graph.blame import operator_of
from logstate.topology.graph.operator_labels import with_label
from logstate.worker.outage import Note


class ActiveCall(NamedTuple):
    """``function`` is the user's, as ``name at file:line`` of its first line; None outside of
    one.
    """

    node: str | None
    function: str | None
    #: the frames from the user's function inwards, formatted as in a traceback
    stack: str


def active_call(thread_id: int) -> ActiveCall | None:
    """Return the call that a running thread is in, from its frames; None if the thread has
    ended.
    """
    frame = sys._current_frames().get(thread_id)  # noqa: SLF001  its documented name
    frames: list[FrameType] = []
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back
    if not frames:
        return None
    node: str | None = None
    users: list[FrameType] = []
    for one in reversed(frames):  # outermost first
        operator = operator_of(one.f_code)
        if operator is not None:
            node, users = operator, []
        elif users or (node is not None and not is_library_file(one.f_code.co_filename)):
            users.append(one)
    if not users:
        return ActiveCall(node, None, "")
    code = users[0].f_code
    place = f"{code.co_name} at {short_path(code.co_filename)}:{code.co_firstlineno}"
    lines = [line for one in users for line in traceback.format_stack(one, limit=1)]
    return ActiveCall(node, place, "".join(lines).rstrip())


#: a call is logged after this share of the shorter timeout, then at each doubling
_TOLD_SHARE = 0.5
#: how long the worker is careful after a slow turn
_CAREFUL_MS = 600_000
#: a failure within this time after a slow turn is blamed on it
_BLAMED_MS = 5_000


class ProcessedRecord(NamedTuple):
    """What a worker is processing; ``turn`` distinguishes the replay of a record."""

    turn: int
    task: str
    topic: str | None
    partition: int
    offset: int


class SlowCalls:
    """Tracks long calls of one worker. Times are monotonic."""

    def __init__(
        self,
        max_poll_interval_ms: int,
        transaction_timeout_ms: int,
        labels: Mapping[str, str] = {},
    ) -> None:
        """``labels`` are those of operators that the user did not name."""
        self._labels = labels
        self._max_poll_interval_ms = max_poll_interval_ms
        self._transaction_timeout_ms = transaction_timeout_ms
        self._slow_ms = _TOLD_SHARE * min(max_poll_interval_ms, transaction_timeout_ms)
        self._place: ProcessedRecord | None = None
        self._since_ms = 0.0
        self._next_ms = self._slow_ms
        #: description of the last logged call, and its turn
        self._reported: tuple[int, str] | None = None
        self._slow_turn: tuple[int, float, float] | None = None

    @classmethod
    def of(cls, config: WorkerConfig, labels: Mapping[str, str]) -> Self:
        """Return the object for a worker's configuration."""
        return cls(config.max_poll_interval_ms, config.transaction_timeout_ms, labels)

    # ------------------------------------------------------------------ from the watchdog thread

    def note_position(
        self, now_ms: float, place: ProcessedRecord | None, where: Callable[[], ActiveCall | None]
    ) -> Note | None:
        """Handle the place that the worker was found at; None if it processes nothing."""
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
        self._reported = place.turn, _in_words(place, call, self._labels)
        stack = f"\n{call.stack}" if call.stack else ""
        return Note(
            logging.WARNING,
            f"a call has been running for {_seconds(took_ms)}: {self._reported[1]}. Nothing else is"
            f" processed or committed meanwhile. {self._limits()} Give the call a timeout, or"
            f" raise kafka={{'max.poll.interval.ms': ...}} if it has to take so long.{stack}",
        )

    def stuck_call(self, now_ms: float) -> str | None:
        """Return the description of a call that has been running longer than
        max.poll.interval.ms.
        """
        place, last, took_ms = self._place, self._reported, now_ms - self._since_ms
        if place is None or last is None or took_ms < self._max_poll_interval_ms:
            return None
        return f"a call has been running for {_seconds(took_ms)}: {last[1]}"

    # ------------------------------------------------------------------ from the worker

    def note_duration(self, turn: int, began_ms: float, ended_ms: float) -> None:
        """Record how long a turn's records took."""
        if ended_ms - began_ms >= self._slow_ms:
            self._slow_turn = turn, began_ms, ended_ms

    def was_slow_recently(self, now_ms: float) -> bool:
        """Return True if a recent turn was slow."""
        return self._slow_turn is not None and now_ms - self._slow_turn[2] < _CAREFUL_MS

    def blame(self, now_ms: float) -> str:
        """Return a text to append to a failure that a slow call explains; else empty."""
        if self._slow_turn is None or now_ms - self._slow_turn[2] > _BLAMED_MS:
            return ""
        turn, began_ms, ended_ms = self._slow_turn
        last = (
            self._reported[1] if self._reported is not None and self._reported[0] == turn else None
        )
        what = last or "the functions that were called for the last records"
        return (
            f". Before that the worker was busy for {_seconds(ended_ms - began_ms)} with one or a"
            f" few calls: {what}. {self._limits()} The brokers work: make the call shorter"
        )

    def _limits(self) -> str:
        return (
            "An open transaction times out after transaction.timeout.ms ="
            f" {self._transaction_timeout_ms}, and the partitions are assigned to others after"
            f" max.poll.interval.ms = {self._max_poll_interval_ms}; the records are then processed"
            " again, with their side effects."
        )


def _in_words(place: ProcessedRecord, call: ActiveCall, labels: Mapping[str, str]) -> str:
    function = call.function or "the library itself"
    node = "" if call.node is None else f", node {with_label(call.node, labels)}"
    if place.topic is None:
        return f"{function}{node}, by a schedule of task {place.task}"
    return (
        f"{function}{node}, for topic {place.topic!r}, partition {place.partition}, offset"
        f" {place.offset}, task {place.task}"
    )


def _seconds(ms: float) -> str:
    return f"{ms / 1000:.0f} s" if ms >= 10_000 else f"{ms / 1000:.1f} s"
