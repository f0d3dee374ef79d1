"""The process that made an Application, and what a process that is forked from it is told.

A fork copies what an Application holds and none of its threads: the clients' sockets are shared,
the transactional id is the same, nothing processes. Whatever a copy did would be done to the other
one, so it does nothing: it raises, and closing it only forgets.
"""

from __future__ import annotations

import logging
import os
import signal
from types import FrameType
from typing import Any

from logstate.contracts.errors import LogstateError

_LOGGER = logging.getLogger(__name__)


class OwnerProcess:
    """See the module; made with the Application, in the process that owns it.

    >>> OwnerProcess("shop").is_here
    True
    """

    def __init__(self, application_id: str) -> None:
        self.pid = os.getpid()
        self._application_id = application_id

    @property
    def is_here(self) -> bool:
        """Whether this process is the one that made it."""
        return self.pid == os.getpid()

    def check(self) -> None:
        """Raises LogstateError in any other process."""
        if not self.is_here:
            raise LogstateError(self._explained())

    def forget(self) -> None:
        """Say that closing a copy does nothing."""
        _LOGGER.warning("nothing is closed here: %s", self._explained())

    def _explained(self) -> str:
        return (
            f"application {self._application_id!r} was made in process {self.pid}, and this is"
            f" process {os.getpid()}, which was forked from it: the copy has no threads, and shares"
            " its connections and its transactional id with the other one, so it neither runs nor"
            " answers here. Make the Application after the fork: with gunicorn in its"
            " post_worker_init hook or without --preload, each worker with a state_dir or slot of"
            " its own; with multiprocessing in the function of the process, or start processes by"
            " 'spawn'; let other processes read over HTTP (serve=)"
        )

    def passes_on(self, number: int, frame: FrameType | None, before: Any) -> bool:
        """In a forked process: the signal does there what it did before ``run``. Else False."""
        if self.is_here:
            return False
        does_as_before(number, frame, before)
        return True


def does_as_before(number: int, frame: FrameType | None, before: Any) -> None:
    """Have a signal do what its handler before says, which is in force from now on."""
    signal.signal(number, signal.SIG_DFL if before is None else before)
    if callable(before):
        before(number, frame)
    elif before != signal.SIG_IGN:
        os.kill(os.getpid(), number)
