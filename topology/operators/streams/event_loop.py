"""The event loop of this process, which runs asynchronous functions of users in its own thread."""

from __future__ import annotations

import asyncio
import os
from threading import Lock, Thread

_LOCK = Lock()
#: by process: a child of a fork has the loop of its parent, but not the thread
_LOOPS: dict[int, asyncio.AbstractEventLoop] = {}


def event_loop() -> asyncio.AbstractEventLoop:
    """Return the loop. The first call starts it, and it runs as long as the process.

    All tasks share it, so a client that one call has opened, such as an HTTP client with its
    connections, can be used by all others.
    """
    with _LOCK:
        loop = _LOOPS.get(os.getpid())
        if loop is None:
            loop = _LOOPS[os.getpid()] = asyncio.new_event_loop()
            Thread(target=loop.run_forever, name="logstate-event-loop", daemon=True).start()
    return loop
