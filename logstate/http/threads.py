"""Threads for what blocks, each kind of work with its own.

A request for a key may wait for another instance, whose answer takes a thread there. From one pool
for all, instances that ask each other would hold every thread and wait for the other's: until their
time-outs nobody would be answered, health neither.
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
    """So many at most; who comes later waits."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._limiter: anyio.CapacityLimiter | None = None

    async def run(self, call: Callable[..., T], *arguments: Any) -> T:
        """What a call returns that is made in one of them."""
        if self._limiter is None:  # it belongs to the loop
            self._limiter = anyio.CapacityLimiter(self._most)
        bound = partial(call, *arguments)
        return await anyio.to_thread.run_sync(bound, limiter=self._limiter)

    async def run_to_its_end(self, call: Callable[[], None]) -> None:
        """A call that is made although nobody waits for it any more."""
        with anyio.CancelScope(shield=True):
            await self.run(call)
