"""The driver of the machine on a real cluster: each step is made at once."""

from __future__ import annotations

import pytest

from logstate.contracts.clients import Step, Steps, run_steps
from logstate.contracts.errors import RetriableError


def test_each_step_is_called_and_its_result_comes_back() -> None:
    def machine() -> Steps[list[int]]:
        first = yield Step("add", lambda a, b: a + b, (1, 2))
        second = yield Step("double", lambda a: 2 * a, (first,))
        return [first, second]

    assert run_steps(machine()) == [3, 6]


def test_a_machine_without_steps_just_returns() -> None:
    def machine() -> Steps[str]:
        if False:
            yield Step("never", print)
        return "done"

    assert run_steps(machine()) == "done"


def test_an_error_is_raised_where_the_step_was_yielded_and_may_be_handled_there() -> None:
    def fail() -> None:
        raise RetriableError("later")

    def machine() -> Steps[str]:
        try:
            yield Step("fail", fail)
        except RetriableError as exc:
            found = str(exc)
        else:
            found = "no error"
        return (yield Step("shout", found.upper))  # type: ignore[no-any-return]

    assert run_steps(machine()) == "LATER"


def test_an_error_the_machine_does_not_handle_reaches_the_caller_after_its_cleaning_up() -> None:
    cleaned = []

    def machine() -> Steps[None]:
        try:
            yield Step("fail", [].pop)
        finally:
            yield Step("clean", cleaned.append, ("done",))

    with pytest.raises(IndexError):
        run_steps(machine())
    assert cleaned == ["done"]


def test_a_killed_process_is_no_error_that_the_machine_sees() -> None:
    class Killed(BaseException):
        pass

    def kill() -> None:
        raise Killed

    seen = []

    def machine() -> Steps[None]:
        try:
            yield Step("kill", kill)
        except BaseException as exc:
            seen.append(type(exc))
            raise

    steps = machine()
    with pytest.raises(Killed):
        run_steps(steps)
    assert seen == []
    del steps
    assert seen in ([], [GeneratorExit])
