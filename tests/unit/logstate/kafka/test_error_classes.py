"""Every error code has an answer, at every place; flags of the client are heard."""

from __future__ import annotations

from typing import get_args

import pytest
from confluent_kafka import KafkaError, KafkaException

from logstate.contracts.errors import (
    AbortableError,
    BrokerError,
    FencedError,
    LogstateError,
    RefusedError,
    RetriableError,
)
from logstate.kafka.error_classes import REACTIONS, Place, Reaction, reaction_to
from logstate.kafka.faults import cause_of, translate_error, underlying_code

CODES = {
    name: code
    for name in dir(KafkaError)
    if name == name.upper() and isinstance(code := getattr(KafkaError, name), int)
}
ERROR_OF = {
    Reaction.RETRY: RetriableError,
    Reaction.REPLAY: AbortableError,
    Reaction.FENCED: FencedError,
    Reaction.REFUSED: RefusedError,
    Reaction.FATAL: BrokerError,
}


def raised(code: int, place: Place = "transaction", **flags: bool) -> LogstateError:
    return translate_error(KafkaException(KafkaError(code, "x", **flags)), "testing", place)


def test_no_code_that_the_client_knows_is_missing() -> None:
    assert len(CODES) > 180
    assert sorted(name for name, code in CODES.items() if code not in REACTIONS) == []


@pytest.mark.parametrize("place", get_args(Place))
def test_every_code_becomes_the_error_of_its_reaction_at_every_place(place: Place) -> None:
    for code in CODES.values():
        assert type(raised(code, place)) is ERROR_OF[reaction_to(code, place)], code


def test_a_code_of_a_newer_broker_stops_cleanly() -> None:
    assert reaction_to(9_999, "transaction") is Reaction.FATAL
    assert type(raised(9_999)) is BrokerError


def test_flags_decide_about_a_code_of_a_newer_broker() -> None:
    assert type(raised(9_999, txn_requires_abort=True)) is AbortableError
    assert type(raised(9_999, fatal=True)) is FencedError
    assert type(raised(9_999, retriable=True)) is RetriableError


@pytest.mark.parametrize(
    ("name", "flag", "error"),
    [
        ("_TIMED_OUT", "txn_requires_abort", AbortableError),
        ("INVALID_TXN_STATE", "fatal", FencedError),
        ("UNKNOWN_PRODUCER_ID", "fatal", FencedError),
        ("MSG_SIZE_TOO_LARGE", "txn_requires_abort", RefusedError),
        ("TOPIC_AUTHORIZATION_FAILED", "txn_requires_abort", RefusedError),
        ("GROUP_AUTHORIZATION_FAILED", "txn_requires_abort", BrokerError),
        ("TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "fatal", BrokerError),
        ("OFFSET_METADATA_TOO_LARGE", "txn_requires_abort", BrokerError),
    ],
)
def test_flags_are_heard_where_a_replay_can_help(
    name: str, flag: str, error: type[LogstateError]
) -> None:
    assert type(raised(CODES[name], "transaction", **{flag: True})) is error


@pytest.mark.parametrize(
    ("name", "place", "reaction"),
    [
        ("_TRANSPORT", "admin", Reaction.RETRY),
        ("UNSTABLE_OFFSET_COMMIT", "group", Reaction.RETRY),
        ("UNKNOWN_MEMBER_ID", "transaction", Reaction.REPLAY),
        ("UNKNOWN_MEMBER_ID", "group", Reaction.RETRY),
        ("PRODUCER_FENCED", "transaction", Reaction.FENCED),
        ("UNRELEASED_INSTANCE_ID", "group", Reaction.FENCED),
        ("FENCED_INSTANCE_ID", "group", Reaction.FATAL),
        ("TOPIC_AUTHORIZATION_FAILED", "group", Reaction.FATAL),
        ("TOPIC_AUTHORIZATION_FAILED", "transaction", Reaction.REFUSED),
        ("_BAD_MSG", "fetch", Reaction.FATAL),
        ("GROUP_AUTHORIZATION_FAILED", "fetch", Reaction.RETRY),
        ("GROUP_AUTHORIZATION_FAILED", "group", Reaction.FATAL),
        ("_UNKNOWN_PARTITION", "produce", Reaction.REFUSED),
        ("_UNKNOWN_PARTITION", "transaction", Reaction.RETRY),
    ],
)
def test_answers_that_were_thought_about(name: str, place: Place, reaction: Reaction) -> None:
    assert reaction_to(CODES[name], place) is reaction


def test_what_made_a_consumer_unusable_is_read_from_its_text() -> None:
    taken = KafkaError(KafkaError.FENCED_INSTANCE_ID).str()
    error = KafkaError(KafkaError._FATAL, f"Fatal error: {taken}: join failed")
    assert underlying_code(error) == KafkaError.FENCED_INSTANCE_ID
    assert underlying_code(KafkaError(KafkaError._FATAL, "Fatal error")) == KafkaError._FATAL
    assert underlying_code(KafkaError(KafkaError._TRANSPORT)) == KafkaError._TRANSPORT


def test_a_call_that_fails_and_does_not_say_why_means_that_the_client_is_unusable() -> None:
    lost = SystemError("<method 'flush'> returned NULL without setting an exception")
    assert isinstance(translate_error(cause_of(lost), "flushing"), FencedError)
    with pytest.raises(SystemError, match="another"):
        cause_of(SystemError("another one"))
