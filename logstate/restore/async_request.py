"""Questions to the brokers that nobody waits for: asked in one turn, answered in a later one.

The calls are made on a thread of their own, one after the other; what follows from their answers is
done by whoever asks. A question that is given up is answered to nobody.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from logstate.contracts.clients import Background, Pending, Step, Steps


class AsyncRequest:
    """One at a time. ``background`` is made when it is needed first."""

    def __init__(self, background: Callable[[], Background]) -> None:
        self._background = background
        self._steps: Steps[Any] | None = None
        self._step: Step | None = None
        self._pending: Pending | None = None

    @property
    def is_under_way(self) -> bool:
        """It was begun, and has not been answered."""
        return self._steps is not None

    def go_on(self, begin: Callable[[], Steps[Any]], *, waits: bool) -> Steps[Any]:
        """What the questions of ``begin`` come to; None while there is no answer.

        Begins them, or goes on with those under way. Raises what they raise, and is over then.
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
            self.give_up()
            return stop.value
        except BaseException:
            self.give_up()
            raise

    def _asked(self, *, waits: bool) -> Step | None:
        """The call to be made now; None where it is being made."""
        step = self._step
        assert step is not None, "it was begun"
        if self._pending is None:
            if waits:
                return step
            self._pending = self._background().start(step.call, step.arguments)
        if not waits and not self._pending.done():
            return None
        pending, self._pending = self._pending, None
        return Step(step.name, pending.result)

    def give_up(self) -> None:
        """Ask no further."""
        self._steps = self._step = self._pending = None
