"""A commit that goes on while records are processed.

How it works. The commit is a list of steps (:mod:`logstate.commit.commit`). Those that await the
brokers run in another thread, and the commit stands still until they are done; every other step
runs on the worker's thread, between two of its turns.
"""

from __future__ import annotations

import logging

from logstate.commit.commit import PAUSE, CommitReport
from logstate.contracts.clients import Background, Pending, Step, Steps
from logstate.contracts.error_text import text_of
from logstate.contracts.errors import LogstateError

_LOGGER = logging.getLogger(__name__)


class InFlightCommit:
    """One commit, from its first step to its end, its failure or its being given up."""

    def __init__(self, steps: Steps[CommitReport], background: Background) -> None:
        self._steps = steps
        self._background = background
        #: the step to be made next, and its call where that has begun
        self._step: Step | None = None
        self._pending: Pending | None = None

    def advance(self, *, waits: bool) -> Steps[CommitReport | None]:
        """Go on to the end, or without ``waits`` to a pause, or a call that has to be waited for.

        None while it is under way. Raises what made it fail; call neither method then.
        """
        try:
            step = next(self._steps) if self._step is None else self._step
            while True:
                self._step = step
                if step is PAUSE:
                    self._step = step = next(self._steps)
                    if not waits and self._background.gives_turns:
                        return None
                call = self._begun(step, waits=waits) if step.awaits_brokers else step
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
        """Stop it: no further call is made, and none is left running.

        A transaction whose commit was under way may be committed nevertheless.
        """
        pending, self._pending = self._pending, None
        if pending is not None and self._step is not None:
            try:
                yield Step(self._step.name, pending.result)
            except LogstateError as exc:
                _LOGGER.info("an abandoned commit failed: %s", text_of(exc))
        self._steps.close()

    def _begun(self, step: Step, *, waits: bool) -> Step | None:
        """The step, if its result is there or may be waited for; its call is begun otherwise."""
        if self._pending is None:
            if waits:
                return step
            self._pending = self._background.start(step.call, step.arguments)
        if not waits and not self._pending.done():
            return None
        pending, self._pending = self._pending, None
        return Step(step.name, pending.result)
