"""A mapper of values that is awaited: many calls at a time, and results in the records' order.

How it works. A record starts a call in the event loop of the process and waits with it. Before the
task freezes a commit it calls :meth:`PendingCalls.emit`, which waits for all calls and forwards
their results in the order of the records. So no commit has the offset of a record whose result it
lacks, and there is nothing to store: after a crash the calls since the last commit are made again.

Invariants:

1. results leave in the order in which the records arrived, however long their calls take;
2. the position, timestamp and headers of the task are those of a record while its result is
   forwarded;
3. at most ``concurrency`` calls of a task are unfinished: a further record waits for the first that
   ends, so a commit waits for no more than that;
4. a record that is undone leaves no call behind, and a task that is discarded none.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from datetime import timedelta
from inspect import isawaitable
from threading import Semaphore
from typing import Any, NamedTuple

from logstate.contracts.processing import TaskContext
from logstate.contracts.records import FetchedRecord, Headers
from logstate.topology.declaring.declaration_site import function_site
from logstate.topology.declaring.plain_functions import not_awaitable
from logstate.topology.graph.blame import labelled
from logstate.topology.graph.nodes import Children, Forward, Process, ProcessorNode
from logstate.topology.operators.streams.event_loop import event_loop


class AsyncMapValuesNode(ProcessorNode):
    """The mapper sees null values too."""

    mapper: Callable[[Any, Any], Any]
    #: unfinished calls of a task
    concurrency: int
    #: of one call
    timeout: timedelta

    def compile(self, task: TaskContext, forward: Forward, children: Children) -> Process:
        mapper, timeout = self.mapper, self.timeout
        site = function_site(getattr(mapper, "by_value", mapper))
        timeout_s = timeout.total_seconds()

        async def call(key: Any, value: Any) -> Any:
            result = mapper(key, value)
            if not isawaitable(result):
                raise not_awaitable(result, mapper, "map_values_async()")
            clock = asyncio.timeout(timeout_s)
            try:
                async with clock:
                    return await result
            except TimeoutError as error:
                if not clock.expired():
                    raise
                raise TimeoutError(
                    f"{site} did not return within the timeout of {timeout}. Check the service that"
                    " it calls, or give map_values_async() a longer timeout"
                ) from error
            except asyncio.CancelledError as error:
                current = asyncio.current_task()
                if current is None or current.cancelling():
                    raise  # the task is discarded
                raise RuntimeError(f"{site} raised CancelledError") from error
            except SystemExit as error:  # it would end the thread of the loop, and so all calls
                raise RuntimeError(f"{site} raised SystemExit({error.code!r})") from error

        def forward_result(pending: PendingCall) -> None:
            # Without a call of result(), whose frames would be taken for the user's function.
            error = pending.result.exception()
            if error is not None:
                raise error
            forward(pending.key, pending.result.result(), pending.timestamp, pending.headers)

        calls = PendingCalls(task, call, labelled(forward_result, self.name), self.concurrency)
        task.before_commit(calls)

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            calls.start(key, value, timestamp, headers)

        return process


class PendingCall(NamedTuple):
    """A record whose result is not forwarded yet."""

    topic: str | None
    partition: int
    offset: int
    key: Any
    timestamp: int
    headers: Headers
    #: as it was read, if an error handler may ask for it
    record: FetchedRecord | None
    result: Future[Any]


class PendingCalls:
    """The calls of one operator whose results wait for the commit."""

    def __init__(
        self,
        task: TaskContext,
        call: Callable[[Any, Any], Any],
        forward_result: Callable[[PendingCall], None],
        concurrency: int,
    ) -> None:
        self._task = task
        self._call = call
        self._forward_result = forward_result
        self._slots = Semaphore(concurrency)
        self._pending: deque[PendingCall] = deque()
        #: how many were pending before the record that may be undone; None: none may
        self._before: int | None = None

    def start(self, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        """Start the call of a record, once fewer than ``concurrency`` are unfinished."""
        task = self._task
        self._slots.acquire()
        result = asyncio.run_coroutine_threadsafe(self._call(key, value), event_loop())
        result.add_done_callback(self._finished)
        has_record = self._before is not None and task.topic is not None
        self._pending.append(
            PendingCall(
                task.topic,
                task.partition,
                task.offset,
                key,
                timestamp,
                headers,
                task.fetched if has_record else None,
                result,
            )
        )

    def _finished(self, _result: Future[Any]) -> None:
        self._slots.release()

    def emit(self) -> bool:
        """Wait for all calls and forward their results; return whether there were any."""
        if not self._pending:
            return False
        task, pending = self._task, self._pending
        place = task.topic, task.partition, task.offset, task.timestamp, task.headers
        fetched = task.fetched
        while pending:
            one = pending.popleft()
            task.topic, task.partition, task.offset = one.topic, one.partition, one.offset
            task.timestamp, task.headers, task.fetched = one.timestamp, one.headers, one.record
            try:
                self._forward_result(one)
            except Exception as exc:  # noqa: BLE001  user code
                task.fetched = fetched
                task.commit_buffered_failed(exc, one.record)
        task.topic, task.partition, task.offset, task.timestamp, task.headers = place
        task.fetched = fetched
        return True

    def discard(self) -> None:
        """Cancel the calls: they are not committed and will be made again."""
        self._drop(0)
        self._before = None

    def begin_journal(self) -> None:
        """Remember what is pending, so that one record's calls can be undone."""
        self._before = len(self._pending)

    def end_journal(self, *, rollback: bool) -> None:
        """Stop remembering; with ``rollback`` cancel the calls since ``begin_journal``."""
        before, self._before = self._before, None
        if rollback and before is not None:
            self._drop(before)

    def _drop(self, keep: int) -> None:
        while len(self._pending) > keep:
            self._pending.pop().result.cancel()
