"""The result of a poll of the client: records by partition, ends of logs, errors.

How records leave the client is in :mod:`logstate.kafka.record_source`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

import confluent_kafka
from confluent_kafka import KafkaError, Message

from logstate.contracts.clients import Polled
from logstate.contracts.errors import (
    BrokerError,
    FencedError,
    ForeignGroupError,
    LostMemberError,
)
from logstate.contracts.records import FetchedRecord, TopicPartition
from logstate.kafka.error_classes import Place, Reaction, reaction_to
from logstate.kafka.faults import HOW_TO_ALLOW, NOT_ALLOWED, underlying_code
from logstate.kafka.header_names import read_headers

#: bounds of one response of a broker, and of the queue of fetched records
FETCH_MAX_BYTES: Final = 2 << 20
QUEUED_MAX_KBYTES: Final = 8_192
_OUT_OF_RANGE = frozenset(
    {
        KafkaError.OFFSET_OUT_OF_RANGE,
        KafkaError._AUTO_OFFSET_RESET,
        KafkaError._LOG_TRUNCATION,
    }
)
#: a member of this protocol may not join, or the group was deleted
_OF_ANOTHER_KIND = frozenset(
    {KafkaError.GROUP_ID_NOT_FOUND, KafkaError.INCONSISTENT_GROUP_PROTOCOL}
)


def with_fetch_bounds(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a consumer, with limits on what it buffers before it is polled.

    By default a response has up to 1 MB per partition, so memory grows with the number of
    partitions. Measured with 24 partitions: 65 to 100 MB for the process instead of 180, with the
    same throughput and CPU time. The settings of ``config`` win. A batch that is larger than the
    bound still arrives; the client refuses a bound below its ``message.max.bytes``.

    >>> with_fetch_bounds({"message.max.bytes": 5_000_000})["fetch.max.bytes"]
    5000000
    """
    least = int(config.get("message.max.bytes", 0))
    bounds = {
        "fetch.max.bytes": max(FETCH_MAX_BYTES, least),
        "queued.max.messages.kbytes": QUEUED_MAX_KBYTES,
    }
    return {**bounds, **config}


def native(
    partitions: Iterable[TopicPartition], offset: int = 0
) -> list[confluent_kafka.TopicPartition]:
    """Return partitions in the client's class."""
    return [confluent_kafka.TopicPartition(t, p, offset) for t, p in partitions]


def native_at(positions: Mapping[TopicPartition, int]) -> list[confluent_kafka.TopicPartition]:
    """Return partitions with their positions in the client's class."""
    return [confluent_kafka.TopicPartition(t, p, o) for (t, p), o in positions.items()]


def as_polled(messages: list[Message], place: Place) -> Polled:
    """Return records by partition, ends and errors; raise errors that cannot be handled."""
    polled = Polled()
    # The client's accessors are called from C here and below: a loop costs three times as much.
    if any(map(Message.error, messages)):
        messages = _without_errors(polled, messages, place)
    polled.records = by_partition(messages)
    for records in polled.records.values():
        read_headers(records)
    return polled


def _without_errors(polled: Polled, messages: Sequence[Message], place: Place) -> list[Message]:
    records = []
    for message in messages:
        error = message.error()
        if error is None:
            records.append(message)
        else:
            where = (message.topic(), message.partition())
            sort_error(polled, error, where, message.offset(), place)
    return records


def by_partition(messages: Sequence[Message]) -> dict[TopicPartition, list[FetchedRecord]]:
    """Group records; a partition's records are adjacent, so it is looked up once per run."""
    groups: dict[TopicPartition, list[FetchedRecord]] = {}
    has_one_topic = len(set(map(Message.topic, messages))) == 1
    key: Callable[[Message], Any] = Message.partition if has_one_topic else place_of
    for _, run in groupby(messages, key):
        records: list[Any] = list(run)
        first = records[0]
        where = TopicPartition(first.topic() or "", first.partition() or 0)
        if where in groups:
            groups[where] += records
        else:
            groups[where] = records
    return groups


def place_of(message: Message) -> tuple[str | None, int | None]:
    """Return topic and partition."""
    return message.topic(), message.partition()


def sort_error(
    polled: Polled, error: KafkaError, where: tuple[Any, Any], offset: Any, place: Place
) -> None:
    """Add what an error reports to the result, or raise it; ignore what the client retries."""
    code = error.code()
    if code == KafkaError._PARTITION_EOF:
        polled.ends.append((TopicPartition(*where), offset))
        return
    if code in _OUT_OF_RANGE:
        polled.out_of_range[TopicPartition(*where)] = offset
        return
    if code == KafkaError._BAD_COMPRESSION and place == "group":
        polled.unreadable.setdefault(TopicPartition(*where), (offset, error.str()))
        return
    if code == KafkaError._MAX_POLL_EXCEEDED:
        # The client joins again by itself at the next poll.
        raise FencedError(f"this member was removed from the group: {error.str()}")
    cause = underlying_code(error)
    if cause in _OF_ANOTHER_KIND:
        raise ForeignGroupError(f"the group cannot be joined: {error.str()}")
    reaction = reaction_to(cause, place)
    if reaction is Reaction.FATAL and cause in NOT_ALLOWED:
        topic = "" if where[0] is None else f" topic {where[0]!r}"
        raise BrokerError(f"reading{topic} failed for good: {error.str()}; {HOW_TO_ALLOW}")
    if reaction is Reaction.FATAL:
        at = "" if where[0] is None else f" of {where[0]}-{where[1]} at offset {offset}"
        raise BrokerError(
            f"reading{at} failed for good: {error.str()} ({error.name()}). Continuing would skip"
            " records silently: check the permissions and settings of this client, and the log"
            " itself"
        )
    if error.fatal() or code == KafkaError._FATAL or reaction is Reaction.FENCED:
        raise LostMemberError(f"the group's consumer cannot be used any more: {error.str()}")
    # every other error is transient, and the client retries by itself
