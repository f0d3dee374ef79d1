"""Which settings go to which client, and that the client agrees."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from logstate.kafka.client_keys import CONSUMER_KEYS, KNOWN_KEYS, PRODUCER_KEYS
from logstate.kafka.client_settings import ClientSettings
from logstate.kafka.cluster import KafkaCluster

NOWHERE = {"bootstrap.servers": "127.0.0.1:1", "group.id": "g"}
#: values that these take; any other takes a number
TEXTS = {
    "check.crcs": "true",
    "compression.codec": "gzip",
    "compression.level": "3",
    "compression.type": "gzip",
    "fetch.max.bytes": "104857600",
    "max.poll.interval.ms": "60000",
    "offset.store.path": "/nowhere",
    "produce.offset.report": "true",
    "queuing.strategy": "fifo",
    "share.acknowledgement.mode": "implicit",
    "receive.message.max.bytes": "104858112",
}


class Lines(logging.Handler):
    """What a client warns of."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if "will be ignored" in record.getMessage():
            self.found.append(record.getMessage())


@pytest.fixture
def lines() -> Iterator[Lines]:
    handler, logger = Lines(), logging.getLogger("client-settings")
    logger.propagate = False
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)


def client(kind: Any, settings: dict[str, Any]) -> None:
    config = {**settings, **NOWHERE, "logger": logging.getLogger("client-settings")}
    if kind is Producer:
        del config["group.id"]
    made = kind(config)
    made.poll(0)
    if kind is Consumer:
        made.close()


@pytest.mark.parametrize("key", sorted(CONSUMER_KEYS | PRODUCER_KEYS))
def test_a_setting_of_the_tables_is_one_that_the_other_client_would_warn_of(
    key: str, lines: Lines
) -> None:
    other = Producer if key in CONSUMER_KEYS else Consumer
    client(other, {key: TEXTS.get(key, "1000")})
    assert lines.found != [], f"{key} is no setting of one kind of client alone"


@pytest.mark.parametrize("key", sorted(CONSUMER_KEYS | PRODUCER_KEYS))
def test_nobody_is_given_what_it_would_warn_of(key: str, lines: Lines) -> None:
    settings = ClientSettings({key: TEXTS.get(key, "1000")})
    client(Consumer, settings.of_consumers())
    client(Producer, settings.of_producers())
    client(Producer, settings.of_admin())
    assert lines.found == []


def test_what_is_given_for_one_kind_overrides_what_is_common() -> None:
    settings = ClientSettings(
        {"socket.timeout.ms": 1}, {"socket.timeout.ms": 2}, {"socket.timeout.ms": 3}
    )
    given = (settings.of_consumers(), settings.of_producers(), settings.of_admin())
    assert [one["socket.timeout.ms"] for one in given] == [2, 3, 1]


def test_the_poll_interval_is_found_where_it_was_given() -> None:
    assert ClientSettings({"max.poll.interval.ms": 7}).max_poll_interval_ms(1) == 7
    assert ClientSettings(consumer={"max.poll.interval.ms": "8"}).max_poll_interval_ms(1) == 8
    assert ClientSettings().max_poll_interval_ms(1) == 1


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"consumer": {"linger.ms": 5}}, "give producer={'linger.ms': ...}"),
        ({"producer": {"fetch.max.bytes": 5}}, "give consumer={'fetch.max.bytes': ...}"),
        ({"admin": {"linger.ms": 5}}, "give producer={'linger.ms': ...}"),
        ({"consumer": {"group.id": "x"}}, "consumer['group.id'] belongs to the engine"),
        (
            {"admin": {"socket.timeout.mss": 5}},
            "admin['socket.timeout.mss'] is not known. Did you mean",
        ),
        ({"producer": {"linger.ms": []}}, "producer['linger.ms'] must be a number, found list"),
        ({"producer": {"compression.type": []}}, "producer['compression.type'] must be text"),
    ],
    ids=str,
)
def test_what_is_in_the_wrong_place_is_sent_to_the_right_one(
    settings: dict[str, Any], says: str
) -> None:
    (problem,) = ClientSettings(**settings).problems()
    assert says in problem


def test_the_tables_hold_known_settings_only() -> None:
    assert CONSUMER_KEYS | PRODUCER_KEYS <= KNOWN_KEYS
    assert not CONSUMER_KEYS & PRODUCER_KEYS


def test_a_reader_that_is_no_member_does_not_care_for_the_times_of_members() -> None:
    KafkaCluster("127.0.0.1:1", {"max.poll.interval.ms": 8_000}).log_consumer().close()
