"""No mistake that was thought of is silent, and each answer says what, where and what to do."""

from __future__ import annotations

import pytest

from tests.mistakes.__main__ import verdicts
from tests.mistakes.mistake import MISTAKES, Mistake, judged


@pytest.mark.parametrize("one", MISTAKES, ids=[one.name for one in MISTAKES])
def test_a_mistake_gets_an_answer_that_helps(one: Mistake) -> None:
    verdict = judged(one)
    assert verdict.kind == "answered", verdict


def test_silence_and_half_an_answer_are_noticed() -> None:
    assert judged(Mistake("nothing", lambda: None, ())).kind == "silent"

    def half() -> None:
        raise ValueError("it failed")

    verdict = judged(Mistake("half", half, ("it failed", "do this")))
    assert (verdict.kind, verdict.missing) == ("unhelpful", ("do this",))
    assert verdicts
