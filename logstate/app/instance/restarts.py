"""Decide what follows when a worker fails: the response, the wait, and when to stop restarting.

The caller reads clocks, waits, and starts the next worker.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from logstate.contracts.errors import TopicsChangedError

_LOGGER = logging.getLogger(__name__)

#: Kafka Streams' REPLACE_THREAD, SHUTDOWN_CLIENT and SHUTDOWN_APPLICATION
UncaughtResponse: TypeAlias = Literal["replace_worker", "stop_instance", "stop_application"]
UNCAUGHT_RESPONSES: tuple[UncaughtResponse, ...] = (
    "stop_instance",
    "replace_worker",
    "stop_application",
)
#: maps what stopped the worker to the response; or always the same response
UncaughtHandler: TypeAlias = "UncaughtResponse | Callable[[Exception], UncaughtResponse]"

#: delay between the end of a worker and its restart: doubled each time, up to the maximum
FIRST_WAIT_MS = 500.0
LONGEST_WAIT_MS = 30_000.0
#: more restarts within the window mean a permanent failure; waits add up to a third of the window
RESTARTS_MAX = 12
WINDOW_MS = 600_000.0


def response_to(handler: UncaughtHandler, failure: Exception) -> UncaughtResponse:
    """Return the handler's response to a failure; ``stop_instance`` if the handler itself fails.

    >>> response_to("replace_worker", ValueError())
    'replace_worker'

    The handler is not called for changed topics: the next start determines whether it can continue.
    """
    if isinstance(failure, TopicsChangedError):
        return "replace_worker"
    if not callable(handler):
        return handler
    try:
        response: object = handler(failure)
    except Exception:
        _LOGGER.exception("the uncaught exception handler failed; the instance stops")
        return "stop_instance"
    if isinstance(response, str) and response in UNCAUGHT_RESPONSES:
        return response
    _LOGGER.error(
        "the uncaught exception handler must return one of %s; it returned %r, the instance stops",
        UNCAUGHT_RESPONSES,
        response,
    )
    return "stop_instance"


@dataclass
class Restarts:
    """Counts the restarts of one worker and computes the wait before each, up to a maximum number.

    >>> restarts = Restarts()
    >>> restarts.wait_ms(now_ms=0), restarts.wait_ms(now_ms=10)
    (500.0, 1000.0)
    """

    _times: deque[float] = field(default_factory=deque)

    def wait_ms(self, now_ms: float) -> float | None:
        """Return how long to wait before the next start; None if the worker is not restarted."""
        self._times.append(now_ms)
        while now_ms - self._times[0] > WINDOW_MS:
            self._times.popleft()
        if len(self._times) > RESTARTS_MAX:
            return None
        return min(FIRST_WAIT_MS * 2.0 ** (len(self._times) - 1), LONGEST_WAIT_MS)

    def too_many(self) -> str:
        """Describe why there are no more restarts."""
        minutes = f"{WINDOW_MS / 60_000:g} minutes"
        return f"it ended {len(self._times)} times within {minutes}, and is not started again"
