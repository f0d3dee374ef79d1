"""When the group's committed offsets are asked for, so that waiting for some does not stop others.

Offsets that an open transaction may change are not told: the question waits on the worker's own
thread, and all its tasks with it. Where nothing else runs there is nothing better to do. Where
tasks run, the first question is short, each following one longer, because a slow broker must be
able to answer at all, and between two of them the tasks have nine times as long as the last took.

Invariant: while tasks run, at most a tenth of the time goes into unanswered questions.
"""

from __future__ import annotations

from logstate.contracts.clock import Clock

#: one question where nothing else runs, and the longest there is
LONGEST_S = 0.5
#: the first one where tasks run
_FIRST_S = 0.05
#: how long the tasks have, in times of what an unanswered question took
_REST = 9


class InquiryPace:
    """Times of the questions of one worker."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._timeout_s = _FIRST_S
        self._began_ms = 0.0
        self._next_ms = float("-inf")

    def timeout_s(self, *, holds_up: bool) -> float | None:
        """How long a question may take now; None where it is not to be asked yet.

        ``holds_up``: tasks run, which would have to wait for the answer.
        """
        self._began_ms = self._clock.monotonic_ms()
        if not holds_up:
            return LONGEST_S
        return self._timeout_s if self._began_ms >= self._next_ms else None

    def answered(self) -> None:
        """The question was answered: the next one is the first of its kind."""
        self._timeout_s = _FIRST_S
        self._next_ms = float("-inf")

    def unanswered(self) -> None:
        """The question timed out."""
        now = self._clock.monotonic_ms()
        self._next_ms = now + _REST * (now - self._began_ms)
        self._timeout_s = min(LONGEST_S, 2 * self._timeout_s)
