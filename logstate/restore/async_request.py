"""Requests to the brokers that do not block: sent in one turn, answered in a later one.

The calls run on a separate thread, one after the other; the caller processes their results. The
results of an abandoned request are dropped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from logstate.contracts.clients import Background, Pending, Step, Steps


class AsyncRequest:
    """Runs one request at a time. ``background`` is called when it is first needed."""

    def __init__(self, background: Callable[[], Background]) -> None:
        self._background = background
        self._steps: Steps[Any] | None = None
        self._step: Step | None = None
        self._pending: Pending | None = None

    @property
    def is_under_way(self) -> bool:
        """True if the request was started and has not been answered yet."""
        return self._steps is not None

    def advance(self, begin: Callable[[], Steps[Any]], *, waits: bool) -> Steps[Any]:
        """Start or continue the request ``begin`` and return its result; None while it is pending.

        Raises the request's errors; the request is over then.
        """
        try:
            if self._steps is None:
                self._steps = begin()
                self._step = next(self._steps)
            while True:
                step = self._asked(waits=waits)
                if step is None:
                    return None
                self._step = self._steps.send((yield step))
        except StopIteration as stop:
            self.abandon()
            return stop.value
        except BaseException:
            self.abandon()
            raise

    def _asked(self, *, waits: bool) -> Step | None:
        """Return the next call to make; None while it is running."""
        step = self._step
        assert step is not None, "the request was started"
        if self._pending is None:
            if waits:
                return step
            self._pending = self._background().start(step.call, step.arguments)
        if not waits and not self._pending.done():
            return None
        pending, self._pending = self._pending, None
        return Step(step.name, pending.result)

    def abandon(self) -> None:
        """Drop the request."""
        self._steps = self._step = self._pending = None
