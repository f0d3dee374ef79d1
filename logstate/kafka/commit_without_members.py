"""Commit offsets of a group that has no members, as tools do that reset an application.

A consumer that never joins commits without a member id. The coordinator accepts this only for a
group without members, so no separate check is needed: the admin client's requests to a coordinator
can abort the process (docs/broker-errors.md).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import confluent_kafka
from confluent_kafka import Consumer, KafkaError, KafkaException

from logstate.contracts.errors import MembersLiveError, RetriableError
from logstate.contracts.records import TopicPartition
from logstate.kafka.faults import native_error, translate_error

#: for a coordinator that was just elected, or a group that is being created
_PATIENCE_S = 20.0
_NOT_ALONE = frozenset(
    {
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.FENCED_INSTANCE_ID,
    }
)


def commit_without_members(
    config: Mapping[str, Any], group_id: str, offsets: Mapping[TopicPartition, int]
) -> None:
    """Commit, without metadata. Raise MembersLiveError, or RetriableError without a response."""
    consumer = Consumer(
        {**config, "group.id": group_id, "enable.auto.commit": False, "group.protocol": "classic"}
    )
    native = [confluent_kafka.TopicPartition(t, p, o) for (t, p), o in offsets.items()]
    deadline = time.monotonic() + _PATIENCE_S
    try:
        while True:
            try:
                _commit(consumer, native)
            except KafkaException as exc:
                if native_error(exc).code() in _NOT_ALONE:
                    raise MembersLiveError(
                        f"group {group_id!r} has members: {native_error(exc).str()}. Stop every"
                        " instance of the application; one that was killed counts until its session"
                        " time-out is over"
                    ) from exc
                fault = translate_error(exc, f"committing offsets of group {group_id!r}")
                if not isinstance(fault, RetriableError) or time.monotonic() > deadline:
                    raise fault from exc
                time.sleep(0.1)
            else:
                return
    finally:
        consumer.close()


def _commit(consumer: Consumer, offsets: list[confluent_kafka.TopicPartition]) -> None:
    for one in consumer.commit(offsets=offsets, asynchronous=False) or ():
        if one.error is not None:
            raise KafkaException(one.error)
