"""Wait for directories of tasks that another worker on this machine still has open.

Workers of one application share a state directory. A worker that was silent for too long has lost
its tasks without knowing it, and closes them when it is notified. Until then the next owner cannot
open them if it has the same directory. This is not a fatal error: the next owner retries and logs
which process it waits for. After a long wait the error is raised.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from logstate.contracts.clock import Clock
from logstate.contracts.errors import DirectoryInUseError
from logstate.contracts.records import TaskId
from logstate.task.owned_task import OwnedTask

_LOGGER = logging.getLogger(__name__)

#: between two attempts: opening makes requests to the brokers
_AGAIN_MS = 200.0
#: a worker that loses a task in order closes it within this time
_USUAL_MS = 5_000.0
#: a silent worker loses its tasks after 45 s by the brokers' default, and may have many
_LONGEST_MS = 120_000.0


@dataclass
class _Wait:
    """The wait of one assignment of a task; a later assignment has its own. Times are monotonic."""

    owned: OwnedTask
    since_ms: float
    again_ms: float = 0.0
    is_logged: bool = False


class DirectoryLocks:
    """Schedules attempts to open task directories that are in use."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waits: dict[TaskId, _Wait] = {}

    def may_try(self, owned: OwnedTask) -> bool:
        """Return True if the directory of a task may be opened now, for the first time or again."""
        wait = self._wait_of(owned)
        return wait is None or self._clock.monotonic_ms() >= wait.again_ms

    def wait(self, owned: OwnedTask, error: DirectoryInUseError) -> None:
        """Record that the directory is in use. Raises the error if that has lasted for too long."""
        now_ms = self._clock.monotonic_ms()
        wait = self._wait_of(owned)
        if wait is None:
            wait = self._waits[owned.task_id] = _Wait(owned, now_ms)
        if not wait.is_logged and now_ms - wait.since_ms >= _USUAL_MS:
            wait.is_logged = True
            # Log the text, not the error: an error references its stack frames and thereby the
            # stores of this worker. A log handler that keeps it would keep their directories open.
            _LOGGER.warning("task %s waits for its directory: %s", owned.task_id, str(error))
        if now_ms - wait.since_ms >= _LONGEST_MS:
            raise error
        wait.again_ms = now_ms + _AGAIN_MS

    def opened(self, owned: OwnedTask) -> None:
        """Record that the directory was opened."""
        wait = self._wait_of(owned)
        if wait is not None and wait.is_logged:
            _LOGGER.info("task %s has opened its directory", owned.task_id)
        self._waits.pop(owned.task_id, None)

    def _wait_of(self, owned: OwnedTask) -> _Wait | None:
        wait = self._waits.get(owned.task_id)
        return wait if wait is not None and wait.owned is owned else None
