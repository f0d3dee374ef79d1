"""One end of the pipe between an instance and a worker process: messages in both directions.

A message is a kind and its content. Sending never waits for the other end: messages are queued and
a thread of the channel writes them. Receiving does wait.
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
import weakref
from typing import Any, Protocol

from logstate.app.instance.by_value import dumps, loads

#: optional messages are dropped while this many are queued
_CROWDED = 10_000
#: how long closing a channel waits until queued messages are written
_FLUSH_S = 5.0


class Connection(Protocol):
    """The part of multiprocessing's duplex connection that a channel uses."""

    def send_bytes(self, buf: bytes, /) -> None: ...
    def recv_bytes(self) -> bytes: ...
    def poll(self, timeout: float | None = 0.0, /) -> bool: ...
    def close(self) -> None: ...


_open_channels: weakref.WeakSet[Channel] = weakref.WeakSet()


class Channel:
    """Sends from any thread, receives in one thread; see the module for the protocol."""

    def __init__(self, connection: Connection, name: str) -> None:
        self.connection = connection
        _open_channels.add(self)
        self._waiting: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._writer = threading.Thread(target=self._write, name=f"{name}-writer", daemon=True)
        self._writer.start()

    def send(self, kind: str, content: object = None) -> None:
        """Queue a message. Raises ConfigError if its content cannot be pickled."""
        self._waiting.put(dumps((kind, content)))

    def send_if_room(self, kind: str, content: object) -> None:
        """Queue a message unless the other end is far behind."""
        if self._waiting.qsize() < _CROWDED:
            self.send(kind, content)

    def receive(self) -> tuple[str, Any]:
        """Return the next message; raise EOFError or OSError if the other end is gone."""
        kind, content = loads(self.connection.recv_bytes())
        return kind, content

    def has_message(self, timeout_s: float) -> bool:
        """Return True if a message, or the end of the pipe, arrives within this time."""
        return self.connection.poll(timeout_s)

    def close(self) -> None:
        """Write queued messages, and close this end."""
        self._waiting.put(None)
        if threading.current_thread() is not self._writer:
            self._writer.join(_FLUSH_S)
        self.connection.close()

    def _write(self) -> None:
        while (data := self._waiting.get()) is not None:
            try:
                self.connection.send_bytes(data)
            except (OSError, ValueError):
                return  # the other end is gone; the receiving thread notices that


def _close_copies() -> None:
    """Close a forked process's copies, which would hide from the other end that this one ended."""
    for channel in list(_open_channels):
        with contextlib.suppress(OSError):
            channel.connection.close()


os.register_at_fork(after_in_child=_close_copies)
