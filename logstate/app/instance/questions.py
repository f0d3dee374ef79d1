"""Reads of stores, sent to the worker process that has the partition, and their answers.

A single value comes back unchanged. Rows of an iterator come back in parts: the process keeps the
iterator, and with it the view of one commit, until all rows were fetched or the cursor is closed.

An open iterator has the number of the question that it answers. So the client can close it without
having received an answer: one that came too late, or that could not be pickled, leaves nothing
open.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Protocol

from logstate.queries.queries import QueryableStore

_PART = 1_000


@dataclass(frozen=True)
class PartitionRead:
    """A read of one partition of a store."""

    store: str
    partition: int
    name: str
    arguments: tuple[Any, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    max_age: timedelta | None = None
    #: a standby may answer
    standbys: bool = False
    #: request an :class:`logstate.queries.queries.Answer`
    with_positions: bool = False


@dataclass(frozen=True)
class FetchNext:
    """Request the next part of a read's rows; each ``cursor`` can be used once."""

    cursor: int


@dataclass(frozen=True)
class CloseCursor:
    """Close an open iterator."""

    cursor: int


@dataclass(frozen=True)
class RowPage:
    """Some rows; ``cursor``, the number of the question, fetches the next part. None at the end."""

    rows: list[Any]
    cursor: int | None


Question = PartitionRead | FetchNext | CloseCursor


class StoreServer:
    """StoreServer questions in the process that has the stores, and keeps unfinished iterators."""

    def __init__(self, store: Callable[[str, timedelta | None, bool], QueryableStore]) -> None:
        self._store = store
        self._open: dict[int, Iterator[Any]] = {}
        self._lock = threading.Lock()

    def to(self, number: int, question: Question) -> Any:
        """Answer a question of this number; raises what the read raises. Called from any thread."""
        if isinstance(question, CloseCursor):
            with self._lock:
                self._open.pop(question.cursor, None)
            return None
        if isinstance(question, FetchNext):
            with self._lock:
                rows = self._open.pop(question.cursor)
            return self._part(number, rows)
        store = self._store(question.store, question.max_age, question.standbys)
        partition, name = question.partition, question.name
        if question.with_positions:
            answer = store.answer(partition, name, question.arguments, question.options)
            value = self._travelling(number, answer.value)
            return replace(answer, value=value, positions=dict(answer.positions))
        read = store.of_partition(partition, name)
        return self._travelling(number, read(*question.arguments, **question.options))

    def _travelling(self, number: int, found: Any) -> Any:
        return self._part(number, found) if isinstance(found, Iterator) else found

    def _part(self, number: int, rows: Iterator[Any]) -> RowPage:
        found = list(itertools.islice(rows, _PART))
        if len(found) < _PART:
            return RowPage(found, None)
        with self._lock:
            self._open[number] = rows
        return RowPage(found, number)


class Asked(Protocol):
    """The process that has the iterator."""

    def ask(self, store: str, question: Question) -> Any:
        """Return its answer; if this raises, no iterator stays open for the question."""

    def send(self, question: Question) -> None:
        """Send a question without waiting for an answer."""


def rows_of(store: str, first: RowPage, asked: Asked) -> Iterator[Any]:
    """Iterate over all rows in the asking process, fetching parts as they are needed.

    Python may close an abandoned iterator during any garbage collection, so closing it must not
    wait.
    """
    rows = _rows_of(store, first, asked)
    next(rows)  # a generator that was never started would be collected without its finally block
    return rows


def _rows_of(store: str, first: RowPage, asked: Asked) -> Iterator[Any]:
    part = first
    try:
        yield None
        while True:
            yield from part.rows
            if part.cursor is None:
                return
            part = asked.ask(store, FetchNext(part.cursor))
    finally:
        if part.cursor is not None:
            asked.send(CloseCursor(part.cursor))
