"""The time between the request to stop an instance that serves queries, and its end.

A load balancer notices with its next probe that an instance is not ready any more, and sends it
requests until then. So the instance first only reports that it is not ready, and continues to
process records and to answer; then it stops as any other does.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from math import inf
from queue import Empty, SimpleQueue
from typing import Protocol


@dataclass(frozen=True)
class StopRequest:
    """The arguments of a stop: how long it may take, None: as long as it needs."""

    within: timedelta | None
    leaves_group: bool

    def left(self, passed_s: float) -> timedelta | None:
        """Return how long the stop may take after a while."""
        if self.within is None:
            return None
        return max(timedelta(0), self.within - timedelta(seconds=passed_s))


class Stop(Protocol):
    """Stops the workers."""

    def __call__(self, within: timedelta | None, *, leaves_group: bool) -> None: ...


class Drain:
    """Delays a stop. ``stop`` stops the workers; ``period_s`` returns how long to wait before it.

    A handler of a signal may call :meth:`begin`: a SimpleQueue can be used there, whatever the
    interrupted thread does.
    """

    def __init__(self, stop: Stop, period_s: Callable[[], float]) -> None:
        self._stop = stop
        self._period_s = period_s
        #: None: the instance has ended
        self._requests: SimpleQueue[StopRequest | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        #: a stop was requested
        self.has_begun = False

    def start(self, name: str) -> None:
        """Start the thread."""
        thread = threading.Thread(target=self._run, name=name, daemon=True)
        thread.start()
        self._thread = thread

    def begin(self, request: StopRequest) -> None:
        """Stop after the period, or at once without one; a second request does not begin again."""
        is_first, self.has_begun = not self.has_begun, True
        can_wait = self._thread is not None and self._thread.is_alive()
        if can_wait and (not is_first or self._period_s() > 0):
            self._requests.put(request)
        else:
            self._stop(request.within, leaves_group=request.leaves_group)

    def end(self) -> None:
        """End the thread, because the instance has ended."""
        self._requests.put(None)

    def _run(self) -> None:
        request = self._requests.get()
        if request is None:
            return
        began_s = time.monotonic()
        until_s = began_s + min(self._period_s(), _longest_s(request))
        while (left_s := until_s - time.monotonic()) > 0:
            try:
                more = self._requests.get(timeout=left_s)
            except Empty:
                break
            if more is None:
                return
            until_s = min(until_s, time.monotonic() + _longest_s(more))
            leaves_group = request.leaves_group or more.leaves_group
            request = StopRequest(more.within or request.within, leaves_group)
        self._stop(request.left(until_s - began_s), leaves_group=request.leaves_group)


def _longest_s(request: StopRequest) -> float:
    """Return the longest period: at most half of the time for the stop."""
    return inf if request.within is None else request.within.total_seconds() / 2
