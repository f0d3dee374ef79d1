"""Calls of a client that may hang."""

from __future__ import annotations

import threading
import weakref

import pytest

from logstate.contracts.errors import FencedError
from logstate.kafka.bounded_call import CallThread
from tests.patience import PATIENCE_S


def test_a_call_returns_its_result_and_raises_its_error() -> None:
    calls = CallThread("test")

    assert calls.call(lambda: 7, PATIENCE_S, "counting") == 7
    with pytest.raises(ZeroDivisionError):
        calls.call(lambda: 1 // 0, PATIENCE_S, "dividing")
    assert calls.call(threading.get_ident, PATIENCE_S, "asking") != threading.get_ident()
    calls.close()


def test_a_call_that_hangs_is_given_up_and_no_other_is_made() -> None:
    calls, released = CallThread("test"), threading.Event()

    with pytest.raises(FencedError, match="adding offsets did not return within 0 s"):
        calls.call(released.wait, 0.01, "adding offsets")

    assert calls.is_hanging
    with pytest.raises(FencedError, match="an earlier call on this client is still blocked"):
        calls.call(lambda: pytest.fail("a hanging client was used"), PATIENCE_S, "committing")
    calls.close()  # does not wait for it
    released.set()


def test_the_thread_lets_go_of_the_client_when_a_hanging_call_returns() -> None:
    class Client:
        def __init__(self, released: threading.Event) -> None:
            self.released = released

        def hang(self) -> None:
            self.released.wait()

    calls, released, gone = CallThread("test"), threading.Event(), threading.Event()
    client = Client(released)
    weakref.finalize(client, gone.set)
    with pytest.raises(FencedError):
        calls.call(client.hang, 0.01, "hanging")
    del client

    assert not gone.is_set()
    released.set()
    assert gone.wait(PATIENCE_S)
