"""ErrorCollector goes on where a part of it fails, and the right failure is told."""

from __future__ import annotations

import pytest

from logstate.contracts.clients import Step, Steps, run_steps
from logstate.contracts.errors import ErrorCollector


def fail(message: str) -> None:
    raise RuntimeError(message)


def stepping(done: list[str], message: str | None = None) -> Steps[None]:
    yield Step("first", done.append, ("first",))
    if message is not None:
        yield Step("fail", fail, (message,))
    yield Step("last", done.append, ("last",))


def test_everything_is_closed_and_the_first_failure_raised_at_the_end() -> None:
    closing, done = ErrorCollector(), list[str]()
    closing.call(lambda: fail("one"))
    run_steps(closing.steps(stepping(done, "two")))
    run_steps(closing.steps(stepping(done)))
    closing.call(lambda: done.append("called"))
    assert done == ["first", "first", "last", "called"]
    with pytest.raises(RuntimeError, match="one"):
        closing.finish()


def test_without_a_failure_nothing_is_raised() -> None:
    closing, done = ErrorCollector(), list[str]()
    run_steps(closing.steps(stepping(done)))
    closing.finish()
    assert done == ["first", "last"]


def test_what_made_closing_necessary_is_told_before_a_failure_of_closing() -> None:
    closing = ErrorCollector(ValueError("the cause"))
    closing.call(lambda: fail("and closing fails"))
    closing.finish()


def test_an_interrupt_is_not_kept_back() -> None:
    closing = ErrorCollector()

    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        closing.call(interrupt)
