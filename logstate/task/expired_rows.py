"""The streams of rows that expire of one task.

The rows of all its stores are deleted before the first one is emitted. So an operator below a
stream, which may write to a store with such a stream, never writes over a row that has expired and
is not emitted yet. The look is one scheduled call: if it fails, nothing of it remains, and what is
deleted is committed together with what is emitted.
"""

from __future__ import annotations

from logstate.contracts.processing import EmitExpired, TakeExpired, TaskContext


class ExpiredRows:
    """See the module. The order is that of times of expiry, then names of streams, then keys."""

    def __init__(self) -> None:
        #: by their names
        self.streams: dict[str, tuple[TakeExpired, EmitExpired]] = {}

    def add(self, task: TaskContext, stream: str, take: TakeExpired, emit: EmitExpired) -> None:
        """Add a stream; the first one schedules the look."""
        if not self.streams:
            task.schedule(1, "expiry", self.look, name="expired-rows")
        self.streams[stream] = take, emit

    def look(self, stream_time: int) -> None:
        """Delete and emit the rows that have expired at a stream time."""
        taken = [
            (expired_at, stream, number, key, value)
            for stream, (take, _) in self.streams.items()
            for number, (key, value, expired_at) in enumerate(take(stream_time))
        ]
        taken.sort(key=lambda row: row[:3])
        for expired_at, stream, _, key, value in taken:
            self.streams[stream][1](key, value, expired_at)

    def clear(self) -> None:
        """Forget the streams: the operators are made again."""
        self.streams.clear()
