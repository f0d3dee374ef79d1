"""Reads logs from outside the application: bounds, committed offsets, records up to an offset.

How it works: a consumer that never joins a group is pointed at one partition and read, committed
records only, until its *position* reaches the wanted end. Position moves over what a reader never
sees (transaction markers, aborted records, records that compaction removed): by the next record,
or by the end-of-partition event, which carries the offset that was reached.

Invariants:

- Nothing is written, no group is joined, no offset is committed, no topic is created.
- Records are never counted, and nobody waits for "the record at end - 1": it may not exist.
- Waiting is bounded: no progress for the given time ends in an error that names the likely cause.

Not responsible for: what the bytes mean.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import confluent_kafka
import confluent_kafka.admin

from logstate.contracts.errors import BrokerError, LogstateError, RestoreError, TopicError
from logstate.contracts.records import FetchedRecord, TopicPartition

# The client library's own events and errors have names with an underscore; they are public.
_PARTITION_EOF = confluent_kafka.KafkaError._PARTITION_EOF
_OUT_OF_RANGE = (
    confluent_kafka.KafkaError._AUTO_OFFSET_RESET,
    confluent_kafka.KafkaError.OFFSET_OUT_OF_RANGE,
)
_UNREACHABLE = (
    confluent_kafka.KafkaError._TRANSPORT,
    confluent_kafka.KafkaError._ALL_BROKERS_DOWN,
)

_BATCH_RECORDS = 10_000
_IDLE_POLL_SECONDS = 0.2
_REQUEST_SECONDS = 30.0

_CONSUMER_CONFIG: dict[str, Any] = {
    "group.id": "logstate-log-reader",  # the client requires one; it is never joined
    "isolation.level": "read_committed",
    "enable.partition.eof": True,
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    # The end-of-partition event behind a trailing transaction marker costs one such wait.
    "fetch.wait.max.ms": 25,
    # A full queue pauses fetching this long, by default a second in which the reader starves.
    "fetch.queue.backoff.ms": 10,
}


class CommittedOffset(NamedTuple):
    """What a group committed for one partition."""

    offset: int
    metadata: str


class LogBounds(NamedTuple):
    """The offsets of a partition at the time of asking."""

    start: int
    """Lowest offset that can still be read."""
    stable_end: int
    """Committed data ends here: the first open transaction starts here, or the log ends."""
    end: int
    """Next offset to be written; data of open transactions lies below it."""


def partition_counts(config: Mapping[str, Any], topics: Iterable[str]) -> dict[str, int]:
    """Partition count of each topic.

    Raises TopicError for a topic that does not exist, BrokerError if nobody answers.
    """
    names = confluent_kafka.TopicCollection(list(topics))
    futures = _admin(config).describe_topics(names, request_timeout=_REQUEST_SECONDS)
    return {
        topic: len(_result(future, config, f"topic {topic!r}").partitions)
        for topic, future in futures.items()
    }


def log_bounds(
    config: Mapping[str, Any], partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, LogBounds]:
    """Start, last stable offset and end of each partition.

    The end is asked first, so that ``stable_end`` can only be newer than the ``end`` beside it.
    Raises TopicError for an unknown partition, BrokerError if nobody answers.
    """
    wanted = list(partitions)
    admin, spec = _admin(config), confluent_kafka.admin.OffsetSpec
    end = _list_offsets(admin, config, wanted, spec.latest(), "READ_UNCOMMITTED")
    stable = _list_offsets(admin, config, wanted, spec.latest(), "READ_COMMITTED")
    start = _list_offsets(admin, config, wanted, spec.earliest(), "READ_UNCOMMITTED")
    return {tp: LogBounds(start[tp], stable[tp], max(end[tp], stable[tp])) for tp in wanted}


def committed_offsets(
    config: Mapping[str, Any], group: str
) -> dict[TopicPartition, CommittedOffset]:
    """Every offset the group committed, with metadata, in one stable answer.

    One request for the whole group, answered only from transactions that have ended: offsets that
    one transaction committed for several partitions are seen together or not at all.
    """
    request = [confluent_kafka.ConsumerGroupTopicPartitions(group)]
    admin = _admin(config)
    deadline = time.monotonic() + _REQUEST_SECONDS
    while True:
        (future,) = admin.list_consumer_group_offsets(
            request, require_stable=True, request_timeout=_REQUEST_SECONDS
        ).values()
        found = _result(future, config, f"the committed offsets of group {group!r}")
        # A partition whose offsets are part of a transaction that is just ending answers with an
        # error of its own, which passes within milliseconds.
        if not any(tp.error is not None for tp in found.topic_partitions):
            break
        if time.monotonic() > deadline:
            raise BrokerError(
                f"the committed offsets of group {group!r} did not become stable within "
                f"{_REQUEST_SECONDS:g} s; a transaction that commits them hangs; restart its owner "
                "or wait for its transaction timeout"
            )
        time.sleep(0.05)
    return {
        TopicPartition(tp.topic, tp.partition): CommittedOffset(tp.offset, tp.metadata or "")
        for tp in found.topic_partitions
        if tp.offset >= 0
    }


def read_partition(
    config: Mapping[str, Any],
    partition: TopicPartition,
    *,
    start: int,
    end: int,
    may_skip: bool = False,
    stall_seconds: float = 60.0,
) -> Iterator[list[FetchedRecord]]:
    """Batches of the committed records with ``start <= offset < end``, in offset order.

    Ends when the position reaches ``end``. Tombstones are included. With ``may_skip`` a log that
    begins after ``start`` is read from where it begins. (Give the start that ``log_bounds`` told:
    a client that has to find the beginning by itself takes half a second for it.)

    Raises RestoreError if ``start`` is not in the log, BrokerError if the position does not move
    for ``stall_seconds`` or the brokers refuse.
    """
    if start >= end:
        return
    reset = {"auto.offset.reset": "earliest" if may_skip else "error"}
    consumer = confluent_kafka.Consumer({**config, **_CONSUMER_CONFIG, **reset})
    try:
        consumer.assign([confluent_kafka.TopicPartition(*partition, start)])
        position = start
        deadline = time.monotonic() + stall_seconds
        while position < end:
            records, reached = _take(consumer, partition, position, end)
            if records:
                yield records
            if reached > position:
                position, deadline = reached, time.monotonic() + stall_seconds
            elif time.monotonic() > deadline:
                raise _stalled(config, partition, position, end, stall_seconds)
    finally:
        consumer.close()


def latest_values(
    config: Mapping[str, Any], partition: TopicPartition, *, waits: bool = False
) -> dict[bytes, bytes]:
    """The latest committed value of every key of a small compacted partition, deletes honoured.

    ``waits``: for transactions that are being committed now; a commit returns to its producer
    before its records become readable.

    Raises TopicError if there is no such topic.
    """
    partition_counts(config, [partition.topic])
    bounds = log_bounds(config, [partition])[partition]
    latest: dict[bytes, bytes] = {}
    for records in read_partition(
        config,
        partition,
        start=bounds.start,
        end=bounds.end if waits else bounds.stable_end,
        may_skip=True,
    ):
        for record in records:
            value = record.value()
            if value is None:
                latest.pop(record.key(), None)
            else:
                latest[record.key()] = value
    return latest


def _take(
    consumer: Any, partition: TopicPartition, position: int, end: int
) -> tuple[list[FetchedRecord], int]:
    """What is there below ``end``, and the position after it. Waits only if nothing is there."""
    # Asking for records that are not there costs the whole timeout, so: take what the client has
    # fetched already, and only when that is nothing wait, for one.
    messages = consumer.consume(min(_BATCH_RECORDS, end - position), timeout=0)
    if not messages:
        message = consumer.poll(_IDLE_POLL_SECONDS)
        messages = [] if message is None else [message]
    records: list[FetchedRecord] = []
    for message in messages:
        error = message.error()
        if error is None:
            position = message.offset() + 1
            if position > end:
                return records, end
            records.append(message)
        elif error.code() == _PARTITION_EOF:
            position = max(position, message.offset())
        else:
            _raise_unless_passing(error, partition, position)
    return records, min(position, end)


def _raise_unless_passing(error: Any, partition: TopicPartition, position: int) -> None:
    code = error.code()
    if code in _OUT_OF_RANGE:
        raise RestoreError(
            f"{partition}: offset {position} is not in the log ({error.str()}); retention or a "
            "deletion removed it, or the topic was created anew; start again from a full read"
        )
    if error.retriable() or code in _UNREACHABLE:
        return  # the client goes on by itself; the deadline bounds how long
    raise BrokerError(f"{partition}: reading stopped at offset {position}: {error.str()}")


def _stalled(
    config: Mapping[str, Any], partition: TopicPartition, position: int, end: int, seconds: float
) -> LogstateError:
    bounds = log_bounds(config, [partition])[partition]
    if bounds.end < end:
        return RestoreError(
            f"{partition}: the log ends at {bounds.end}, before the wanted offset {end}; it was "
            "truncated or created anew; read at a newer cut"
        )
    if bounds.stable_end < end:
        return BrokerError(
            f"{partition}: committed data ends at {bounds.stable_end}, before the wanted offset "
            f"{end}, and did not move for {seconds:g} s; an open transaction holds it; its owner "
            "may be dead: restart it, or wait until its transaction times out, and read again"
        )
    return BrokerError(
        f"{partition}: no data arrived for {seconds:g} s at offset {position} of {end}; "
        "are the partition's leader and its advertised address reachable from this machine?"
    )


def _list_offsets(
    admin: Any,
    config: Mapping[str, Any],
    partitions: list[TopicPartition],
    spec: Any,
    isolation: str,
) -> dict[TopicPartition, int]:
    futures = admin.list_offsets(
        {confluent_kafka.TopicPartition(*partition): spec for partition in partitions},
        isolation_level=confluent_kafka.IsolationLevel[isolation],
        request_timeout=_REQUEST_SECONDS,
    )
    return {
        TopicPartition(tp.topic, tp.partition): _result(
            future, config, f"the offsets of {tp.topic}-{tp.partition}"
        ).offset
        for tp, future in futures.items()
    }


def _admin(config: Mapping[str, Any]) -> Any:
    # A new client's first request now and then waits a second for its connection, so clients are
    # kept; per process, because a forked child must not use its parent's.
    return _kept_admin(os.getpid(), tuple(sorted(config.items())))


@lru_cache(maxsize=4)
def _kept_admin(process_id: int, config: tuple[tuple[str, Any], ...]) -> Any:  # noqa: ARG001
    return confluent_kafka.admin.AdminClient(dict(config))


def _result(future: Any, config: Mapping[str, Any], what: str) -> Any:
    try:
        return future.result()
    except confluent_kafka.KafkaException as exception:
        error: Any = exception.args[0]
        if error.code() == confluent_kafka.KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise TopicError(
                f"{what}: there is no such topic or partition on "
                f"{config.get('bootstrap.servers')}; is the name right, and the cluster?"
            ) from exception
        raise BrokerError(
            f"asking for {what} failed: {error.str()}; are the brokers at "
            f"{config.get('bootstrap.servers')} up and reachable from this machine?"
        ) from exception
