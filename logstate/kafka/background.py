"""Client calls that run on another thread while the worker continues."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any


class BackgroundCalls:
    """A thread for calls, see `logstate.contracts.clients.Background`. Every call returns."""

    gives_turns = True

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="commit")

    def start(self, call: Callable[..., Any], arguments: tuple[Any, ...]) -> Future[Any]:
        return self._executor.submit(call, *arguments)

    def close(self) -> None:
        self._executor.shutdown(wait=False, cancel_futures=True)
