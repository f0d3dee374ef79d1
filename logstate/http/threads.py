"""Threads for blocking calls, with a separate limit for each kind of work.

A request for a key may wait for another instance, whose response needs a thread there. With one
pool for all, instances that query each other would use all threads and wait for each other: until
their time-outs nothing would be served, not even health checks.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

try:
    import anyio
    import anyio.to_thread
except ImportError as error:  # pragma: no cover - depends on what is installed
    raise ImportError("Queries over HTTP need Starlette: pip install 'logstate[http]'.") from error

T = TypeVar("T")


class Threads:
    """A limited number of threads; further calls wait."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._limiter: anyio.CapacityLimiter | None = None

    async def run(self, call: Callable[..., T], *arguments: Any) -> T:
        """Run a call in one of them; return its result."""
        if self._limiter is None:  # it belongs to the event loop
            self._limiter = anyio.CapacityLimiter(self._most)
        bound = partial(call, *arguments)
        return await anyio.to_thread.run_sync(bound, limiter=self._limiter)

    async def run_to_its_end(self, call: Callable[[], None]) -> None:
        """Run a call even if its caller is cancelled."""
        with anyio.CancelScope(shield=True):
            await self.run(call)
