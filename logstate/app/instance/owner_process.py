"""Detect use of an Application in a process that was forked from the one that created it.

A fork copies the Application's objects but none of its threads: the clients' sockets are shared,
the transactional id is the same, nothing is processed. Any action of the copy would affect the
original, so the copy does nothing: its methods raise, and closing it only logs a warning.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from types import FrameType
from typing import Any

from logstate.contracts.errors import LogstateError

#: set in a worker process before it imports user modules
is_worker = threading.Event()


_LOGGER = logging.getLogger(__name__)


class OwnerProcess:
    """The process that created an Application.

    >>> OwnerProcess("shop").is_here
    True
    """

    def __init__(self, application_id: str) -> None:
        self.pid = os.getpid()
        self._application_id = application_id

    @property
    def is_here(self) -> bool:
        """True if this process created the Application."""
        return self.pid == os.getpid()

    def check(self) -> None:
        """Raise LogstateError in any other process."""
        if not self.is_here:
            raise LogstateError(self._wrong_process_text())

    def forget(self) -> None:
        """Log that closing a copy does nothing."""
        _LOGGER.warning("nothing is closed here: %s", self._wrong_process_text())

    def _wrong_process_text(self) -> str:
        return (
            f"application {self._application_id!r} was created in process {self.pid}, and this is"
            f" process {os.getpid()}, which was forked from it: the copy has no threads, and shares"
            " its connections and its transactional id with the original, so it neither runs nor"
            " answers here. Create the Application after the fork: with gunicorn in its"
            " post_worker_init hook or without --preload, each worker with a separate state_dir or"
            " slot; with multiprocessing in the function of the process, or start processes with"
            " 'spawn'; let other processes read over HTTP (serve=)"
        )

    def is_forked_and_handled(self, number: int, frame: FrameType | None, before: Any) -> bool:
        """In a forked process, run the signal's previous handler and return True. Else return
        False.
        """
        if self.is_here:
            return False
        handle_as_before(number, frame, before)
        return True


def handle_as_before(number: int, frame: FrameType | None, before: Any) -> None:
    """Restore a signal's previous handler and handle the signal with it."""
    signal.signal(number, signal.SIG_DFL if before is None else before)
    if callable(before):
        before(number, frame)
    elif before != signal.SIG_IGN:
        os.kill(os.getpid(), number)
