"""Read logs from outside the application: topics, bounds, records up to an offset.

How it works: a consumer that never joins a group is assigned one partition and read, committed
records only, until its *position* reaches the wanted end. The position moves over entries that a
reader never sees (transaction markers, aborted records, records that compaction removed): with the
next record, or with the end-of-partition event, which carries the offset that was reached.

Invariants:

- It writes nothing, joins no group, commits no offset, creates no topic.
- It never counts records, and never waits for "the record at end - 1": it may not exist.
- Waiting is bounded: no progress for the given time ends in an error that names the likely cause.

Not responsible for: the meaning of the bytes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from functools import lru_cache
from operator import methodcaller
from typing import Any, NamedTuple

import confluent_kafka
import confluent_kafka.admin

from logstate.contracts.errors import (
    BrokerError,
    LogstateError,
    RestoreError,
)
from logstate.contracts.records import FetchedRecord, TopicPartition
from logstate.kafka.client_config import admin_client
from logstate.kafka.faults import native_error, passes, refused
from logstate.kafka.fetching import with_fetch_bounds
from logstate.kafka.garbage_collector import FreeMemory, gc_disabled
from logstate.kafka.header_names import read_headers

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

_FREE_MEMORY = FreeMemory()
_BATCH_RECORDS = 10_000
_IDLE_POLL_SECONDS = 0.2
_error_of = methodcaller("error")
_REQUEST_SECONDS = 30.0
#: a client without any response fails then, if it knows the reason; else after the second
_FIRST_ANSWER_SECONDS = (3.0, 27.0)
#: a topic to ask for: without one, the response lists all topics
_NO_TOPIC = "__consumer_offsets"
#: errors after this time are not retried
_RETRY_SECONDS = 25.0
#: between two requests
_PAUSE_SECONDS = 0.05

#: the client's own log lines, twenty a second without brokers; the error contains the reason
QUIET: Mapping[str, Any] = {"log_level": 2}
CONSUMER_CONFIG: dict[str, Any] = {
    "group.id": "logstate-log-reader",  # the client requires one; it is never joined
    "isolation.level": "read_committed",
    "enable.partition.eof": True,
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    # The end-of-partition event after a trailing transaction marker costs one such wait.
    "fetch.wait.max.ms": 25,
    # A full queue pauses fetching for this time, by default a second without records.
    "fetch.queue.backoff.ms": 10,
}


class LogBounds(NamedTuple):
    """The offsets of a partition at the time of the request."""

    start: int
    """Lowest offset that can still be read."""
    stable_end: int
    """End of committed data: the first open transaction starts here, or the log ends."""
    end: int
    """Next offset to be written; data of open transactions is below it."""


class LogTopic(NamedTuple):
    """A topic at the time of the request."""

    topic_id: str
    """Id of this incarnation: a topic that is deleted and created again has another one."""
    partitions: int


def log_topics(config: Mapping[str, Any], topics: Iterable[str]) -> dict[str, LogTopic]:
    """Return the id and the partition count of each topic.

    Raises TopicError for a topic that does not exist, BrokerError if no broker responds.
    """
    names = confluent_kafka.TopicCollection(list(topics))
    found = asked(
        config,
        lambda admin: admin.describe_topics(names, request_timeout=_REQUEST_SECONDS),
        lambda topic: f"topic {topic!r}",
    )
    return {topic: LogTopic(str(one.topic_id), len(one.partitions)) for topic, one in found.items()}


def log_bounds(
    config: Mapping[str, Any], partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, LogBounds]:
    """Return start, last stable offset and end of each partition.

    The end is read first, so that ``stable_end`` can only be newer than ``end``.
    Raises TopicError for an unknown partition, BrokerError if no broker responds.
    """
    wanted = list(partitions)
    spec = confluent_kafka.admin.OffsetSpec
    end = _list_offsets(config, wanted, spec.latest(), "READ_UNCOMMITTED")
    stable = _list_offsets(config, wanted, spec.latest(), "READ_COMMITTED")
    start = _list_offsets(config, wanted, spec.earliest(), "READ_UNCOMMITTED")
    return {tp: LogBounds(start[tp], stable[tp], max(end[tp], stable[tp])) for tp in wanted}


def read_partition(
    config: Mapping[str, Any],
    partition: TopicPartition,
    *,
    start: int,
    end: int,
    may_skip: bool = False,
    with_aborted: bool = False,
    stall_seconds: float = 60.0,
) -> Iterator[list[FetchedRecord]]:
    """Yield batches of the committed records with ``start <= offset < end``, in offset order.

    Ends when the position reaches ``end``. Tombstones are included. With ``may_skip`` a log that
    begins after ``start`` is read from its beginning; ``with_aborted`` also yields records of
    aborted transactions. (Give the start from ``log_bounds``: a client that has to find the
    beginning by itself takes half a second for it.)

    Raises RestoreError if ``start`` is not in the log or the log was truncated below the position,
    BrokerError if the position does not move for ``stall_seconds`` or the brokers refuse.
    """
    if start >= end:
        return
    given = {**CONSUMER_CONFIG, "auto.offset.reset": "earliest" if may_skip else "error"}
    if with_aborted:
        given["isolation.level"] = "read_uncommitted"
    consumer = confluent_kafka.Consumer({**QUIET, **with_fetch_bounds(config), **given})
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
        _FREE_MEMORY.give_back()


def latest_values(
    config: Mapping[str, Any], partition: TopicPartition, *, waits: bool = False
) -> dict[bytes, bytes]:
    """Return the latest committed value of every key, like :func:`latest_records`."""
    found = latest_records(config, partition, waits=waits)
    return {key: record.value() for key, record in found.items()}


def latest_records(
    config: Mapping[str, Any], partition: TopicPartition, *, waits: bool = False
) -> dict[bytes, FetchedRecord]:
    """Return the latest committed record of every key of a compacted partition, without deletes.

    ``waits``: wait for transactions that are being committed; a commit returns to its producer
    before its records become readable.

    Raises TopicError if the topic does not exist.
    """
    log_topics(config, [partition.topic])
    bounds = log_bounds(config, [partition])[partition]
    latest: dict[bytes, FetchedRecord] = {}
    for records in read_partition(
        config,
        partition,
        start=bounds.start,
        end=bounds.end if waits else bounds.stable_end,
        may_skip=True,
    ):
        for record in records:
            if record.value() is None:
                latest.pop(record.key(), None)
            else:
                latest[record.key()] = record
    return latest


def _take(
    consumer: Any, partition: TopicPartition, position: int, end: int
) -> tuple[list[FetchedRecord], int]:
    """Return the available records below ``end``, and the next position. Wait if there are none."""
    # Asking for more records than are available costs the whole timeout. So take those that the
    # client has fetched, and wait for one only if there are none.
    with gc_disabled():
        messages = consumer.consume(min(_BATCH_RECORDS, end - position), timeout=0)
    if not messages:
        message = consumer.poll(_IDLE_POLL_SECONDS)
        messages = [] if message is None else [message]
    if messages and not any(map(_error_of, messages)):
        _check_forward(messages[0], partition, position)
        if messages[-1].offset() >= end:
            messages = [message for message in messages if message.offset() < end]
            read_headers(messages)
            return messages, end
        read_headers(messages)
        return messages, messages[-1].offset() + 1
    return _take_apart(messages, partition, position, end)


def _take_apart(
    messages: list[Any], partition: TopicPartition, position: int, end: int
) -> tuple[list[FetchedRecord], int]:
    """Return the same for messages with errors and end-of-partition events among them."""
    records: list[FetchedRecord] = []
    for message in messages:
        error = message.error()
        if error is None:
            _check_forward(message, partition, position)
            position = message.offset() + 1
            if position > end:
                break
            records.append(message)
        elif error.code() == _PARTITION_EOF:
            position = max(position, message.offset())
        else:
            _raise_unless_passing(error, partition, position)
    read_headers(records)
    return records, min(position, end)


def _check_forward(message: Any, partition: TopicPartition, position: int) -> None:
    """Refuse a step back: a client that may skip does so if a log ends before its position."""
    if message.offset() < position:
        raise RestoreError(
            f"{partition}: offset {message.offset()} was read where {position} was expected: the"
            " log was truncated below that, or its topic was deleted and created again; start"
            " again from a full read"
        )


def _raise_unless_passing(error: Any, partition: TopicPartition, position: int) -> None:
    code = error.code()
    if code in _OUT_OF_RANGE:
        raise RestoreError(
            f"{partition}: offset {position} is not in the log ({error.str()}); retention or a "
            "deletion removed it, or the topic was created again; start again from a full read"
        )
    if error.retriable() or code in _UNREACHABLE:
        return  # the client retries by itself; the deadline bounds how long
    raise BrokerError(f"{partition}: reading stopped at offset {position}: {error.str()}")


def _stalled(
    config: Mapping[str, Any], partition: TopicPartition, position: int, end: int, seconds: float
) -> LogstateError:
    bounds = log_bounds(config, [partition])[partition]
    if bounds.end < end:
        return RestoreError(
            f"{partition}: the log ends at {bounds.end}, before the wanted offset {end}; it was "
            "truncated or created again; read at a newer cut"
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
    config: Mapping[str, Any], partitions: list[TopicPartition], spec: Any, isolation: str
) -> dict[TopicPartition, int]:
    """Return offsets; wait while a broker does not know them after a restart.

    It then responds without an error and without an offset. Used as an offset, this would mean that
    there is nothing to read.
    """
    request = {confluent_kafka.TopicPartition(*partition): spec for partition in partitions}
    level = confluent_kafka.IsolationLevel[isolation]
    found = asked(
        config,
        lambda admin: admin.list_offsets(
            request, isolation_level=level, request_timeout=_REQUEST_SECONDS
        ),
        lambda tp: f"the offsets of {tp.topic}-{tp.partition}",
        is_answer=lambda offset: offset.offset >= 0,
    )
    return {TopicPartition(tp.topic, tp.partition): one.offset for tp, one in found.items()}


def asked(
    config: Mapping[str, Any],
    ask: Callable[[Any], Mapping[Any, Future[Any]]],
    what: Callable[[Any], str],
    *,
    is_answer: Callable[[Any], bool] = lambda _: True,
) -> dict[Any, Any]:
    """Repeat ``ask`` until every part has a result; wait for transient errors, with a limit.

    Raises TopicError or BrokerError for a refusal, or without a result in time.
    """
    admin = _admin(config)
    deadline = time.monotonic() + _RETRY_SECONDS
    while True:
        missing = ""
        found = {}
        for one, future in ask(admin).items():
            try:
                found[one] = future.result()
            except confluent_kafka.KafkaException as exception:
                if time.monotonic() > deadline or not passes(exception):
                    raise refused(exception, config, what(one)) from exception
                missing = what(one)
            else:
                missing = missing if is_answer(found[one]) else what(one)
        if not missing:
            return found
        if time.monotonic() > deadline:
            raise BrokerError(
                f"the brokers at {config.get('bootstrap.servers')} do not know {missing} after "
                f"{_RETRY_SECONDS:g} s; check the log of its leader"
            )
        time.sleep(_PAUSE_SECONDS)
        with suppress(confluent_kafka.KafkaException):
            admin.list_topics(timeout=1.0)  # refresh the leaders, which change at a restart


def check_answered(config: Mapping[str, Any]) -> None:
    """Raise BrokerError, after three seconds, if no broker has ever responded at an address."""
    _admin(config)


def _admin(config: Mapping[str, Any]) -> Any:
    # A new client's first request sometimes waits a second for its connection, so clients are
    # cached; per process, because a forked child must not use its parent's.
    return _kept_admin(os.getpid(), tuple(sorted(config.items())))


@lru_cache(maxsize=4)
def _kept_admin(process_id: int, config: tuple[tuple[str, Any], ...]) -> Any:  # noqa: ARG001
    """Return a client that got a response. Raise BrokerError soon if there is none."""
    # Brokers that responded once are waited for; a wrong address is not.
    reasons: list[str] = []
    settings = {**QUIET, **dict(config)}
    admin = admin_client(settings, error_cb=lambda error: reasons.append(error.str()))
    waited_s, said = 0.0, ""
    for limit_s in _FIRST_ANSWER_SECONDS:
        if reasons:  # without a reason, the brokers or this machine may just be busy
            break
        try:
            admin.list_topics(_NO_TOPIC, timeout=limit_s)
            return admin
        except confluent_kafka.KafkaException as exception:
            admin.poll(0)
            waited_s, said = waited_s + limit_s, native_error(exception).str()
    raise BrokerError(
        f"no broker answers at {dict(config).get('bootstrap.servers')} within {waited_s:g} s "
        f"({reasons[0] if reasons else said}). Check the address, the network, and the security "
        "settings (kafka.security.protocol, kafka.sasl.*, kafka.ssl.*)"
    )
