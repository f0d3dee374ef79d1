"""A worker process as seen by the instance that started it.

It is started with only a socket; the first message contains the program to run. The process imports
modules by name and never runs the script of its parent again, so scripts need no ``if __name__ ==
"__main__"``.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from multiprocessing.connection import Connection as SocketConnection
from typing import Any, Protocol

from logstate.app.instance.by_value import UNPICKLED_HINT, dumps, loads
from logstate.app.instance.channel import Channel, Connection
from logstate.contracts.error_text import text_of
from logstate.contracts.errors import StoreError, StoreUnavailableError
from logstate.queries.requests import ReadReply, ReadRequest

#: a global store creates its first view on request, which may take ten seconds
ANSWER_S = 15.0
#: from the end of the pipe to the end of the process
_EXIT_S = 5.0
_PROGRAM = "import sys; sys.path[:] = {path!r}; from {module} import main; main({fd})"


class Process(Protocol):
    """A process, or a test double, that can be started, watched and killed."""

    connection: Connection

    def how_it_ended(self) -> str | None:
        """Return how the process ended; None while it runs."""

    def kill(self) -> None:
        """Kill it at once."""

    def close(self) -> None:
        """Wait for a process that has ended or is about to, and release it."""


Spawn = Callable[[int], Process]


class SpawnedProcess:
    """A Python process that runs ``main(fd)`` of a module."""

    def __init__(self, module: str) -> None:
        ours, theirs = socket.socketpair()
        with ours, theirs:  # closes both if the process cannot be started
            fd = theirs.fileno()
            path = [place or os.getcwd() for place in sys.path]  # noqa: PTH109  as Python has it
            code = _PROGRAM.format(path=path, module=module, fd=fd)
            self._process = subprocess.Popen(
                [sys.executable, "-c", code], pass_fds=[fd], stdin=subprocess.DEVNULL
            )
            self.connection: Connection = SocketConnection(ours.detach())

    def how_it_ended(self) -> str | None:
        code = self._process.poll()
        if code is None:
            return None
        if code >= 0:
            return f"ended with exit code {code}"
        with contextlib.suppress(ValueError):
            return f"was killed by {signal.Signals(-code).name}"
        return f"was killed by signal {-code}"

    def kill(self) -> None:
        self._process.kill()

    def close(self) -> None:
        try:
            self._process.wait(_EXIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(_EXIT_S)


class WorkerProcess:
    """One run of a worker: the process, its channel, and pending requests."""

    def __init__(self, number: int, process: Process) -> None:
        self.number = number
        self.process = process
        self.channel = Channel(process.connection, f"logstate-worker-{number}")
        #: the sibling workers that it was notified of, and how many tasks each owns
        self.siblings: Mapping[int, int] = {}
        #: the exception that it reported before it failed
        self.failure: Exception | None = None
        self._numbers = itertools.count()
        self._asked: dict[int, Future[tuple[bool, bytes]]] = {}
        self._lock = threading.Lock()
        #: how it ended; None while it may answer
        self._how: str | None = None

    def ask(self, request: ReadRequest) -> ReadReply:
        """Return the reply; raise what the read raised, or StoreUnavailableError without a reply.

        The number of a request is the cursor of the page after its reply. So the cursor can be
        closed without having received the reply: one that came too late, or that could not be
        pickled, leaves no iterator open.
        """
        with self._lock:
            if self._how is not None:
                raise self._store_unavailable()
            number, future = next(self._numbers), Future[tuple[bool, bytes]]()
            self._asked[number] = future
        is_taken = False
        try:
            self.channel.send("ask", (number, dumps(request)))
            with contextlib.suppress(TimeoutError):
                future.exception(ANSWER_S)
            if future.done():
                is_answer, content = future.result()
                found = self._read(request.store, content)
                if not is_answer:
                    raise found
                is_taken = True
                return found  # type: ignore[no-any-return]
        finally:
            with self._lock:
                is_to_come = self._asked.pop(number, None) is not None
            if not is_taken and not is_to_come:
                self.close_cursor(str(number))
        raise StoreUnavailableError(
            f"store {request.store!r}: worker {self.number} did not answer within {ANSWER_S:g} s;"
            " it is busy or hangs, and its log shows with what. Try again"
        )

    def close_cursor(self, cursor: str) -> None:
        """Close an iterator that is open there, without waiting."""
        self.channel.send("close", cursor)

    def answered(self, number: int, is_answer: bool, content: bytes) -> None:
        """Pass an answer, or the exception raised instead, to the thread that asked."""
        with self._lock:  # either this takes the future, or the asking thread has abandoned it
            future = self._asked.pop(number, None)
        if future is not None:
            future.set_result((is_answer, content))
        else:
            self.close_cursor(str(number))

    def close(self, why: str) -> str:
        """Release an ended process and fail pending requests. Returns how it ended, if known."""
        self.process.close()
        with self._lock:
            how = self._how = self.process.how_it_ended() or why
            asked, self._asked = list(self._asked.values()), {}
        for future in asked:
            future.set_exception(self._store_unavailable())
        self.channel.close()
        return how

    def _read(self, store: str, content: bytes) -> Any:
        try:
            return loads(content)
        except Exception as exc:
            raise StoreError(
                f"store {store!r}: the answer of worker {self.number} was pickled there and cannot"
                f" be unpickled here: {type(exc).__name__}: {text_of(exc)}. {UNPICKLED_HINT}"
            ) from exc

    def _store_unavailable(self) -> StoreUnavailableError:
        return StoreUnavailableError(
            f"the store cannot be read now: worker {self.number} {self._how}; try again"
        )
