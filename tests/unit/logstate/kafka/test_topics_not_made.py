"""A topic that brokers refuse to make: what they say, what was asked for, and what to do."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from logstate.contracts.clients import NewTopic
from logstate.contracts.errors import BrokerError, TopicError
from logstate.kafka.faults import not_made

TOPIC = NewTopic("app-counts-changelog", 4, 3, {"cleanup.policy": "compact"})


def told(code: int, topic: NewTopic = TOPIC, brokers: int = 1) -> str:
    return str(not_made(topic, KafkaError(code, "so it is"), (), brokers))


@pytest.mark.parametrize(
    ("code", "remedy"),
    [
        (KafkaError.INVALID_REPLICATION_FACTOR, "replication_factor= with at most 1, or -1 for"),
        (KafkaError.POLICY_VIOLATION, "create.topic.policy.class.name.*Follow it by"),
        (KafkaError.INVALID_CONFIG, "It needs cleanup.policy=compact. Correct topic_config="),
        (KafkaError.INVALID_REQUEST, "Correct topic_config=, or changelog_config= of the store"),
        (KafkaError.INVALID_PARTITIONS, "Use fewer there"),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, "`logstate acls` lists the permissions"),
        (KafkaError.CLUSTER_AUTHORIZATION_FAILED, "is not allowed to.*topics create --dry-run"),
        (KafkaError.UNSUPPORTED_VERSION, "Give replication_factor= with a number"),
        (KafkaError.THROTTLING_QUOTA_EXCEEDED, "The brokers' logs may contain the reason"),
    ],
)
def test_each_reason_has_its_remedy(code: int, remedy: str) -> None:
    error = not_made(TOPIC, KafkaError(code, "so it is"), (), 1)
    assert type(error) is BrokerError
    asked = "creating topic 'app-counts-changelog' (4 partitions, replication factor 3) failed"
    assert str(error).startswith(f"{asked}: so it is (")
    with pytest.raises(BrokerError, match=remedy):
        raise error


def test_too_many_copies_are_told_with_the_number_of_brokers() -> None:
    code = KafkaError.INVALID_REPLICATION_FACTOR
    assert "3 replicas of each partition were requested, and the cluster has 2 brokers" in told(
        code, brokers=2
    )
    assert "there are fewer brokers: give replication_factor= with fewer" in told(code, brokers=0)
    by_default = told(code, TOPIC._replace(replication_factor=-1))
    assert "the brokers' default number of replicas" in by_default
    assert "default.replication.factor), and the cluster has 1 broker: give" in by_default


def test_a_name_that_brokers_do_not_take_is_an_error_of_the_topic() -> None:
    error = not_made(
        TOPIC._replace(name="a" * 300), KafkaError(KafkaError.TOPIC_EXCEPTION, "no"), (), 1
    )
    with pytest.raises(
        TopicError, match=r"The name has 300 characters.*shorten the application_id"
    ):
        raise error


def test_a_name_that_clashes_with_another_topic_is_told_first() -> None:
    error = not_made(
        TOPIC._replace(name="a.b"), KafkaError(KafkaError.TOPIC_EXCEPTION, "no"), ("a_b",), 1
    )
    with pytest.raises(TopicError, match="a_b"):
        raise error
