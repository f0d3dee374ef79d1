"""What the reader of logs makes of answers that are none yet, and of those that stay so."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import KafkaError, KafkaException

from logstate.contracts.clients import Committed
from logstate.contracts.errors import BrokerError, ConfigError, RestoreError, TopicError
from logstate.contracts.records import TopicPartition
from logstate.kafka import group_offsets, log_reader
from logstate.kafka.admin import KafkaAdmin
from logstate.kafka.broker_facts import broker_facts
from logstate.kafka.group_offsets import committed_offsets
from logstate.kafka.log_reader import LogBounds, log_bounds, read_partition

CONFIG = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0}
LOG = TopicPartition("log", 0)


class NativeAdmin:
    """An admin client that is asked for offsets: numbers are answered, errors are told."""

    def __init__(self, *answers: int | KafkaError) -> None:
        self.answers = list(answers)

    def list_offsets(self, request: dict[Any, Any], **_: Any) -> dict[Any, Future[Any]]:
        future: Future[Any] = Future()
        answer = self.answers.pop(0)
        if isinstance(answer, KafkaError):
            future.set_exception(KafkaException(answer))
        else:
            future.set_result(SimpleNamespace(offset=answer))
        return dict.fromkeys(request, future)

    def list_topics(self, timeout: float) -> None:
        """Nothing is learned."""


class NativeConsumer:
    """A consumer that is asked for committed offsets, and how it was left."""

    def __init__(self, *answers: int | KafkaError) -> None:
        self.answers = list(answers)
        self.is_closed = False

    def committed(self, partitions: list[Any], _: float) -> list[Any]:
        answer = self.answers.pop(0)
        if isinstance(answer, KafkaError):
            raise KafkaException(answer)
        for one in partitions:
            one.offset = answer
        return partitions

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture(autouse=True)
def _without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_reader, "_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(group_offsets, "_PAUSE_SECONDS", 0.0)


def bounds(monkeypatch: pytest.MonkeyPatch, *answers: int | KafkaError) -> LogBounds:
    admin = NativeAdmin(*answers)
    monkeypatch.setattr(log_reader, "_admin", lambda _: admin)
    return log_bounds(CONFIG, [LOG])[LOG]


def committed(
    monkeypatch: pytest.MonkeyPatch, *answers: int | KafkaError
) -> dict[TopicPartition, Committed]:
    consumer = NativeConsumer(*answers)
    monkeypatch.setattr(confluent_kafka, "Consumer", lambda _: consumer)
    try:
        return committed_offsets(CONFIG, "group", [LOG])
    finally:
        assert consumer.is_closed


def test_an_end_that_the_broker_does_not_know_yet_is_asked_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert bounds(monkeypatch, -1001, 9, -1001, -1001, 7, 3) == LogBounds(3, 7, 9)


@pytest.mark.parametrize(
    "code",
    [KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.UNKNOWN_LEADER_EPOCH, KafkaError._TRANSPORT],
)
def test_an_error_of_brokers_that_restart_is_waited_for(
    code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert bounds(monkeypatch, KafkaError(code), 9, 7, 3) == LogBounds(3, 7, 9)


def test_brokers_that_stay_silent_are_an_error_that_names_what_was_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(log_reader, "_RETRY_SECONDS", -1.0)
    with pytest.raises(BrokerError, match="do not know the offsets of log-0"):
        bounds(monkeypatch, -1001)
    with pytest.raises(
        BrokerError, match=r"do not answer when .* the offsets of log-0 .*are they up"
    ):
        bounds(monkeypatch, KafkaError(KafkaError._TRANSPORT))


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("foo.bar", "secret", r"kafka\['foo.bar'\] is not known to the client, librdkafka"),
        ("session.timeout", "secret", r"is not known\. Did you mean 'session\.timeout\.ms'"),
        ("session.timeout.ms", "secret", r"refuses the value of 'session\.timeout\.ms' in kafka"),
        ("security.protocol", "secret", r"refuses the value of 'security\.protocol' in kafka"),
    ],
)
def test_settings_that_the_client_does_not_take_are_named_without_their_value(
    setting: str, value: str, message: str
) -> None:
    for use in (lambda given: log_bounds(given, [LOG]), KafkaAdmin, broker_facts):
        with pytest.raises(ConfigError, match=message) as caught:
            use({**CONFIG, setting: value})  # type: ignore[operator]
        assert value not in str(caught.value)


def test_a_topic_that_does_not_exist_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TopicError, match="there is no such topic or partition"):
        bounds(monkeypatch, KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))


@pytest.mark.parametrize(
    "code",
    [
        *(KafkaError.UNSTABLE_OFFSET_COMMIT, KafkaError.NOT_COORDINATOR, KafkaError._TIMED_OUT),
        *(KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.COORDINATOR_LOAD_IN_PROGRESS),
    ],
)
def test_offsets_are_asked_for_again_until_they_are_stable(
    code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert committed(monkeypatch, KafkaError(code), 7) == {LOG: Committed(7, "")}


def test_a_partition_without_an_offset_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    assert committed(monkeypatch, -1001) == {}


def test_offsets_that_stay_pending_are_left_for_those_of_the_commit_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As an instance leaves them that died between sending its offsets and the commit."""
    monkeypatch.setattr(group_offsets, "_STABLE_SECONDS", -1.0)
    unstable = KafkaError(KafkaError.UNSTABLE_OFFSET_COMMIT)
    consumers = {
        "read_committed": NativeConsumer(unstable),
        "read_uncommitted": NativeConsumer(7),
    }
    monkeypatch.setattr(
        confluent_kafka, "Consumer", lambda config: consumers[config["isolation.level"]]
    )

    assert committed_offsets(CONFIG, "group", [LOG]) == {LOG: Committed(7, "")}
    assert all(consumer.is_closed for consumer in consumers.values())


