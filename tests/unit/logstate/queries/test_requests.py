"""Reads that travel: what comes back at once, what comes in parts, from one process alone."""

from __future__ import annotations

from typing import Any

import pytest

from logstate.app.instance.by_value import dumps, loads
from logstate.contracts.errors import StoreUnavailableError
from logstate.queries.requests import (
    Answer,
    CursorGoneError,
    Cursors,
    Pages,
    ReadReply,
    ReadRequest,
    rows_of,
)


class Numbers:
    """A store of numbers; ``ended`` counts the iterators that were let go."""

    ended = 0

    def read(self, request: ReadRequest) -> Answer:
        if request.partition != 0:
            raise StoreUnavailableError(f"partition {request.partition} is elsewhere")
        return Answer(getattr(self, request.read)(*request.arguments, **request.options))

    def get(self, key: int) -> int | None:
        return key * key if key else None

    def range(self, lower: int, upper: int, *, reverse: bool = False) -> Any:
        numbers = range(lower, upper)
        try:
            yield from (reversed(numbers) if reverse else numbers)
        finally:
            self.ended += 1


class Process:
    """The other end: messages travel as bytes."""

    def __init__(self) -> None:
        self.store = Numbers()
        self.pages = Pages(self.store.read, 10, Cursors(None))
        self.asked: list[ReadRequest] = []
        self.closed: list[str] = []

    def ask(self, request: ReadRequest) -> ReadReply:
        self.asked.append(request)
        cursor = str(len(self.asked))
        reply: ReadReply = loads(dumps(self.pages.reply(loads(dumps(request)), cursor)))
        return reply

    def close(self, cursor: str) -> None:
        self.closed.append(cursor)
        self.pages.cursors.close(cursor)

    def read(self, name: str, *arguments: Any, **options: Any) -> Any:
        request = ReadRequest("", "numbers", 0, name, arguments, options)
        reply = self.ask(request)
        if reply.rows is None:
            return reply.value
        return rows_of(reply, lambda cursor: self.ask(request.page(cursor)), self.close)


@pytest.fixture
def process() -> Process:
    return Process()


def test_a_value_comes_back_as_it_is(process: Process) -> None:
    assert process.read("get", 7) == 49
    assert process.read("get", 0) is None


def test_an_error_is_raised_where_it_is_asked(process: Process) -> None:
    with pytest.raises(StoreUnavailableError, match="partition 3 is elsewhere"):
        process.ask(ReadRequest("", "numbers", 3, "get", (1,)))


@pytest.mark.parametrize("count", [0, 1, 9, 10, 11, 30, 35])
def test_all_rows_come_in_order_whatever_the_parts(process: Process, count: int) -> None:
    assert list(process.read("range", 0, count)) == list(range(count))
    assert list(process.read("range", 0, count, reverse=True)) == list(range(count))[::-1]
    assert process.store.ended == 2
    assert process.pages.cursors._open == {}


def test_a_part_is_asked_for_when_its_rows_are_wanted(process: Process) -> None:
    rows = process.read("range", 0, 1_000)
    assert [next(rows) for _ in range(10)] == list(range(10))
    assert len(process.asked) == 1
    assert next(rows) == 10
    assert process.asked[1:] == [ReadRequest("", "numbers", 0, "range", cursor="1")]


def test_what_nobody_wants_any_more_is_let_go(process: Process) -> None:
    rows = process.read("range", 0, 1_000)
    next(rows)
    rows.close()
    assert (len(process.asked), process.closed) == (1, ["1"])
    assert process.pages.cursors._open == {}
    assert process.store.ended == 1


def test_what_nobody_begins_to_go_through_is_let_go(process: Process) -> None:
    rows = process.read("range", 0, 1_000)
    assert len(process.pages.cursors._open) == 1
    del rows
    assert process.pages.cursors._open == {}
    assert process.store.ended == 1


def test_two_who_go_through_the_same_store_do_not_meet(process: Process) -> None:
    one, other = process.read("range", 0, 25), process.read("range", 100, 125)
    mixed = [next(rows) for _ in range(25) for rows in (one, other)]
    assert mixed[::2] == list(range(25))
    assert mixed[1::2] == list(range(100, 125))


def test_a_cursor_that_is_unknown_is_never_an_end_of_the_rows(process: Process) -> None:
    with pytest.raises(CursorGoneError):
        process.ask(ReadRequest("", "numbers", 0, "range", cursor="99"))
    process.close("99")
