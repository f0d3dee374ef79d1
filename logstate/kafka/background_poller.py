"""Polling a consumer from another thread while the worker's thread is inside a user function.

The group considers a member dead if it is not polled for max.poll.interval.ms. A poll from another
thread keeps it alive, but it may return records, whose order must be kept, and it may call back for
a rebalance, although the tasks are in use. And while one thread is in such a callback, every call
of the client from another one waits for its end (tried with all calls, version 2.16).

So:

1. one thread at a time calls the client (``call``, ``turn``); the background thread checks, once it
   has the lock, whether the worker is still in the same function;
2. records that a background poll returns are kept, and the worker's next poll returns them first;
3. the worker's next poll handles every rebalance. A callback that revokes partitions waits for
that,
   and meanwhile makes the client calls that the worker needs. The group waits for it up to
   max.poll.interval.ms, and then removes the member.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from functools import partial
from typing import TypeVar

from confluent_kafka import Consumer, KafkaException, Message

from logstate.contracts.clients import Rebalance

T = TypeVar("T")

_LOOK_S = 0.005


class BackgroundPoller:
    """Polls a consumer in the background."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        #: held by the thread that calls the client, also during its callbacks
        self._turn = threading.RLock()
        self._running: threading.Thread | None = None
        self._polling_id = 0
        #: rebalances that are not handled yet, oldest first
        self._handed: list[Rebalance] = []
        #: the background thread is in a callback and makes the worker's calls; None ends the wait
        self._is_held_up = False
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._is_closed = False
        #: records that were polled and not returned yet, oldest first
        self.kept: list[Message] = []

    def begin(self, is_still: Callable[[], bool]) -> None:
        """Poll on another thread, which a rebalance may block; one at a time."""
        if self._running is None or not self._running.is_alive():
            self._running = threading.Thread(
                target=self.poll, args=(is_still,), name="background-poll", daemon=True
            )
            self._running.start()

    # ------------------------------------------------------------------ on the background thread

    def poll(self, is_still: Callable[[], bool]) -> None:
        """Show the group that this member lives; do nothing if the worker has moved on."""
        if not self._turn.acquire(blocking=False):
            return
        try:
            if self._is_closed or not is_still():
                return
            self._polling_id = threading.get_ident()
            with suppress(KafkaException):  # the worker's next poll raises it
                self.kept += self._consumer.consume(1, 0)
        finally:
            self._polling_id = 0
            self._turn.release()

    def is_here(self) -> bool:
        """Return whether the current thread is in ``poll``."""
        return self._polling_id == threading.get_ident()

    def hand_over(self, rebalance: Rebalance) -> None:
        """Pass it to the worker; if it revokes partitions, wait until the worker handled it."""
        self._handed.append(rebalance)
        if rebalance.kind == "assigned":
            return
        self._is_held_up = True
        while (errand := self._calls.get()) is not None:
            errand()

    # ------------------------------------------------------------------ on the worker's thread

    @property
    def is_lost(self) -> bool:
        """Whether partitions are lost, and the worker has not handled it yet."""
        return any(rebalance.kind == "lost" for rebalance in self._handed)

    def call(self, function: Callable[[], T]) -> T:
        """Call the client under the lock, or let the thread that is blocked in a callback do it."""
        while not self._turn.acquire(timeout=_LOOK_S):
            if self._is_held_up:
                result: Future[T] = Future()
                self._calls.put(partial(_make, function, result))
                return result.result()
        try:
            return function()
        finally:
            self._turn.release()

    @contextmanager
    def turn(self, answer: Callable[[Rebalance], None]) -> Iterator[None]:
        """Poll inside it; pending rebalances are handled first."""
        while not self._turn.acquire(timeout=_LOOK_S):
            if self._is_held_up:
                try:
                    self._answer_all(answer)
                finally:
                    self._is_held_up = False
                    self._calls.put(None)
        try:
            self._answer_all(answer)
            yield
        finally:
            self._turn.release()

    def close(self) -> None:
        """Stop background polling; a pending rebalance is not handled any more."""
        with self.turn(lambda _: None):
            self._is_closed = True

    def _answer_all(self, answer: Callable[[Rebalance], None]) -> None:
        while self._handed:
            try:
                answer(self._handed[0])
            finally:
                del self._handed[0]


def _make(function: Callable[[], T], result: Future[T]) -> None:
    try:
        result.set_result(function())
    except Exception as exc:  # noqa: BLE001  raised again where the call was asked for
        result.set_exception(exc)
