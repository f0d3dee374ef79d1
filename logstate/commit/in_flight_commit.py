"""A commit that continues while records are processed.

The commit is a list of steps (:mod:`logstate.commit.commit`). Steps that wait for the brokers run
in another thread, and the commit is suspended until they are done; every other step runs in the
worker thread, between two of its turns.
"""

from __future__ import annotations

import logging

from logstate.commit.commit import PAUSE, CommitReport
from logstate.contracts.clients import Background, Pending, Step, Steps
from logstate.contracts.error_text import text_of
from logstate.contracts.errors import LogstateError

_LOGGER = logging.getLogger(__name__)


class InFlightCommit:
    """One commit, from its first step to its end, its failure or its abandonment."""

    def __init__(self, steps: Steps[CommitReport], background: Background) -> None:
        self._steps = steps
        self._background = background
        #: the next step, and its call if that has begun
        self._step: Step | None = None
        self._pending: Pending | None = None

    def advance(self, *, waits: bool) -> Steps[CommitReport | None]:
        """Continue to the end, or without ``waits`` to a pause or a call that must be waited for.

        Returns None while it is in flight. Raises the error of the commit; call neither method
        then.
        """
        try:
            step = next(self._steps) if self._step is None else self._step
            while True:
                self._step = step
                if step is PAUSE:
                    self._step = step = next(self._steps)
                    if not waits and self._background.processes_between_steps:
                        return None
                call = self._poll_step(step, waits=waits) if step.awaits_brokers else step
                if call is None:
                    return None
                try:
                    result = yield call
                except Exception as exc:  # noqa: BLE001  the commit decides what an error means
                    step = self._steps.throw(exc)
                else:
                    step = self._steps.send(result)
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]

    def abandon(self) -> Steps[None]:
        """Stop the commit: no further call is made, and none is left running.

        A transaction whose commit was in flight may still be committed.
        """
        pending, self._pending = self._pending, None
        if pending is not None and self._step is not None:
            try:
                yield Step(self._step.name, pending.result)
            except LogstateError as exc:
                _LOGGER.info("an abandoned commit failed: %s", text_of(exc))
        self._steps.close()

    def _poll_step(self, step: Step, *, waits: bool) -> Step | None:
        """Return the step if its result is available or may be waited for; else begin its call."""
        if self._pending is None:
            if waits:
                return step
            self._pending = self._background.start(step.call, step.arguments)
        if not waits and not self._pending.done():
            return None
        pending, self._pending = self._pending, None
        return Step(step.name, pending.result)
