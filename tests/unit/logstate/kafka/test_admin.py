"""What the admin client makes of answers that are none."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from logstate.contracts.clients import NewTopic
from logstate.contracts.errors import RetriableError
from logstate.contracts.records import TopicPartition
from logstate.kafka import admin
from logstate.kafka.admin import KafkaAdmin
from tests.patience import PATIENCE_S

LOG = TopicPartition("changelog", 0)


class Native:
    """A client whose broker knows no offsets at first."""

    def __init__(self, *answers: int) -> None:
        self._answers = list(answers)

    def list_offsets(self, request: dict[Any, Any], **_: Any) -> dict[Any, Future[Any]]:
        future: Future[Any] = Future()
        future.set_result(SimpleNamespace(offset=self._answers.pop(0)))
        return dict.fromkeys(request, future)

    def list_topics(self, timeout: float) -> None:
        """Nothing is learned."""


def admin_of(*answers: int) -> KafkaAdmin:
    made = KafkaAdmin({"bootstrap.servers": "127.0.0.1:1", "log_level": 0})
    made._admin = Native(*answers)  # type: ignore[assignment]
    return made


def test_an_end_that_the_broker_does_not_know_yet_is_asked_for_again() -> None:
    assert admin_of(-1001, -1001, 7).end_offsets([LOG]) == {LOG: 7}


def test_an_end_that_stays_unknown_is_no_offset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin, "REACH_LIMIT_S", -1.0)

    with pytest.raises(RetriableError, match="do not know the offsets of"):
        admin_of(-1001).start_offsets([LOG])


def test_no_record_of_a_time_means_the_end() -> None:
    assert admin_of(-1, 9).offsets_at([LOG], 1_000) == {LOG: 9}


def test_it_is_not_closed_while_offsets_are_being_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked, answers = threading.Event(), threading.Event()

    def read_slowly(*_: object) -> dict[Any, Any]:
        asked.set()
        assert answers.wait(PATIENCE_S)
        return {}

    monkeypatch.setattr(admin, "read_committed", read_slowly)
    asking = KafkaAdmin({"bootstrap.servers": "127.0.0.1:1", "log_level": 0})
    question = threading.Thread(target=asking.committed_so_far, args=("group", [LOG]))
    question.start()
    assert asked.wait(PATIENCE_S)
    closing = threading.Thread(target=asking.close)
    closing.start()
    closing.join(0.1)
    assert closing.is_alive()
    answers.set()
    question.join(PATIENCE_S)
    closing.join(PATIENCE_S)
    assert asking._reader is None


LOST, THERE = KafkaError.REQUEST_TIMED_OUT, KafkaError.TOPIC_ALREADY_EXISTS


class Maker:
    """A client that makes topics: what it answers to each request, as codes of errors or None, and
    which topics it shows then.
    """

    def __init__(self, *answers: dict[str, int | None], shown: list[list[str]]) -> None:
        self._answers = list(answers)
        self._shown = list(shown)
        self.asked: list[list[str]] = []

    def create_topics(self, topics: list[Any], **_: Any) -> dict[str, Future[Any]]:
        self.asked.append([topic.topic for topic in topics])
        return {name: told(code) for name, code in self._answers.pop(0).items()}

    def poll(self, timeout: float) -> None:
        """Nobody has called."""

    def list_topics(self, timeout: float) -> SimpleNamespace:
        names = self._shown.pop(0) if len(self._shown) > 1 else self._shown[0]
        partitions = {0: SimpleNamespace(leader=1)}
        return SimpleNamespace(topics={n: SimpleNamespace(partitions=partitions) for n in names})


def told(code: int | None) -> Future[Any]:
    future: Future[Any] = Future()
    if code is None:
        future.set_result(None)
    else:
        future.set_exception(KafkaException(KafkaError(code)))
    return future


def made_by(maker: Maker, *names: str) -> set[str]:
    asking = admin_of()
    asking._admin = maker  # type: ignore[assignment]
    return asking.create_topics([NewTopic(name, 1, 1, {}) for name in names])


def test_a_topic_that_was_made_beside_one_that_was_not_yet_is_told_when_both_are() -> None:
    maker = Maker({"a": None, "b": LOST}, {"a": THERE, "b": None}, shown=[["a", "b"]])

    assert made_by(maker, "a", "b") == {"a", "b"}


def test_a_topic_whose_answer_was_lost_may_be_somebody_elses() -> None:
    maker = Maker({"a": LOST}, {"a": THERE}, shown=[["a"]])

    assert made_by(maker, "a") == set()


def test_a_topic_that_its_maker_has_deleted_again_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin, "_QUICK_S", -1.0)
    maker = Maker({"a": None, "b": THERE}, {"b": None}, shown=[["a"], ["a"], ["a", "b"]])

    assert made_by(maker, "a", "b") == {"a", "b"}
    assert maker.asked == [["a", "b"], ["b"]]
