"""Client calls that are made while the worker goes on."""

from __future__ import annotations

import threading

import pytest

from logstate.kafka.cluster import BackgroundCalls
from tests.patience import PATIENCE_S


def test_calls_are_made_on_another_thread_one_after_the_other() -> None:
    calls, released = BackgroundCalls(), threading.Event()
    made: list[str] = []
    first = calls.start(lambda: (released.wait(PATIENCE_S), made.append("first")), ())
    second = calls.start(lambda name: (made.append(name), threading.get_ident()), ("second",))
    assert not first.done()
    assert made == []
    released.set()
    assert second.result()[1] != threading.get_ident()
    assert first.done()
    assert made == ["first", "second"]
    calls.close()


def test_what_a_call_raises_is_raised_by_its_result() -> None:
    calls = BackgroundCalls()
    pending = calls.start(lambda: 1 // 0, ())
    with pytest.raises(ZeroDivisionError):
        pending.result()
    calls.close()
