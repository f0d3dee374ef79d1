"""A worker process, seen from the instance that started it.

It is started with a socket and nothing else; what it is to run is the first thing that it is sent.
The process imports modules by name and never runs the script of its parent again, so scripts need
no ``if __name__ == "__main__"``.
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
from collections.abc import Callable
from concurrent.futures import Future
from multiprocessing.connection import Connection as SocketConnection
from typing import Any, Protocol

from logstate.app.instance.by_value import UNPICKLED_HINT, dumps, loads
from logstate.app.instance.channel import Channel, Connection
from logstate.app.instance.questions import CloseCursor, Question
from logstate.contracts.error_text import text_of
from logstate.contracts.errors import StoreError, StoreUnavailableError

#: a global store makes its first view on request, which may take ten seconds
ANSWER_S = 15.0
#: from the end of the pipe to the end of the process
_EXIT_S = 5.0
#: the number of what nobody waits for
_NOBODY = -1
_PROGRAM = "import sys; sys.path[:] = {path!r}; from {module} import main; main({fd})"


class Process(Protocol):
    """What can be started, watched and killed: a process, or what stands in for one."""

    connection: Connection

    def how_it_ended(self) -> str | None:
        """None while it lives."""

    def kill(self) -> None:
        """End it at once."""

    def close(self) -> None:
        """It has ended, or is about to: wait for that, and forget it."""


Spawn = Callable[[int], Process]


class SpawnedProcess:
    """A Python process that runs ``main(fd)`` of a module."""

    def __init__(self, module: str) -> None:
        ours, theirs = socket.socketpair()
        with ours, theirs:  # both, where the process cannot be started
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
    """One life of a worker: the process, its channel, and who waits for its answers."""

    def __init__(self, number: int, process: Process) -> None:
        self.number = number
        self.process = process
        self.channel = Channel(process.connection, f"logstate-worker-{number}")
        #: which others it was told of
        self.company: frozenset[int] = frozenset()
        #: why it failed, where it said so
        self.failure: Exception | None = None
        self._numbers = itertools.count()
        self._asked: dict[int, Future[tuple[bool, bytes]]] = {}
        self._lock = threading.Lock()
        #: how it ended; None while it may answer
        self._how: str | None = None

    def ask(self, store: str, question: Question) -> Any:
        """Its answer; raises what the read raised there, or StoreUnavailableError without one."""
        with self._lock:
            if self._how is not None:
                raise self._gone()
            number, future = next(self._numbers), Future[tuple[bool, bytes]]()
            self._asked[number] = future
        is_taken = False
        try:
            self.channel.send("ask", (number, dumps(question)))
            with contextlib.suppress(TimeoutError):
                future.exception(ANSWER_S)
            if future.done():
                is_answer, content = future.result()
                found = self._read(store, content)
                if not is_answer:
                    raise found
                is_taken = True
                return found
        finally:
            with self._lock:
                is_to_come = self._asked.pop(number, None) is not None
            if not is_taken and not is_to_come:
                self.tell(CloseCursor(number))
        raise StoreUnavailableError(
            f"store {store!r}: worker {self.number} did not answer within {ANSWER_S:g} s; it"
            " is busy or hangs, and its log says with what. Try again"
        )

    def tell(self, question: Question) -> None:
        """Have it hear this; nobody waits for what it says."""
        self.channel.send("ask", (_NOBODY, dumps(question)))

    def answered(self, number: int, is_answer: bool, content: bytes) -> None:
        """An answer came, or what was raised instead; whoever asked reads it."""
        with self._lock:  # either this takes the future, or whoever asked has given it up
            future = self._asked.pop(number, None)
        if future is not None:
            future.set_result((is_answer, content))
        elif number != _NOBODY:
            self.tell(CloseCursor(number))

    def close(self, why: str) -> str:
        """It is gone: tell those who wait. Returns how it ended, as far as that is known."""
        self.process.close()
        with self._lock:
            how = self._how = self.process.how_it_ended() or why
            asked, self._asked = list(self._asked.values()), {}
        for future in asked:
            future.set_exception(self._gone())
        self.channel.close()
        return how

    def _read(self, store: str, content: bytes) -> Any:
        try:
            return loads(content)
        except Exception as exc:
            raise StoreError(
                f"store {store!r}: what worker {self.number} answered was pickled there and cannot"
                f" be unpickled here: {type(exc).__name__}: {text_of(exc)}. {UNPICKLED_HINT}"
            ) from exc

    def _gone(self) -> StoreUnavailableError:
        return StoreUnavailableError(
            f"the store cannot be read now: worker {self.number} {self._how}; try again"
        )
