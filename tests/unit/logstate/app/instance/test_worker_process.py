"""One life of a worker as its instance asks it: what an answer that nobody gets leaves behind."""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Iterator
from typing import Any

import pytest

from logstate.app.instance.by_value import dumps, loads
from logstate.app.instance.worker_process import WorkerProcess
from logstate.contracts.errors import ConfigError, StoreError, StoreUnavailableError
from logstate.queries.requests import Answer, CursorGoneError, Cursors, Pages, ReadRequest, rows_of
from tests.patience import PATIENCE_S

ALL = ReadRequest("", "numbers", 0, "all")


class Endless:
    """A store without an end, of one row again and again."""

    row: Any = 7

    def read(self, request: ReadRequest) -> Answer:
        return Answer(itertools.repeat(self.row))


class Odd(str):
    """Is pickled, and cannot be unpickled."""

    __slots__ = ()

    def __reduce__(self) -> tuple[Any, ...]:
        return int, (str(self),)


class Process:
    """A process, and a pipe to it; ``late`` answers are kept back until they are let out."""

    def __init__(self) -> None:
        self.store = Endless()
        self.pages = Pages(self.store.read, 10, Cursors(None))
        self.connection: Any = self
        self.worker = WorkerProcess(1, self)
        self.is_late = False
        self.late: deque[tuple[int, bool, bytes]] = deque()
        self._has_heard = threading.Condition()
        self._heard = 0

    def send_bytes(self, data: bytes) -> None:
        kind, content = loads(data)
        if kind == "close":
            self.pages.cursors.close(content)
        elif self.is_late:
            self.late.append(self._answer(*content))
        else:
            self.worker.answered(*self._answer(*content))
        with self._has_heard:
            self._heard += 1
            self._has_heard.notify_all()

    def _answer(self, number: int, asked: bytes) -> tuple[int, bool, bytes]:
        try:
            return number, True, dumps(self.pages.reply(loads(asked), str(number)))
        except Exception as exc:  # noqa: BLE001  raised where it was asked
            return number, False, dumps(exc)

    def until_heard(self, count: int) -> None:
        """Wait until so many messages have come."""
        with self._has_heard:
            assert self._has_heard.wait_for(lambda: self._heard >= count, PATIENCE_S)

    def how_it_ended(self) -> None: ...
    def kill(self) -> None: ...
    def close(self) -> None: ...


@pytest.fixture
def process() -> Iterator[Process]:
    process = Process()
    yield process
    process.worker.close("ended")


def ask_in_vain(process: Process, patch: pytest.MonkeyPatch, request: ReadRequest) -> None:
    process.is_late = True
    patch.setattr("logstate.app.instance.worker_process.ANSWER_S", 0.01)
    with pytest.raises(StoreUnavailableError, match="did not answer within"):
        process.worker.ask(request)
    process.is_late = False


def test_an_answer_that_comes_too_late_leaves_nothing_open(
    process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask_in_vain(process, monkeypatch, ALL)
    process.until_heard(1)
    assert len(process.pages.cursors._open) == 1
    process.worker.answered(*process.late.pop())
    process.until_heard(2)
    assert process.pages.cursors._open == {}


def test_rows_whose_next_part_comes_too_late_leave_nothing_open(
    process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = rows_of(
        process.worker.ask(ALL),
        lambda cursor: process.worker.ask(ALL.page(cursor)),
        process.worker.close_cursor,
    )
    assert len(list(itertools.islice(rows, 10))) == 10
    process.is_late = True
    monkeypatch.setattr("logstate.app.instance.worker_process.ANSWER_S", 0.01)
    with pytest.raises(StoreUnavailableError, match="did not answer within"):
        next(rows)
    process.until_heard(3)  # the read, its next part, and that nobody wants the rest
    process.worker.answered(*process.late.popleft())
    process.until_heard(4)
    assert process.pages.cursors._open == {}


def test_rows_that_cannot_travel_leave_nothing_open(process: Process) -> None:
    process.store.row = threading.Lock()
    with pytest.raises(ConfigError, match="cannot pickle"):
        process.worker.ask(ALL)
    process.until_heard(2)
    assert process.pages.cursors._open == {}


def test_rows_that_cannot_be_read_where_they_come_leave_nothing_open(process: Process) -> None:
    process.store.row = Odd("v")
    with pytest.raises(StoreError, match="cannot be unpickled here"):
        process.worker.ask(ALL)
    process.until_heard(2)
    assert process.pages.cursors._open == {}


def test_an_error_of_the_next_part_is_raised_where_it_is_asked(process: Process) -> None:
    with pytest.raises(CursorGoneError):
        process.worker.ask(ALL.page("99"))
