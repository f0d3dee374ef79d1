"""One end of the pipe between an instance and a worker process: messages in both directions.

A message is a kind and what belongs to it. Sending never waits for the other end: messages lie in a
queue, and a thread of the channel's own writes them. Reading does wait.
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
import weakref
from typing import Any, Protocol

from logstate.app.instance.by_value import dumps, loads

#: messages that may be left out are, while so many wait
_CROWDED = 10_000
#: how long the end of a channel waits until what was sent is written
_FLUSH_S = 5.0


class Connection(Protocol):
    """What a duplex connection of multiprocessing offers."""

    def send_bytes(self, buf: bytes, /) -> None: ...
    def recv_bytes(self) -> bytes: ...
    def poll(self, timeout: float | None = 0.0, /) -> bool: ...
    def close(self) -> None: ...


_open_channels: weakref.WeakSet[Channel] = weakref.WeakSet()


class Channel:
    """See the module. ``send`` from any thread, ``receive`` from one."""

    def __init__(self, connection: Connection, name: str) -> None:
        self.connection = connection
        _open_channels.add(self)
        self._waiting: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._writer = threading.Thread(target=self._write, name=f"{name}-writer", daemon=True)
        self._writer.start()

    def send(self, kind: str, content: object = None) -> None:
        """Have a message written. Raises ConfigError where its content cannot travel."""
        self._waiting.put(dumps((kind, content)))

    def send_if_room(self, kind: str, content: object) -> None:
        """The same, unless the other end is far behind."""
        if self._waiting.qsize() < _CROWDED:
            self.send(kind, content)

    def receive(self) -> tuple[str, Any]:
        """The next message; raises EOFError or OSError where the other end is gone."""
        kind, content = loads(self.connection.recv_bytes())
        return kind, content

    def has_message(self, timeout_s: float) -> bool:
        """Whether there is one, or the end, within this time."""
        return self.connection.poll(timeout_s)

    def close(self) -> None:
        """Write what waits, and close this end."""
        self._waiting.put(None)
        if threading.current_thread() is not self._writer:
            self._writer.join(_FLUSH_S)
        self.connection.close()

    def _write(self) -> None:
        while (data := self._waiting.get()) is not None:
            try:
                self.connection.send_bytes(data)
            except (OSError, ValueError):
                return  # the other end is gone; whoever reads finds out


def _close_copies() -> None:
    """In a forked process: its copies would hide from the other end that this one ended."""
    for channel in list(_open_channels):
        with contextlib.suppress(OSError):
            channel.connection.close()


os.register_at_fork(after_in_child=_close_copies)