def test_a_group_whose_coordinator_stays_silent_is_an_error_that_names_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for limit in ("_STABLE_SECONDS", "_REQUEST_SECONDS"):
        monkeypatch.setattr(group_offsets, limit, -1.0)
    silent = KafkaError(KafkaError._TIMED_OUT)

    with pytest.raises(
        BrokerError, match=r"do not answer .* offsets of group 'group' .*are they up"
    ):
        committed(monkeypatch, silent, silent)


def test_a_group_that_may_not_be_read_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = "asking for the committed offsets of group 'group' failed: .*logstate acls"
    with pytest.raises(BrokerError, match=wanted):
        committed(monkeypatch, KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED))


class Answering:
    """An admin client that is not answered a few times; it may say why."""

    def __init__(self, config: dict[str, Any], silences: int, reason: KafkaError | None) -> None:
        self.tell, self.silences, self.reason = config["error_cb"], silences, reason
        self.waits_s: list[float] = []

    def list_topics(self, _topic: str, timeout: float) -> None:
        self.waits_s.append(timeout)
        if len(self.waits_s) <= self.silences:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))

    def poll(self, _: float) -> None:
        if self.reason is not None:
            self.tell(self.reason)


def first_asked(
    monkeypatch: pytest.MonkeyPatch, silences: int, reason: KafkaError | None = None
) -> list[float]:
    """How long a new client was given, time after time."""
    made: list[Answering] = []

    def client(config: dict[str, Any]) -> Answering:
        made.append(Answering(config, silences, reason))
        return made[-1]

    monkeypatch.setattr("confluent_kafka.admin.AdminClient", client)
    log_reader._kept_admin.cache_clear()
    try:
        log_reader.check_answered(CONFIG)
    finally:
        log_reader._kept_admin.cache_clear()
    return made[0].waits_s


def test_brokers_that_are_slow_to_answer_a_new_client_are_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert first_asked(monkeypatch, 1) == [3, 27]
    with pytest.raises(BrokerError, match=r"no broker answers at 127\.0\.0\.1:1 within 30 s"):
        first_asked(monkeypatch, 2)


def test_an_address_that_refuses_is_told_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    refuses = KafkaError(KafkaError._TRANSPORT, "Connection refused")
    with pytest.raises(BrokerError, match=r"within 3 s \(Connection refused\)"):
        first_asked(monkeypatch, 1, refuses)


class TruncatedLog:
    """A consumer whose place is behind the end of its log, and which begins at the beginning."""

    def __init__(self, _: dict[str, Any]) -> None:
        self.left: list[Any] = [Told(offset) for offset in range(120)]

    def assign(self, _: list[Any]) -> None:
        """It is."""

    def consume(self, count: int, *, timeout: float) -> list[Any]:
        taken, self.left = self.left[:count], self.left[count:]
        return taken

    def close(self) -> None:
        """Nothing is left of it."""


class Told:
    """A record at an offset."""

    def __init__(self, offset: int) -> None:
        self.at = offset

    def offset(self) -> int:
        return self.at

    def error(self) -> None:
        return None


def test_a_log_that_was_truncated_below_the_place_is_not_read_from_its_beginning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(confluent_kafka, "Consumer", TruncatedLog)

    with pytest.raises(RestoreError, match="offset 0 was read where 100 was expected"):
        list(read_partition(CONFIG, LOG, start=100, end=110, may_skip=True))
