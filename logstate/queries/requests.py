"""Read requests, and their answers page by page.

Every read of a store becomes one :class:`ReadRequest` per partition. It reaches the reader of the
process that has the partition (:mod:`logstate.queries.reader`) by a call, through the pipe of a
worker process, or over HTTP. A call returns the :class:`Answer` itself. The other two return one
:class:`ReadReply` after the other: the process that has the rows keeps the iterator, and with it
the view of one commit, under a cursor.
"""

from __future__ import annotations

import itertools
import secrets
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any, Generic, TypeVar

import msgspec

from logstate.contracts.errors import LogstateError

T = TypeVar("T")

#: maximum of a timedelta
_MILLISECONDS_MAX = timedelta.max // timedelta(milliseconds=1)
CURSORS_MAX = 256
#: after this time without a request for the next page, a cursor is closed
IDLE_MS = 60_000.0


class ReadRequest(msgspec.Struct, frozen=True):
    """A read of one partition of a store. Over HTTP, keys in ``arguments`` are serialized."""

    #: the only instance that may answer; empty: the one that made the request
    instance: str
    store: str
    partition: int
    read: str
    arguments: tuple[Any, ...] = ()
    options: dict[str, bool] = {}
    max_age_ms: Annotated[int, msgspec.Meta(ge=0, le=_MILLISECONDS_MAX)] | None = None
    #: a standby may answer
    standby: bool = False
    #: the cursor for the next page of an earlier request
    cursor: str | None = None
    #: how long ago the instance that answers may last have known that it owns the partition
    max_silence_ms: Annotated[int, msgspec.Meta(ge=0, le=_MILLISECONDS_MAX)] | None = None

    def page(self, cursor: str) -> ReadRequest:
        """Return the request for the page of a cursor."""
        return ReadRequest(self.instance, self.store, self.partition, self.read, cursor=cursor)


class Answer(msgspec.Struct, frozen=True):
    """The result of reading one partition."""

    #: a scan returns one iterator over one commit
    value: Any
    #: ``topic-partition`` of its inputs -> the first offset that the rows do not include yet. Empty
    #: if a standby was read, or for a request without ``instance``
    positions: dict[str, int] = {}
    #: of a standby: offsets of its changelogs that the rows lack; None: the owner was read
    lag: int | None = None


class ReadReply(msgspec.Struct, frozen=True):
    """An answer without an iterator: one page of the rows."""

    positions: dict[str, int]
    value: Any = None
    #: of a standby: changelog offsets that it lacks; None: the owner responded
    lag: int | None = None
    rows: list[Any] | None = None
    #: of the next page; None: there is none
    cursor: str | None = None


class CursorGoneError(LogstateError):
    """The scan cannot continue: restart it."""


def _later(call: Callable[[], None]) -> None:
    timer = threading.Timer(IDLE_MS / 1000, call)
    timer.daemon = True
    timer.start()


class Cursors(Generic[T]):
    """Maps cursors to unfinished scans; usable from any thread. A cursor can be used once.

    An iterator over a store keeps the rows of its commit alive, so over HTTP there are few, and
    only for a short time: while there are any, a timer closes those that are no longer used. The
    two ends of a pipe trust each other: ``now_ms`` of None keeps cursors until they are closed.
    ``later`` schedules a call after ``IDLE_MS``.
    """

    def __init__(
        self,
        now_ms: Callable[[], float] | None,
        later: Callable[[Callable[[], None]], None] = _later,
    ) -> None:
        self._now_ms = now_ms
        self._later = later
        self._open: dict[str, tuple[T, float]] = {}
        #: whether the timer runs
        self._is_swept = False
        self._lock = threading.Lock()

    def kept(self, one: T, cursor: str | None = None) -> str:
        """Store it, and return its cursor. Beyond the maximum, the oldest one is closed."""
        cursor = cursor or secrets.token_urlsafe(12)
        if self._now_ms is None:
            with self._lock:
                self._open[cursor] = one, 0.0
            return cursor
        self._drop_idle()
        with self._lock:
            gone = []
            while len(self._open) >= CURSORS_MAX:
                gone.append(self._open.pop(next(iter(self._open))))
            self._open[cursor] = one, self._now_ms()
            is_first, self._is_swept = not self._is_swept, True
        del gone  # iterators are closed here, without the lock
        if is_first:
            self._later(self._drop_expired)
        return cursor

    def taken(self, cursor: str, check: Callable[[T], None] = lambda _: None) -> T:
        """Remove and return the scan of a cursor; raise CursorGoneError if there is none.

        If ``check`` raises, that error is raised, and the cursor remains valid.
        """
        with self._lock:
            found = self._open.get(cursor)
            if found is not None:
                check(found[0])
                del self._open[cursor]
        if found is None or self._is_idle(found[1]):
            raise CursorGoneError(
                f"cursor {cursor!r:.40} is unknown: its page was already read, or it was not used"
                f" for {IDLE_MS / 1000:.0f} s, or {CURSORS_MAX} newer scans were started, or"
                " another instance returned it. Restart the scan, and read all pages from one"
                " instance"
            )
        return found[0]

    def close(self, cursor: str) -> None:
        """Close the scan of a cursor, if there is one."""
        with self._lock:
            gone = self._open.pop(cursor, None)
        del gone  # the iterator is closed here, without the lock

    def _drop_expired(self) -> None:
        self._drop_idle()
        with self._lock:
            goes_on = self._is_swept = bool(self._open)
        if goes_on:
            self._later(self._drop_expired)

    def _is_idle(self, since_ms: float) -> bool:
        return self._now_ms is not None and self._now_ms() - since_ms >= IDLE_MS

    def _drop_idle(self) -> None:
        with self._lock:
            idle = [cursor for cursor, (_, since) in self._open.items() if self._is_idle(since)]
            gone = [self._open.pop(cursor) for cursor in idle]
        del gone  # iterators are closed here, without the lock


@dataclass(frozen=True)
class Pages:
    """Replies to requests page by page; usable from any thread."""

    read: Callable[[ReadRequest], Answer]
    rows_max: int
    cursors: Cursors[Answer]

    def reply(self, request: ReadRequest, cursor: str | None = None) -> ReadReply:
        """Reply to a request, or to one for the next page; raises what the read raises.

        ``cursor`` will be that of the page after this one. A caller that chooses it can close it
        without having received the reply.
        """
        if request.cursor is None:
            answer = self.read(request)
        else:
            answer = self.cursors.taken(request.cursor)
        if not isinstance(answer.value, Iterator):
            return ReadReply(answer.positions, answer.value, answer.lag)
        rows = list(itertools.islice(answer.value, self.rows_max))
        more = self.cursors.kept(answer, cursor) if len(rows) == self.rows_max else None
        return ReadReply(answer.positions, None, answer.lag, rows, more)


def rows_of(
    first: ReadReply,
    next_page: Callable[[str], ReadReply],
    close: Callable[[str], None] = lambda _: None,
) -> Iterator[Any]:
    """Iterate over the rows of all pages, requesting them by cursor as they are needed.

    ``close`` is called with the cursor of an iterator that is abandoned. It must not wait: Python
    may close an iterator during any garbage collection.
    """
    rows = _rows_of(first, next_page, close)
    next(rows)  # a generator that was never started would be collected without its finally block
    return rows


def _rows_of(
    page: ReadReply, next_page: Callable[[str], ReadReply], close: Callable[[str], None]
) -> Iterator[Any]:
    try:
        yield None
        while True:
            yield from page.rows or ()
            if page.cursor is None:
                return
            page = next_page(page.cursor)
    finally:
        if page.cursor is not None:
            close(page.cursor)
