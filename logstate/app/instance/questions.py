"""Reads of stores, as they travel to the worker process that has the partition, and back.

What a read returns at once comes back as it is. What it goes through comes in parts: the process
keeps the iterator, and with it the view of one commit, until all was taken or nobody wants more.

What is kept has the number of the question that it answers. So whoever asked can end it without
having seen the answer: one that came too late, or that could not travel, leaves nothing open.
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
class Read:
    """A read of one partition of a store."""

    store: str
    partition: int
    name: str
    arguments: tuple[Any, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    max_age: timedelta | None = None
    #: a copy of the task's state may answer
    standbys: bool = False
    #: wants an :class:`logstate.queries.queries.Answer`
    with_positions: bool = False


@dataclass(frozen=True)
class FetchNext:
    """The next part of what a read goes through; ``cursor`` leads to it once."""

    cursor: int


@dataclass(frozen=True)
class CloseCursor:
    """Nobody wants the rest."""

    cursor: int


@dataclass(frozen=True)
class Part:
    """Some rows; ``cursor``, the number of the question, leads to the next part, None where there
    is none.
    """

    rows: list[Any]
    cursor: int | None


Question = Read | FetchNext | CloseCursor


class Answers:
    """In the process that has the stores: what is read, and what is not read to its end."""

    def __init__(self, store: Callable[[str, timedelta | None, bool], QueryableStore]) -> None:
        self._store = store
        self._open: dict[int, Iterator[Any]] = {}
        self._lock = threading.Lock()

    def to(self, number: int, question: Question) -> Any:
        """The answer to a question of this number; raises what the read raises. From any thread."""
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

    def _part(self, number: int, rows: Iterator[Any]) -> Part:
        found = list(itertools.islice(rows, _PART))
        if len(found) < _PART:
            return Part(found, None)
        with self._lock:
            self._open[number] = rows
        return Part(found, number)


class Asked(Protocol):
    """The one process that has the iterator."""

    def ask(self, store: str, question: Question) -> Any:
        """Its answer; where this raises, nothing stays open for the question."""

    def tell(self, question: Question) -> None:
        """Have it hear this, without an answer."""


def rows_of(store: str, first: Part, asked: Asked) -> Iterator[Any]:
    """In the process that asked: all rows, part by part as they are wanted.

    An iterator that nobody wants any more may be ended wherever Python collects it: that must not
    wait for anything.
    """
    rows = _rows_of(store, first, asked)
    next(rows)  # a generator that was never begun would be collected without its end
    return rows


def _rows_of(store: str, first: Part, asked: Asked) -> Iterator[Any]:
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
            asked.tell(CloseCursor(part.cursor))
