"""What is kept for whoever asks for the next page."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from logstate.contracts.clock import ManualClock
from logstate.queries.requests import IDLE_MS, CursorGoneError, Cursors


class Rows:
    """What keeps the rows of a commit; ``ended`` has those that were let go."""

    ended: list[str] = []  # noqa: RUF012  emptied by the fixture

    def __init__(self, name: str) -> None:
        self.name = name

    def __del__(self) -> None:
        self.ended.append(self.name)


class Kept:
    """Cursors with a clock and a timer that run when they are told to."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.timers: list[Callable[[], None]] = []
        self.cursors = Cursors[Rows](self.clock.monotonic_ms, self.timers.append)

    def pass_time(self, ms: float) -> None:
        self.clock.advance(int(ms))
        self.timers.pop()()


@pytest.fixture
def kept() -> Kept:
    Rows.ended = []
    return Kept()


def test_rows_that_nobody_asks_for_any_more_are_let_go_without_another_request(kept: Kept) -> None:
    cursor = kept.cursors.kept(Rows("a"))
    kept.pass_time(IDLE_MS)
    assert Rows.ended == ["a"]
    assert kept.timers == [], "nothing is kept, so nothing is looked at"
    with pytest.raises(CursorGoneError, match="Restart the scan"):
        kept.cursors.taken(cursor)


def test_the_timer_runs_as_long_as_anything_is_kept(kept: Kept) -> None:
    kept.cursors.kept(Rows("a"))
    kept.clock.advance(int(IDLE_MS / 2))
    kept.cursors.kept(Rows("b"))
    assert len(kept.timers) == 1
    kept.pass_time(IDLE_MS / 2)
    assert Rows.ended == ["a"]
    kept.pass_time(IDLE_MS)
    assert Rows.ended == ["a", "b"]
    kept.cursors.kept(Rows("c"))
    kept.pass_time(IDLE_MS)
    assert Rows.ended == ["a", "b", "c"]


def test_a_page_is_taken_once(kept: Kept) -> None:
    cursor = kept.cursors.kept(Rows("a"))
    assert kept.cursors.taken(cursor).name == "a"
    with pytest.raises(CursorGoneError, match="was already read"):
        kept.cursors.taken(cursor)
