"""A store over all instances: each read goes to the owner of the partition.

A failure because of a change (a rebalance, an instance that died or restores) is retried until the
time-out; then the error contains the last reason. The receiver checks that it is the owner
(:mod:`query_handler`), so outdated metadata costs an attempt, and never causes a wrong result. All
attempts of a call, with all instances, share the time-out.

If the caller accepts standbys, they are queried when the owner does not respond: at once, not after
the time-out. They return committed rows, and how many offsets these lack.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import Executor
from contextvars import copy_context
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Any, Generic, Literal, Protocol, TypeVar, overload

import msgspec

from logstate.contracts.error_text import text_of
from logstate.contracts.errors import StoreAccessError, StoreUnavailableError
from logstate.contracts.partitioner import StorePlace
from logstate.contracts.stores import checked_partition
from logstate.directory.metadata import KeyQueryMetadata
from logstate.http.query_handler import MisdirectedError, QueryHandler
from logstate.queries.queries import G, K, M, R, StoreReads, found_rows
from logstate.queries.requests import CursorGoneError, ReadReply, ReadRequest, rows_of

T = TypeVar("T")

_FIRST_WAIT_S = 0.02
_LONGEST_WAIT_S = 0.5
#: share of the time-out for an owner that does not respond, and for each standby after it
_ONE_OF_SEVERAL = 0.25
#: minimum time for a request at the end of the time-out
_LEAST_S = 0.001
#: rows that are passed to asyncio at a time
_PART = 500


class SendRequest(Protocol):
    """Sends a request to an instance."""

    def __call__(self, host: str, request: ReadRequest, timeout_s: float) -> ReadReply:
        """Return the reply. Raise like :meth:`QueryHandler.reply`, or StoreUnavailableError."""


@dataclass(frozen=True)
class RemoteAnswer(Generic[T]):
    """The response of one partition."""

    value: T
    #: ``topic-partition`` of its inputs -> the first offset that is not included
    positions: Mapping[str, int]
    host: str
    partition: int
    #: of a standby: changelog offsets that it lacks; None: the owner responded
    lag: int | None = None


@dataclass(frozen=True)
class _Call:
    """A read, and the deadline for everything that it waits for."""

    read: str
    arguments: tuple[Any, ...]
    end_s: float


class RemoteStore(StoreReads[K, G, R, M]):
    """Reads like those of ``app.store``, over all instances.

    Reads without a key scan all partitions, page by page: each partition at one commit, one
    partition after the other. Each page has the whole time-out.
    """

    def __init__(
        self,
        name: str,
        answers: QueryHandler,
        send_request: SendRequest,
        timeout: timedelta,
        at_least: Mapping[Any, int],
        max_age: timedelta | None = None,
        wait: Callable[[float], None] = time.sleep,
        *,
        standbys: bool = False,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self._answers = answers
        self._lookup = answers.lookup
        self._place: StorePlace = answers.lookup.place(name)
        self._codec = answers.codec(name)
        self._send_request = send_request
        self._timeout_s = timeout.total_seconds()
        #: (topic-partition, its partition, the offset)
        self._at_least = [
            (name, int(name.rpartition("-")[2]), offset)
            for name, offset in zip(map(str, at_least), at_least.values(), strict=True)
        ]
        self._max_age_ms = None if max_age is None else max_age // timedelta(milliseconds=1)
        self._wait = wait
        self._now_s = now_s
        self._standbys = standbys

    def _of_key(self, read: str, partition: int | None, key: Any, *arguments: Any) -> Any:
        return self.answer(read, key, *arguments, partition=partition).value

    @overload
    def answer(
        self, read: Literal["get"], key: K, *arguments: Any, partition: int | None = None
    ) -> RemoteAnswer[M]: ...
    @overload
    def answer(
        self, read: str, key: K, *arguments: Any, partition: int | None = None
    ) -> RemoteAnswer[Any]: ...
    def answer(
        self, read: str, key: K, *arguments: Any, partition: int | None = None
    ) -> RemoteAnswer[Any]:
        """Call a read by key, by its name; return the result with its input positions.

        Raises StoreUnavailableError, with the reason, without a response within the time-out.
        """
        return self.answer_by(self.end_s(), read, key, *arguments, partition=partition)

    def end_s(self) -> float:
        """Return the deadline of a call that begins now, by the monotonic clock."""
        return self._now_s() + self._timeout_s

    def left_s(self, end_s: float) -> float:
        """Return the time until the deadline; 0 after it."""
        return max(0.0, end_s - self._now_s())

    def answer_by(
        self, end_s: float, read: str, key: Any, *arguments: Any, partition: int | None = None
    ) -> RemoteAnswer[Any]:
        """Do the same for a call that began earlier."""
        call = _Call(read, (key, *arguments), end_s)
        self._codec.arguments_out(read, call.arguments)  # a wrong key fails at once
        self._check_at_least(end_s)
        place, lookup = self._place, self._lookup
        chosen = checked_partition(self.name, partition)
        if chosen is not None:
            self._check_partition(chosen, self._task_count(end_s))
            return self._retry(call, lambda: chosen)
        guess = self._retry(call, lambda: lookup.partition_of_key(place, key))
        if place.is_placed or place.is_global:
            return guess
        is_there, value = found_rows(guess.value, read)
        guess = replace(guess, value=value)
        return guess if is_there else self._in_other_partitions(call, guess)

    def _in_other_partitions(self, call: _Call, guess: RemoteAnswer[Any]) -> RemoteAnswer[Any]:
        """Find the first partition with the key: producers may use another partitioner."""
        for partition in range(self._task_count(call.end_s)):
            if partition != guess.partition:
                one = self._retry(call, lambda number=partition: number)  # type: ignore[misc]
                is_there, value = found_rows(one.value, call.read)
                if is_there:
                    return replace(one, value=value)
        return guess

    def _over_all(self, read: str, *arguments: Any) -> Iterator[Any]:
        self._codec.arguments_out(read, arguments)  # raise at the call, not at the first row
        return self.over_all(read, *arguments)

    def _of_each(self, read: str) -> Iterator[Any]:
        return (one.value for one in self.answers_of_all(read))

    def over_all(self, read: str, *arguments: Any) -> Iterator[Any]:
        """Yield the rows of every partition; one page is in memory at a time.

        Raises StoreUnavailableError if a partition does not respond within the time-out, and if it
        moves during the scan: its rows would not be of one commit.
        """
        for one in self.answers_of_all(read, *arguments):
            yield from one.value

    def answers_of_all(self, read: str, *arguments: Any) -> Iterator[RemoteAnswer[Any]]:
        """Yield one answer per partition; its value are the rows, its positions hold for all.

        For ``approximate_num_entries`` the value is their number.
        """
        self._codec.arguments_out(read, arguments)
        self._check_at_least(self.end_s())
        for partition in range(self._task_count(self.end_s())):
            call = _Call(read, arguments, self.end_s())
            yield self._retry(call, lambda number=partition: number)  # type: ignore[misc]

    # ------------------------------------------------------------------ pieces

    def _task_count(self, end_s: float) -> int:
        return self._until_known(lambda: self._lookup.task_count(self._place), end_s)

    def _check_partition(self, partition: int, count: int) -> None:
        """Refuse an unknown partition, which would be waited for."""
        if not self._place.is_global and not 0 <= partition < count:
            raise StoreAccessError(
                f"store {self.name!r} has no partition {partition}: they are 0 to {count - 1}"
            )

    def _check_at_least(self, end_s: float) -> None:
        """Refuse positions of unknown partitions, which would never be checked."""
        if self._at_least:
            count = self._task_count(end_s)
            for _, partition, _ in self._at_least:
                self._check_partition(partition, count)

    def _retry(self, call: _Call, number: Callable[[], int]) -> RemoteAnswer[Any]:
        return self._until_known(lambda: self._call_once(call, number()), call.end_s)

    def _until_known(self, attempt: Callable[[], T], end_s: float) -> T:
        wait_s, attempts = _FIRST_WAIT_S, 0
        while True:
            attempts += 1
            try:
                return attempt()
            except (StoreUnavailableError, MisdirectedError) as exc:
                if self._now_s() + wait_s > end_s:
                    raise StoreUnavailableError(
                        f"store {self.name!r} did not respond within {self._timeout_s:g} s"
                        f" ({attempts} attempts): {exc}"
                    ) from exc
            self._wait(wait_s)
            wait_s = min(2 * wait_s, _LONGEST_WAIT_S)

    def _call_once(self, call: _Call, partition: int) -> RemoteAnswer[Any]:
        try:
            return self._of_owner(call, partition)
        except (StoreUnavailableError, MisdirectedError):
            found = self._of_standby(call, partition) if self._standbys else None
            if found is None:
                raise
            return found

    def _of_owner(self, call: _Call, partition: int) -> RemoteAnswer[Any]:
        place, mine = self._place, self._answers.instance
        if place.is_global:
            owner = KeyQueryMetadata("", mine, 0, f"{place.sub_topology}_0", True)
        else:
            owner = self._lookup.of_partition(place, partition)
        return self._send_to(owner.instance, owner.active_host, call, owner.partition)

    def _of_standby(self, call: _Call, partition: int) -> RemoteAnswer[Any] | None:
        """Return the response of the first standby that has one; None without any."""
        for instance, host in self._lookup.copies(self._place, partition):
            with contextlib.suppress(StoreUnavailableError, MisdirectedError):
                return self._send_to(instance, host, call, partition, standby=True)
        return None

    def _send_to(
        self,
        instance: str,
        host: str,
        call: _Call,
        partition: int,
        *,
        standby: bool = False,
    ) -> RemoteAnswer[Any]:
        read, arguments = call.read, call.arguments
        request = ReadRequest(
            instance,
            self.name,
            partition,
            read,
            arguments,
            max_age_ms=self._max_age_ms,
            standby=standby,
        )
        if instance == self._answers.instance:
            here = self._answers.read(request)
            self._check_positions(here.positions, partition)
            return RemoteAnswer(here.value, here.positions, host, partition, here.lag)
        encoded = self._codec.arguments_out(read, arguments)
        request = msgspec.structs.replace(request, arguments=encoded)
        reply = self._send_request(host, request, self._share_s(call))
        self._check_positions(reply.positions, partition)
        if reply.rows is None:
            value = self._codec.answer_in(read, reply.value)
        else:
            rows = rows_of(reply, lambda cursor: self._next_page(host, request, cursor))
            value = map(partial(self._codec.row_in, read), rows)
        return RemoteAnswer(value, reply.positions, host, partition, reply.lag)

    def _share_s(self, call: _Call) -> float:
        """Return the time for one instance: others that can respond need time too."""
        left_s = call.end_s - self._now_s()
        share_s = min(left_s, self._timeout_s * _ONE_OF_SEVERAL) if self._standbys else left_s
        return max(_LEAST_S, share_s)

    def _next_page(self, host: str, request: ReadRequest, cursor: str) -> ReadReply:
        try:
            return self._send_request(host, request.page(cursor), self._timeout_s)
        except (StoreUnavailableError, MisdirectedError, CursorGoneError) as exc:
            raise StoreUnavailableError(
                f"store {self.name!r}: the rest of partition {request.partition} cannot be read"
                f" from {host}: {text_of(exc)}."
                " Rows of another instance would not be of the same"
                " commit: restart the scan"
            ) from exc

    def _check_positions(self, positions: Mapping[str, int], partition: int) -> None:
        for name, number, wanted in self._at_least:
            if not self._place.is_global and number != partition:
                continue  # of another task
            if positions and name not in positions and not self._place.reads_patterns:
                raise StoreAccessError(
                    f"store {self.name!r}: at_least requires offset {wanted} of {name}, and the"
                    f" task of partition {partition} reads {', '.join(sorted(positions))}"
                )
            found = positions.get(name, 0)
            if found < wanted:
                raise StoreUnavailableError(
                    f"store {self.name!r}: partition {partition} is at offset {found} of {name},"
                    f" and at_least requires {wanted}"
                )


class AsyncRemoteStore(Generic[K, G, R, M]):
    """The same for asyncio: every read is awaited, rows come by ``async for``.

    Reads run in the application's own threads, because a read may wait for its time-out. In the few
    threads of the loop's executor, everything else in the service would wait as well.
    """

    def __init__(self, store: RemoteStore[K, G, R, M], threads: Executor) -> None:
        self.name = store.name
        self._store, self._threads = store, threads

    async def get(self, key: K, *arguments: Any, partition: int | None = None) -> M:
        """Return the row of a key, or None."""
        return (await self.answer("get", key, *arguments, partition=partition)).value

    @overload
    async def fetch(self, key: K, *, partition: int | None = None) -> Iterator[tuple[G, R]]: ...
    @overload
    async def fetch(
        self, key: K, start_ms: int, /, *arguments: Any, partition: int | None = None
    ) -> M: ...
    async def fetch(self, key: K, *arguments: Any, partition: int | None = None) -> Any:
        """Return the value of a window store at a window start."""
        return (await self.answer("fetch", key, *arguments, partition=partition)).value

    @overload
    async def answer(
        self, read: Literal["get"], key: K, *arguments: Any, partition: int | None = None
    ) -> RemoteAnswer[M]: ...
    @overload
    async def answer(
        self, read: str, key: K, *arguments: Any, partition: int | None = None
    ) -> RemoteAnswer[Any]: ...
    async def answer(
        self, read: str, key: K, *arguments: Any, partition: int | None = None
    ) -> RemoteAnswer[Any]:
        """Call :meth:`RemoteStore.answer`."""
        end_s = self._store.end_s()
        return await self._in_thread(
            lambda: self._store.answer_by(end_s, read, key, *arguments, partition=partition), end_s
        )

    async def items(self, key: K, lower: Any = None, upper: Any = None) -> Iterator[Any]:
        """Return the elements of a key of a list or a map, with their values."""
        found: Iterator[Any] = (await self.answer("items", key, lower, upper)).value
        return found

    async def values(self, key: K, lower: Any = None, upper: Any = None) -> Iterator[R]:
        """Return the values of a key of a list or a set."""
        found: Iterator[R] = (await self.answer("values", key, lower, upper)).value
        return found

    async def contains(self, key: K, value: R) -> bool:
        """Return whether the set of a key has a value."""
        return bool((await self.answer("contains", key, value)).value)

    async def size(self, key: K) -> int:
        """Return the number of elements of a key."""
        return int((await self.answer("size", key)).value)

    def range(self, lower: K | None = None, upper: K | None = None) -> AsyncIterator[tuple[G, R]]:
        """Yield rows between two keys, both inclusive, partition by partition."""
        return self.over_all("range", lower, upper)

    def all(self) -> AsyncIterator[tuple[G, R]]:
        """Yield every row."""
        return self.over_all("all")

    def reverse_all(self) -> AsyncIterator[tuple[G, R]]:
        """Yield every row, descending within each partition."""
        return self.over_all("reverse_all")

    def by(self, index: str, value: Any) -> AsyncIterator[tuple[G, R]]:
        """Yield rows with an indexed value, partition by partition."""
        return self.over_all("by", index, value)

    def by_range(
        self, index: str, lower: Any = None, upper: Any = None, *, reverse: bool = False
    ) -> AsyncIterator[tuple[G, R]]:
        """Yield rows from one indexed value to another, both inclusive, None = open."""
        return self.over_all("by_range", index, lower, upper, reverse)

    async def approximate_num_entries(self) -> int:
        """Call :meth:`RemoteStore.approximate_num_entries`."""
        store = self._store
        return await self._in_thread(store.approximate_num_entries, store.end_s())

    async def over_all(self, read: str, *arguments: Any) -> AsyncIterator[Any]:
        """Call :meth:`RemoteStore.over_all`."""
        rows = self._store.over_all(read, *arguments)
        while True:
            end_s = self._store.end_s()
            part = await self._in_thread(lambda: list(itertools.islice(rows, _PART)), end_s)
            if not part:
                return
            for row in part:
                yield row

    async def _in_thread(self, call: Callable[[], T], end_s: float) -> T:
        """Call with the caller's context variables; wait for a thread until the deadline."""
        begun = self._threads.submit(copy_context().run, call)
        answer = asyncio.wrap_future(begun)
        try:
            await asyncio.wait([answer], timeout=self._store.left_s(end_s))
            if not answer.done() and begun.cancel():
                raise StoreUnavailableError(
                    f"store {self.name!r} did not respond within the time-out: every thread for"
                    " requests to other instances waits for a response. Try again"
                )
            return await answer
        finally:
            answer.cancel()
