from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstate import serdes
from logstate.contracts.errors import SerdeError
from logstate.serdes.join_serdes import (
    CombinedKeySerde,
    Instruction,
    Subscription,
    SubscriptionResponse,
    SubscriptionResponseSerde,
    SubscriptionSerde,
)

HASHES = st.one_of(st.none(), st.binary(min_size=16, max_size=16))
SUBSCRIPTIONS = SubscriptionSerde(serdes.string)
RESPONSES = SubscriptionResponseSerde(serdes.string)
KEYS = CombinedKeySerde(serdes.string, serdes.string, registration_topic="j-topic")
HASH = bytes.fromhex("3b309d49dd6f18e456e9c27f0aee7337")


def test_a_subscription_has_the_bytes_that_kafka_streams_sends():
    serialize = SUBSCRIPTIONS.serializer("t", False)
    found = Subscription(HASH, Instruction.SUBSCRIBE_AND_ANSWER_IF_FOUND, "a", 0)
    deleted = Subscription(None, Instruction.UNSUBSCRIBE_AND_ANSWER, "a", 0)

    assert serialize(found).hex() == "01033b309d49dd6f18e456e9c27f0aee73376100000000"
    assert serialize(deleted).hex() == "81016100000000"


def test_a_subscription_from_before_partitions_were_sent_has_none():
    data = b"\x00\x02" + HASH + b"key"
    subscription = SUBSCRIPTIONS.deserializer("t", False)(data)

    assert subscription == Subscription(HASH, Instruction.SUBSCRIBE_AND_ANSWER, "key", None)
    assert SUBSCRIPTIONS.serializer("t", False)(subscription) == data


def test_a_response_has_the_bytes_that_kafka_streams_sends():
    serialize = RESPONSES.serializer("t", False)

    assert serialize(SubscriptionResponse(HASH, "r0", 3)) == b"\x00" + HASH + b"r0"
    assert serialize(SubscriptionResponse(None, None, 3)) == b"\x80"


def test_an_empty_right_value_arrives_as_none():
    data = RESPONSES.serializer("t", False)(SubscriptionResponse(HASH, ""))

    assert RESPONSES.deserializer("t", False)(data) == SubscriptionResponse(HASH, None)


@pytest.mark.parametrize("serde", [SUBSCRIPTIONS, RESPONSES])
def test_a_newer_version_is_refused(serde: serdes.Serde[object]):
    with pytest.raises(SerdeError, match="newer"):
        serde.deserializer("t", False)(b"\x02\x01" + HASH)


@given(
    row_hash=HASHES,
    instruction=st.sampled_from(Instruction),
    key=st.text(),
    partition=st.one_of(st.none(), st.integers(0, 2**31 - 1)),
)
def test_a_subscription_comes_back_as_it_was(
    row_hash: bytes | None, instruction: Instruction, key: str, partition: int | None
):
    subscription = Subscription(row_hash, instruction, key, partition)
    data = SUBSCRIPTIONS.serializer("t", False)(subscription)

    assert SUBSCRIPTIONS.deserializer("t", False)(data) == subscription


@given(row_hash=HASHES, value=st.one_of(st.none(), st.text(min_size=1)))
def test_a_response_comes_back_as_it_was(row_hash: bytes | None, value: str | None):
    response = SubscriptionResponse(row_hash, value)
    data = RESPONSES.serializer("t", False)(response)

    assert RESPONSES.deserializer("t", False)(data) == response


@given(foreign_key=st.text(), primary_key=st.text(), other=st.text())
def test_a_combined_key_starts_with_its_foreign_key_and_with_no_other(
    foreign_key: str, primary_key: str, other: str
):
    data = KEYS.serializer("t", True)((foreign_key, primary_key))
    prefix = KEYS.prefix_serializer("t")

    assert KEYS.deserializer("t", True)(data) == (foreign_key, primary_key)
    assert data.startswith(prefix(foreign_key))
    assert data.startswith(prefix(other)) == (other == foreign_key)


def test_the_serdes_say_what_they_are_made_of():
    assert SUBSCRIPTIONS.describe()["primary_key"]["format"] == "string"
    assert RESPONSES.describe()["value"]["format"] == "string"
    assert KEYS.describe()["foreign_key"]["format"] == "string"
