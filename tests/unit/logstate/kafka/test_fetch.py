"""Sorting what one poll of the client brought."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Message

from logstate.contracts.errors import ForeignGroupError
from logstate.contracts.records import TopicPartition
from logstate.kafka.fetching import FETCH_MAX_BYTES, as_polled, by_partition, with_fetch_bounds


def fetched(topic: str, partition: int, offset: int) -> Message:
    return Message(  # type: ignore[call-arg]  # unknown to the client's stubs
        topic=topic, partition=partition, offset=offset, key=b"k", value=b"v", timestamp=(1, 1)
    )


def offsets(topics: list[tuple[str, int, int]]) -> dict[TopicPartition, list[int | None]]:
    groups = by_partition([fetched(*one) for one in topics])
    return {where: [record.offset() for record in records] for where, records in groups.items()}


def test_records_are_sorted_by_partition_in_the_order_they_came() -> None:
    found = offsets([("in", 0, 1), ("in", 0, 2), ("in", 1, 7), ("in", 0, 3)])

    assert found == {TopicPartition("in", 0): [1, 2, 3], TopicPartition("in", 1): [7]}


def test_equal_partitions_of_different_topics_are_told_apart() -> None:
    found = offsets([("in", 0, 1), ("users", 0, 2), ("users", 0, 3), ("in", 1, 4)])

    assert found == {
        TopicPartition("in", 0): [1],
        TopicPartition("users", 0): [2, 3],
        TopicPartition("in", 1): [4],
    }


def test_nothing_fetched_is_nothing() -> None:
    assert offsets([]) == {}


@pytest.mark.parametrize("code", ["GROUP_ID_NOT_FOUND", "INCONSISTENT_GROUP_PROTOCOL"])
def test_a_group_that_members_of_another_kind_have_is_told_from_brokers_that_fail(
    code: str,
) -> None:
    error = KafkaError(getattr(KafkaError, code))
    refused = Message(error=error)  # type: ignore[call-arg]  # unknown to the client's stubs
    with pytest.raises(ForeignGroupError, match="cannot be joined"):
        as_polled([refused], "group")


def test_what_a_consumer_holds_does_not_depend_on_the_number_of_partitions() -> None:
    assert with_fetch_bounds({}) == {
        "fetch.max.bytes": FETCH_MAX_BYTES,
        "queued.max.messages.kbytes": 8_192,
    }


@pytest.mark.parametrize(
    "given",
    [
        {"fetch.max.bytes": 50_000_000},
        {"queued.max.messages.kbytes": "65536"},
        {"max.partition.fetch.bytes": 5_000_000},
        {"message.max.bytes": 5_000_000},
        {"message.max.bytes": "5000000"},
        {"message.max.bytes": 1_000},
        {"message.max.bytes": 5_000_000, "fetch.max.bytes": 6_000_000},
    ],
)
def test_settings_of_the_user_win_and_the_client_accepts_them(given: dict[str, Any]) -> None:
    settings = with_fetch_bounds(given)
    assert given.items() <= settings.items()
    Consumer({"group.id": "x", **settings}).close()
