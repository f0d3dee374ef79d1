"""When final results are due: emission on window close (KIP-825).

A window is final once stream time has passed its end plus the grace. Operators that emit on close
keep two clocks of the task for that: how far they have emitted, and when they last looked. Both
survive a crash, so no final result is lost or repeated.

As in Kafka Streams, windows are looked for only when a record arrives, and at most once per
``emit_interval_ms`` of wall-clock time; a look counts even if nothing was due. Only an advance of
the close time emits.
"""

from __future__ import annotations

from logstate.contracts.processing import TaskContext, TimeCell
from logstate.topology.declaring.windows import Emit


def stream_time_of(task: TaskContext, store: str, group_number: int, emit: Emit) -> TimeCell:
    """The clock by which an aggregation node judges what is late and what is closed.

    Every node has its own, the nodes of a cogroup included: an input that lags is not made late by
    another. Only final results need one clock for all nodes that write a store, because what one
    of them has emitted no other may change.

    Named after the store, which the user names, never after the operator, whose generated name
    would pass to another one when an operator is inserted before it.
    """
    is_shared = emit == "close" or group_number == 0
    return task.time_cell(f"observed:{store}" if is_shared else f"observed:{store}:{group_number}")


class CloseClock:
    """How far one operator has emitted final results."""

    __slots__ = ("_emit_interval_ms", "_emitted", "_looked", "_wall_clock_ms")

    def __init__(self, task: TaskContext, store: str, emit_interval_ms: int) -> None:
        # Keyed by the store, as Kafka Streams keys the time it commits with the offsets.
        self._emitted = task.time_cell(f"emitted:{store}")
        self._looked = task.time_cell(f"looked:{store}")
        self._emit_interval_ms = emit_interval_ms
        self._wall_clock_ms = task.wall_clock_ms

    @property
    def emitted_until(self) -> int:
        """The close time of the last emission; -1 before the first."""
        return self._emitted.time

    def is_due(self, close_time: int) -> bool:
        """Whether to look for windows that closed before ``close_time``; counts as a look."""
        interval = self._emit_interval_ms
        if interval:
            now, looked = self._wall_clock_ms(), self._looked.time
            # A wall clock that was set back must not silence us until it has caught up.
            if looked != -1 and looked <= now < looked + interval:
                return False
            self._looked.time = now
        emitted = self._emitted.time
        return emitted == -1 or emitted < close_time

    def advance(self, close_time: int) -> None:
        """Everything that closed before ``close_time`` was emitted."""
        self._emitted.time = close_time
