"""A consumer polled beside its worker: no record overtakes, no rebalance is answered there."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from logstate.contracts.clients import Rebalance
from logstate.contracts.records import TopicPartition
from logstate.kafka.background_poller import BackgroundPoller
from tests.patience import PATIENCE_S

GONE = Rebalance("revoked", [TopicPartition("t", 0)])
LOST = Rebalance("lost", [TopicPartition("t", 0)])
NEW = Rebalance("assigned", [TopicPartition("t", 1)])


class Client:
    """As much of a consumer as is polled: messages, and what happens inside a call."""

    def __init__(self) -> None:
        self.messages = list(range(100))
        self.inside: Callable[[], None] = lambda: None
        self.calls = 0

    def consume(self, count: int, timeout_s: float) -> list[Any]:
        assert timeout_s == 0
        self.calls += 1
        self.inside()
        taken, self.messages = self.messages[:count], self.messages[count:]
        return taken


@pytest.fixture
def client() -> Client:
    return Client()


@pytest.fixture
def beside(client: Client) -> BackgroundPoller:
    return BackgroundPoller(client)  # type: ignore[arg-type]


@pytest.fixture
def answered() -> list[tuple[Rebalance, int]]:
    """Rebalances, and the threads they were answered on."""
    return []


@pytest.fixture
def in_callback(
    beside: BackgroundPoller, client: Client
) -> Iterator[Callable[..., threading.Thread]]:
    """Another thread that is called back inside its poll, and the moment at which it is."""
    threads = []

    def poll_with(*rebalances: Rebalance) -> threading.Thread:
        entered = threading.Event()

        def inside() -> None:
            assert beside.is_here()
            for rebalance in rebalances:
                entered.set()
                beside.hand_over(rebalance)

        client.inside = inside
        thread = threading.Thread(target=beside.poll, args=(lambda: True,), daemon=True)
        threads.append(thread)
        thread.start()
        assert entered.wait(PATIENCE_S)
        return thread

    yield poll_with
    for thread in threads:
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


def worker_polls(beside: BackgroundPoller, answered: list[tuple[Rebalance, int]]) -> None:
    with beside.turn(lambda rebalance: answered.append((rebalance, threading.get_ident()))):
        pass


def test_what_a_poll_beside_brings_is_kept_in_order(beside: BackgroundPoller) -> None:
    for _ in range(3):
        beside.poll(lambda: True)
    assert beside.kept == [0, 1, 2]


def test_nothing_is_polled_once_the_worker_has_moved_on(
    beside: BackgroundPoller, client: Client
) -> None:
    beside.poll(lambda: False)
    assert client.calls == 0


def test_nothing_is_polled_beside_a_worker_that_polls(
    beside: BackgroundPoller, client: Client
) -> None:
    other = threading.Thread(target=beside.poll, args=(lambda: True,))
    with beside.turn(lambda _: None):
        other.start()
        other.join(PATIENCE_S)
    assert client.calls == 0


def test_a_revocation_waits_in_its_callback_for_the_worker(
    beside: BackgroundPoller,
    in_callback: Callable[..., threading.Thread],
    answered: list[tuple[Rebalance, int]],
) -> None:
    thread = in_callback(GONE)
    thread.join(0.05)
    assert thread.is_alive()
    worker_polls(beside, answered)
    thread.join(PATIENCE_S)
    assert answered == [(GONE, threading.get_ident())]


def test_an_assignment_does_not_wait_and_is_answered_first(
    beside: BackgroundPoller,
    in_callback: Callable[..., threading.Thread],
    answered: list[tuple[Rebalance, int]],
) -> None:
    in_callback(NEW).join(PATIENCE_S)
    thread = in_callback(GONE)
    worker_polls(beside, answered)
    thread.join(PATIENCE_S)
    assert [rebalance for rebalance, _ in answered] == [NEW, GONE]


def test_a_worker_that_has_lost_its_partitions_can_know_before_its_next_poll(
    beside: BackgroundPoller,
    in_callback: Callable[..., threading.Thread],
    answered: list[tuple[Rebalance, int]],
) -> None:
    assert not beside.is_lost
    thread = in_callback(LOST)
    while not beside.is_lost:
        assert thread.is_alive()
    worker_polls(beside, answered)
    assert not beside.is_lost


def test_what_an_answer_asks_of_the_client_is_asked_by_the_thread_in_the_callback(
    beside: BackgroundPoller, in_callback: Callable[..., threading.Thread]
) -> None:
    thread = in_callback(GONE)
    asked_on: list[int] = []

    def fail() -> int:
        raise ValueError("refused")

    def answer(_: Rebalance) -> None:
        asked_on.append(beside.call(threading.get_ident))
        with pytest.raises(ValueError, match="refused"):
            beside.call(fail)

    asked_on.append(beside.call(threading.get_ident))  # before the answer has begun, too
    with beside.turn(answer):
        pass
    assert asked_on == [thread.ident, thread.ident]
    assert beside.call(threading.get_ident) == threading.get_ident()


def test_an_answer_that_fails_lets_the_callback_go(
    beside: BackgroundPoller, in_callback: Callable[..., threading.Thread]
) -> None:
    thread = in_callback(GONE)

    def fail(_: Rebalance) -> None:
        raise ValueError("no answer")

    with pytest.raises(ValueError, match="no answer"), beside.turn(fail):
        pass
    thread.join(PATIENCE_S)
    assert not thread.is_alive()


def test_closing_lets_a_callback_go_and_ends_the_polling(
    beside: BackgroundPoller, client: Client, in_callback: Callable[..., threading.Thread]
) -> None:
    thread = in_callback(GONE)
    beside.close()
    thread.join(PATIENCE_S)
    calls = client.calls
    beside.poll(lambda: True)
    assert client.calls == calls
