"""librdkafka called beside its Python client: what is believed, what is refused, what is raised.

That brokers are told and asked the very bytes is shown in tests/broker/test_offset_metadata.py.
"""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka import TopicPartition as NativePartition

from logstate.contracts.clients import Committed
from logstate.contracts.errors import BrokerError
from logstate.contracts.records import TopicPartition
from logstate.kafka import librdkafka as native
from logstate.kafka.faults import native_error
from logstate.kafka.librdkafka import Librdkafka, librdkafka, read_offsets
from logstate.kafka.offset_metadata import read_committed, send_offsets

NOWHERE = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0}
IN = TopicPartition("in", 3)
NATIVE_IN = NativePartition("in", 3, 1)
PAGE = 4096


@pytest.fixture
def consumer() -> Iterator[Consumer]:
    made = Consumer({**NOWHERE, "group.id": "group"})
    yield made
    made.close()


@pytest.fixture
def library(caplog: pytest.LogCaptureFixture) -> Librdkafka:
    """The functions without what is remembered of earlier clients."""
    caplog.set_level(logging.WARNING, "logstate.kafka")
    native._warn_once.cache_clear()
    found = librdkafka.__wrapped__()
    assert found is not None, caplog.text
    assert not caplog.records
    return found


def test_the_clients_of_this_version_are_reached(library: Librdkafka, consumer: Consumer) -> None:
    producer = Producer(NOWHERE)
    handles = {library.handle_of(consumer), library.handle_of(producer)}
    assert None not in handles
    assert len(handles) == 2


def test_a_client_of_the_users_own_class_is_reached_too(library: Librdkafka) -> None:
    class Mine(Producer):
        pass

    assert library.handle_of(Mine(NOWHERE)) is not None


def test_what_is_no_client_is_not_looked_into(library: Librdkafka) -> None:
    assert library.handle_of(SimpleNamespace()) is None  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", ["not mapped", "not aligned", "not a handle", "of another"])
def test_a_handle_that_is_not_the_clients_is_refused_without_a_crash(
    library: Librdkafka, consumer: Consumer, wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Producer(NOWHERE)
    memory = ctypes.create_string_buffer(2 * PAGE)
    found = {
        "not mapped": PAGE,
        "not aligned": (1 << 64) - 3,
        "not a handle": ctypes.addressof(memory),
        "of another": native._first_field(other),
    }[wrong]
    monkeypatch.setattr(native, "_first_field", lambda _: found)
    assert library.handle_of(consumer) is None


def test_a_client_that_keeps_its_handle_elsewhere_is_used_as_everybody_does_after_a_warning(
    library: Librdkafka,
    consumer: Consumer,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(native, "_first_field", lambda _: PAGE)
    assert [library.handle_of(consumer) for _ in range(3)] == [None] * 3
    (warning,) = caplog.records
    assert "a client object keeps its handle elsewhere" in warning.getMessage()
    assert "Known to work: the binary wheels" in warning.getMessage()


class OtherVersion(Librdkafka):
    def version(self) -> int:
        return 3 << 24


class LacksFunctions(Librdkafka):
    def __init__(self, library: ctypes.CDLL) -> None:
        super().__init__(library)
        _ = library.rd_kafka_no_such_function


class OtherLayout(Librdkafka):
    def topic_partition_list_copy(self, _: Any) -> Any:
        return self.topic_partition_list_new(1)


@pytest.mark.parametrize(
    ("other", "told"),
    [
        (OtherVersion, "it has version 03000000"),
        (LacksFunctions, "its functions were not found"),
        (OtherLayout, "its lists of offsets have another layout"),
    ],
)
@pytest.mark.usefixtures("library")
def test_a_library_that_is_not_understood_is_left_alone_with_a_warning(
    other: type[Librdkafka],
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(native, "Librdkafka", other)
    assert librdkafka.__wrapped__() is None
    (warning,) = caplog.records
    assert told in warning.getMessage()


def test_a_list_holds_metadata_byte_for_byte(library: Librdkafka) -> None:
    given = [("in", 3, 7, b"a\x00b\xff"), ("größe", 0, 1 << 60, b""), ("in", 4, 0, b"\x00" * 4096)]
    with library.offsets(given) as made:
        assert [
            (one.topic, one.partition, one.offset, one.metadata) for one in read_offsets(made)
        ] == given


def test_a_closed_consumer_says_so() -> None:
    closed = Consumer({**NOWHERE, "group.id": "group"})
    closed.close()
    with pytest.raises(RuntimeError, match="closed"):
        read_committed(closed, [IN], 1)


def test_brokers_that_do_not_answer_are_an_error_of_the_client(consumer: Consumer) -> None:
    with pytest.raises(KafkaException) as raised:
        read_committed(consumer, [IN], 0.05)
    assert native_error(raised.value).code() in {KafkaError._TIMED_OUT, KafkaError._TRANSPORT}


def test_what_librdkafka_says_of_a_transaction_is_raised_whole(consumer: Consumer) -> None:
    member = consumer.consumer_group_metadata()
    errors = []
    for config in (NOWHERE, {**NOWHERE, "transactional.id": "id"}):
        producer = Producer(config)
        for send in (
            lambda p: send_offsets(p, {IN: (1, "")}, member, 0.05),
            lambda p: p.send_offsets_to_transaction([NATIVE_IN], member, 0.05),
        ):
            with pytest.raises(KafkaException) as raised:
                send(producer)
            errors.append(native_error(raised.value))
    for ours, clients in zip(errors[::2], errors[1::2], strict=True):
        assert _all_of(ours) == _all_of(clients)


def _all_of(error: KafkaError) -> tuple[Any, ...]:
    flags = (error.fatal(), error.retriable(), error.txn_requires_abort())
    return error.code(), error.str(), flags


def test_credentials_that_are_damaged_are_refused(consumer: Consumer) -> None:
    with pytest.raises(KafkaException):
        send_offsets(Producer(NOWHERE), {IN: (1, "")}, b"no metadata of a group", 0.05)


class ReadsPastTheEnd:
    """A client that cannot be reached beside, and finds what no text may contain."""

    def committed(self, partitions: list[Any], _: float) -> list[Any]:
        return [self for _ in partitions]

    topic, partition, offset = IN.topic, IN.partition, 7

    @property
    def metadata(self) -> str:
        return b"AgAAAAAAAAAF\x85".decode()


def test_metadata_that_the_client_cannot_read_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(BrokerError, match="Known to work: the binary wheels"):
        read_committed(ReadsPastTheEnd(), [IN], 1)  # type: ignore[arg-type]


class Unreachable:
    """A client that cannot be reached beside."""

    def __init__(self) -> None:
        self.sent: list[Any] = []

    def committed(self, partitions: list[Any], _: float) -> list[Any]:
        for one, offset in zip(partitions, (7, -1001), strict=True):
            one.offset = offset
        return partitions

    def send_offsets_to_transaction(self, offsets: list[Any], *_: object) -> None:
        self.sent = [(o.topic, o.partition, o.offset, o.metadata) for o in offsets]


def test_a_client_that_is_not_reached_is_asked_and_told_as_everybody_does() -> None:
    client: Any = Unreachable()
    other = TopicPartition("in", 4)
    assert read_committed(client, [IN, other], 1) == {
        IN: Committed(7, ""),
        other: Committed(None, ""),
    }
    send_offsets(client, {IN: (7, "text")}, b"", 1)
    assert client.sent == [("in", 3, 7, "text")]
