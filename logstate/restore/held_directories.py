"""Directories of tasks that another worker on this machine has still open: they are waited for.

Workers of one application share a state directory. A worker that was silent for too long has lost
its tasks without knowing it, and closes them when it hears of it; until then the heir, if it has
the same directory, cannot open them. That is no reason to end: it tries again, and says for whom
it waits. Whoever waits for very long is told so by the error itself.
"""

from __future__ import annotations

import logging

from logstate.contracts.clock import Clock
from logstate.contracts.errors import DirectoryInUseError
from logstate.contracts.records import TaskId

_LOGGER = logging.getLogger(__name__)

#: between two attempts: opening costs questions to the brokers
_AGAIN_MS = 200.0
#: a worker that is silent loses its tasks after 45 s by the brokers' default, and may have many
_LONGEST_MS = 120_000.0


class HeldDirectories:
    """See the module."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        #: task -> since when, and when to try again
        self._held: dict[TaskId, tuple[float, float]] = {}

    def may_try(self, task_id: TaskId) -> bool:
        """Whether it is time to open the directory of a task, for the first time or again."""
        _, again_ms = self._held.get(task_id, (0.0, 0.0))
        return self._clock.monotonic_ms() >= again_ms

    def wait(self, task_id: TaskId, error: DirectoryInUseError) -> None:
        """It is open elsewhere. Raises the error where that has lasted for too long."""
        now_ms = self._clock.monotonic_ms()
        if task_id not in self._held:
            # Its text: who keeps an error keeps the frames that it came from, and in them the
            # stores of this worker. A log that is kept would hold their directories for ever.
            _LOGGER.warning("task %s waits for its directory: %s", task_id, str(error))
        since_ms, _ = self._held.get(task_id, (now_ms, 0.0))
        if now_ms - since_ms >= _LONGEST_MS:
            raise error
        self._held[task_id] = since_ms, now_ms + _AGAIN_MS

    def opened(self, task_id: TaskId) -> None:
        """It is open here."""
        if self._held.pop(task_id, None) is not None:
            _LOGGER.info("task %s has its directory", task_id)
