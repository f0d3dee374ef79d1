"""What the admin client makes of answers that are none."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

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
