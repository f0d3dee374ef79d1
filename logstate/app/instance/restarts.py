"""What follows when a worker fails: who decides, how long it waits, when it is given up.

Pure: the caller looks at clocks, waits, and starts the next one.
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
#: what stopped the worker -> what follows; or always the same
UncaughtHandler: TypeAlias = "UncaughtResponse | Callable[[Exception], UncaughtResponse]"

#: between the end of a worker and the start of the next: doubled each time, up to the longest
FIRST_WAIT_MS = 500.0
LONGEST_WAIT_MS = 30_000.0
#: more of them within the window are a fault that no start will mend; waits add up to a third of it
RESTARTS_MAX = 12
WINDOW_MS = 600_000.0


def response_to(handler: UncaughtHandler, failure: Exception) -> UncaughtResponse:
    """What the handler says to a failure; one that fails itself says ``stop_instance``.

    >>> response_to("replace_worker", ValueError())
    'replace_worker'

    Nobody is asked about topics that changed: the next start finds out whether it can go on.
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
    """The restarts of one worker: the wait before each, until there were too many.

    >>> restarts = Restarts()
    >>> restarts.wait_ms(now_ms=0), restarts.wait_ms(now_ms=10)
    (500.0, 1000.0)
    """

    _times: deque[float] = field(default_factory=deque)

    def wait_ms(self, now_ms: float) -> float | None:
        """How long to wait before the next start; None where there is to be none."""
        self._times.append(now_ms)
        while now_ms - self._times[0] > WINDOW_MS:
            self._times.popleft()
        if len(self._times) > RESTARTS_MAX:
            return None
        return min(FIRST_WAIT_MS * 2.0 ** (len(self._times) - 1), LONGEST_WAIT_MS)

    def too_many(self) -> str:
        """Says that there were too many."""
        minutes = f"{WINDOW_MS / 60_000:g} minutes"
        return f"it ended {len(self._times)} times within {minutes}, and is not started again"
