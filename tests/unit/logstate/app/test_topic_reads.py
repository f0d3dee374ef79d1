"""Reads of topics end in time, whatever the brokers do, and a few at a time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from logstate.app.topic_reads import TopicReads, _truncated
from logstate.contracts.clock import ManualClock
from logstate.contracts.errors import BrokerError, TopicError
from logstate.testing import FakeCluster
from tests.patience import until

SOON_S = 0.05


class SilentCluster(FakeCluster):
    """Its brokers do not answer until they are ``released``."""

    def __init__(self) -> None:
        super().__init__({"in": 1})
        self.released = threading.Event()
        self.asked = 0

    def admin(self) -> Any:
        self.asked += 1
        self.released.wait()
        return super().admin()


@pytest.fixture
def silent() -> Iterator[SilentCluster]:
    cluster = SilentCluster()
    yield cluster
    cluster.released.set()


def test_brokers_that_do_not_answer_are_reported_in_time(silent: SilentCluster) -> None:
    reads = TopicReads("app", silent, ManualClock(), None)
    reason = r"the brokers did not answer within 0\.05 s\. Are they reachable from this instance\?"
    with pytest.raises(BrokerError, match=reason):
        reads.topics(SOON_S)
    with pytest.raises(BrokerError, match="the brokers did not answer"):
        reads.newest("in", 5, SOON_S)


def test_few_reads_wait_for_brokers_at_a_time(silent: SilentCluster) -> None:
    reads = TopicReads("app", silent, ManualClock(), None)
    for _ in range(4):
        with pytest.raises(BrokerError, match="did not answer"):
            reads.topics(SOON_S)
    with pytest.raises(BrokerError, match="4 reads of topics are in progress: try again"):
        reads.topics(SOON_S)
    assert silent.asked == 4
    silent.released.set()

    def is_free() -> bool:
        with suppress(BrokerError):
            try:
                reads.topics(60)
            except TopicError:
                return True
        return False

    until(is_free)


def test_an_application_that_has_not_started_has_no_topics() -> None:
    reads = TopicReads("app", FakeCluster({"in": 1}), ManualClock(), "dead")
    with pytest.raises(TopicError, match="application 'app' has no manifest on these brokers"):
        reads.topics(60)


@pytest.mark.parametrize("value", [None, 5, "text", {"a": [1, 2.5]}, float("nan")])
def test_a_short_value_is_shown_as_it_was_decoded(value: Any) -> None:
    assert _truncated(value)[1] == ""


def test_a_long_value_and_one_that_json_does_not_have_are_shown_as_text() -> None:
    text, remark = _truncated("x" * 20_000)
    assert len(text) == 10_001
    assert remark == ", the first 10000 of 20002 characters"
    assert _truncated("\ud800") == ("'\\ud800'", "")
