"""Directories of tasks that another worker on this machine has still open: they are waited for.

Workers of one application share a state directory. A worker that was silent for too long has lost
its tasks without knowing it, and closes them when it hears of it; until then the heir, if it has
the same directory, cannot open them. That is no reason to end: it tries again, and says for whom
it waits. Whoever waits for very long is told so by the error itself.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from logstate.contracts.clock import Clock
from logstate.contracts.errors import DirectoryInUseError
from logstate.contracts.records import TaskId
from logstate.task.owned_task import OwnedTask

_LOGGER = logging.getLogger(__name__)

#: between two attempts: opening costs questions to the brokers
_AGAIN_MS = 200.0
#: a worker that is silent loses its tasks after 45 s by the brokers' default, and may have many
_LONGEST_MS = 120_000.0


@dataclass
class _Wait:
    """Of one assignment of a task: whoever is given it later waits anew. Times are monotonic."""

    owned: OwnedTask
    since_ms: float
    again_ms: float = 0.0


class DirectoryLocks:
    """See the module."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waits: dict[TaskId, _Wait] = {}

    def may_try(self, owned: OwnedTask) -> bool:
        """Whether it is time to open the directory of a task, for the first time or again."""
        wait = self._of(owned)
        return wait is None or self._clock.monotonic_ms() >= wait.again_ms

    def wait(self, owned: OwnedTask, error: DirectoryInUseError) -> None:
        """It is open elsewhere. Raises the error where that has lasted for too long."""
        now_ms = self._clock.monotonic_ms()
        wait = self._of(owned)
        if wait is None:
            # Its text: who keeps an error keeps the frames that it came from, and in them the
            # stores of this worker. A log that is kept would hold their directories for ever.
            _LOGGER.warning("task %s waits for its directory: %s", owned.task_id, str(error))
            wait = self._waits[owned.task_id] = _Wait(owned, now_ms)
        if now_ms - wait.since_ms >= _LONGEST_MS:
            raise error
        wait.again_ms = now_ms + _AGAIN_MS

    def opened(self, owned: OwnedTask) -> None:
        """It is open here."""
        if self._of(owned) is not None:
            _LOGGER.info("task %s has its directory", owned.task_id)
        self._waits.pop(owned.task_id, None)

    def _of(self, owned: OwnedTask) -> _Wait | None:
        wait = self._waits.get(owned.task_id)
        return wait if wait is not None and wait.owned is owned else None
