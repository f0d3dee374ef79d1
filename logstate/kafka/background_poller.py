"""Polling a consumer from another thread while its own is inside a function of the user.

The group takes a member that is not polled for max.poll.interval.ms for dead. A poll from another
thread keeps it alive, but it may take records, which must not overtake each other, and it may be
called back for a rebalance, whose tasks are in use. And while one thread is in such a callback,
every call of the client from another one waits for its end: tried with all of them, version 2.16.

So:

1. one thread at a time calls the client (``call``, ``turn``); whoever polls beside asks, once it is
   his turn, whether the worker is still where it was seen;
2. what a poll beside brings is kept, and is the first that the worker's next poll returns;
3. every rebalance is answered by the worker's next poll. One that takes partitions away waits for
   that in its callback, and meanwhile makes the calls that the worker needs for its answer. The
   group waits max.poll.interval.ms for it, and then for nobody.
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
    """See the module."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        #: held by the thread that calls the client; a callback's calls are its own
        self._turn = threading.RLock()
        self._running: threading.Thread | None = None
        self._polling_id = 0
        #: rebalances without an answer, oldest first
        self._handed: list[Rebalance] = []
        #: the other thread is in a callback and makes the worker's calls; None lets it go
        self._is_held_up = False
        self._errands: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._is_closed = False
        #: what was brought and is not handed out, oldest first
        self.kept: list[Message] = []

    def begin(self, is_still: Callable[[], bool]) -> None:
        """Poll on a thread of its own, which a rebalance may hold up; one at a time."""
        if self._running is None or not self._running.is_alive():
            self._running = threading.Thread(
                target=self.poll, args=(is_still,), name="poll-beside", daemon=True
            )
            self._running.start()

    # ------------------------------------------------------------------ on the other thread

    def poll(self, is_still: Callable[[], bool]) -> None:
        """Tell the group that this member lives; nothing where the worker has moved on."""
        if not self._turn.acquire(blocking=False):
            return
        try:
            if self._is_closed or not is_still():
                return
            self._polling_id = threading.get_ident()
            with suppress(KafkaException):  # the worker's next poll is told
                self.kept += self._consumer.consume(1, 0)
        finally:
            self._polling_id = 0
            self._turn.release()

    def is_here(self) -> bool:
        """Whether this thread is in ``poll``."""
        return self._polling_id == threading.get_ident()

    def hand_over(self, rebalance: Rebalance) -> None:
        """Leave it to the worker; where it takes partitions away, wait until he has answered."""
        self._handed.append(rebalance)
        if rebalance.kind == "assigned":
            return
        self._is_held_up = True
        while (errand := self._errands.get()) is not None:
            errand()

    # ------------------------------------------------------------------ on the worker's thread

    @property
    def is_lost(self) -> bool:
        """Whether partitions are lost, and the worker does not know yet."""
        return any(rebalance.kind == "lost" for rebalance in self._handed)

    def call(self, function: Callable[[], T]) -> T:
        """Call the client when nobody else does, or have it called by whoever is held up in it."""
        while not self._turn.acquire(timeout=_LOOK_S):
            if self._is_held_up:
                result: Future[T] = Future()
                self._errands.put(partial(_make, function, result))
                return result.result()
        try:
            return function()
        finally:
            self._turn.release()

    @contextmanager
    def turn(self, answer: Callable[[Rebalance], None]) -> Iterator[None]:
        """Poll inside it; the rebalances that wait are answered first."""
        while not self._turn.acquire(timeout=_LOOK_S):
            if self._is_held_up:
                try:
                    self._answer_all(answer)
                finally:
                    self._is_held_up = False
                    self._errands.put(None)
        try:
            self._answer_all(answer)
            yield
        finally:
            self._turn.release()

    def close(self) -> None:
        """Nobody polls beside any more; a rebalance that waits is not worth an answer."""
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
