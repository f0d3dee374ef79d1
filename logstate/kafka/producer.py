"""Producers: the transactional one, and the plain one for at-least-once outputs."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from operator import itemgetter
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from logstate.contracts.error_text import text_of
from logstate.contracts.errors import (
    AbortableError,
    BrokerError,
    FencedError,
    ProductionError,
    RefusedError,
    RetriableError,
)
from logstate.contracts.records import ProducedFields, TopicPartition
from logstate.kafka.bounded_call import CallThread
from logstate.kafka.extension import record_sender, with_failure_reports
from logstate.kafka.faults import cause_of, native_error, translate_error
from logstate.kafka.offset_metadata import send_offsets
from logstate.kafka.partition_counts import PartitionCounts, murmur2_partition

_LOGGER = logging.getLogger(__name__)

# The new producer fences the closed one and thereby aborts its transaction.
warnings.filterwarnings("ignore", "Producer abort_transaction failed during close", RuntimeWarning)

#: a request that took longer may have been sent twice: librdkafka retries EndTxn silently
SUSPECT_AFTER_S = 5.0
#: every blocking call ends by then; the cluster derives it from max.poll.interval.ms
CALL_LIMIT_S = 60.0
#: limit of calls that can be repeated, or left out: they must not delay a stop (SIGTERM) longer
_PATIENCE_S = 4.0
#: the client's pause before it looks up a transaction's coordinator again
_COORDINATOR_RETRY_S = 0.5
#: topic to ask for where only the connection matters; every cluster with transactions has it
_ANY_TOPIC = "__transaction_state"
#: fields of a record by number: by name they cost twice as much, and these run for every record
_topic_of, _partition_of = itemgetter(0), itemgetter(1)
_BY_KEY = {None}
#: reports of delivered records cost time, and are only needed for positions
_FAILURES_ONLY: Mapping[str, Any] = {"delivery.report.only.error": True}


def _too_large(topic: str, size: int) -> RefusedError:
    return RefusedError(
        f"a record of {size} bytes for {topic!r} does not fit into the client, with nothing else in"
        " it: queue.buffering.max.kbytes is smaller. Raise that, in kafka={...}",
        topic=topic,
    )


class KafkaPlainProducer:
    """Idempotent producer without transactions, for at-least-once outputs.

    No record may be lost silently: the next flush raises the failure of any. It returns no
    positions.
    """

    def __init__(self, config: Mapping[str, Any], *, call_limit_s: float = CALL_LIMIT_S) -> None:
        config = {**config, **_FAILURES_ONLY, "on_delivery": self._on_delivery}
        self._create(_created(config), call_limit_s, reports_failures=True)

    def _create(
        self,
        producer: Producer,
        call_limit_s: float,
        *,
        reports_positions: bool = False,
        reports_failures: bool = False,
    ) -> None:
        self._call_limit_s = call_limit_s
        self._reports_positions = reports_positions
        self._reports_failures = reports_failures
        self._producer = producer
        self._counts = PartitionCounts(producer)
        self._sender = record_sender(producer, self._counts.of, reports_failures=reports_failures)
        self._delivered: dict[TopicPartition, int] = {}
        self._failure: KafkaError | None = None
        #: topics of records that were not delivered
        self._failed_topics: set[str] = set()
        #: topics of records since the last transaction; not of every record
        self._topics: set[str] = set()

    def produce(self, records: Sequence[ProducedFields]) -> None:
        if records:
            self._topics.add(records[0][0])
            self._topics.add(records[-1][0])
        start = 0
        for last in _last_per_partition(records) if self._reports_positions else ():
            self._produce_run(records, start, last)
            partition = records[last][1]
            assert partition is not None
            self._produce_one(records[last], partition, is_tracked=True)
            start = last + 1
        self._produce_run(records, start, len(records))
        self._serve_callbacks(0)

    def _produce_run(self, records: Sequence[ProducedFields], start: int, end: int) -> None:
        """Produce records that need no position."""
        while self._sender is not None and start < end:
            start = first = self._sender.send(records, start, end)
            while start < end and (start == first or records[start][5] is not None):
                start += 1  # records with headers need the client's call as well
            self._produce_singly(records, first, start)
        self._produce_singly(records, start, end)

    def _produce_singly(self, records: Sequence[ProducedFields], start: int, end: int) -> None:
        """Produce each record with a call of the client."""
        produce = self._producer.produce
        current, count = "", 0
        run = records if end - start == len(records) else records[start:end]
        for record in run:
            topic, partition, key, value, timestamp, headers = record
            if partition is None:
                if key is None:
                    partition = -1
                else:
                    if topic != current:
                        current, count = topic, self._counts.of(topic)
                    partition = murmur2_partition(key, count)
            if headers is not None:
                self._produce_one(record, partition, is_tracked=False)
                continue
            try:
                # By position: with one keyword the call takes 565 ns instead of 340.
                produce(topic, value, key, partition, None, None, timestamp)
            except BufferError:  # the local queue is full
                self._produce_one(record, partition, is_tracked=False)
            except KafkaException as exc:
                raise translate_error(exc, f"producing to {topic!r}", "produce") from exc

    def _produce_one(self, record: ProducedFields, partition: int, *, is_tracked: bool) -> None:
        """Produce with all options; wait while the queue is full, up to the limit of a call.

        Raises RefusedError for a record that an empty queue has no room for.
        """
        topic, _, key, value, timestamp, headers = record
        extra: dict[str, Any] = {} if headers is None else {"headers": headers}
        if is_tracked:
            extra["on_delivery"] = self._on_delivery
        deadline = time.monotonic() + self._call_limit_s
        while True:
            # The client counts events to deliver, such as a lost connection, among its records.
            is_empty = not len(self._producer)
            try:
                self._producer.produce(topic, value, key, partition, timestamp=timestamp, **extra)
                return
            except BufferError as exc:  # wait for deliveries
                if is_empty:
                    raise _too_large(topic, len(key or b"") + len(value or b"")) from exc
                if time.monotonic() >= deadline:
                    raise AbortableError(
                        "records were not delivered, and the client had no room for another one,"
                        f" within {self._call_limit_s:g} s; the broker is slow or unreachable"
                    ) from exc
                self._serve_callbacks(0.05)
            except KafkaException as exc:
                raise translate_error(exc, f"producing to {topic!r}", "produce") from exc

    def flush(self) -> dict[TopicPartition, int]:
        try:
            left = self._producer.flush(self._call_limit_s)
        except (KafkaException, SystemError) as exc:
            raise translate_error(cause_of(exc), "flushing the producer") from exc
        self._note_failure_of_sender()
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise translate_error(
                KafkaException(failure), f"delivering a record{self._failed_where()}"
            )
        if left:
            raise AbortableError(
                f"records were not delivered within {self._call_limit_s:g} s; the broker is slow"
                " or unreachable"
            )
        delivered, self._delivered = self._delivered, {}
        return delivered

    def _note_failure_of_sender(self) -> None:
        if self._sender is None or not self._reports_failures:
            return
        failed = self._sender.take_failure()
        if failed is not None:
            code, topic, reason = failed
            self._failure = self._failure or KafkaError(code, reason or None)
            self._failed_topics.add(topic)

    def _serve_callbacks(self, timeout_s: float) -> None:
        """Let callbacks run; raise a fatal error of the client."""
        try:
            self._producer.poll(timeout_s)
        except (KafkaException, SystemError) as exc:
            raise translate_error(cause_of(exc), "delivering records") from exc

    def close(self) -> None:
        self._sender = None
        try:
            self._producer.purge()
            self._producer.poll(0)  # raises what made the producer unusable, which is known
        except (KafkaException, SystemError) as exc:
            _LOGGER.debug("closing a producer: %s", text_of(exc))
        closing = CallThread("closing-a-producer")
        try:
            # Closing aborts an open transaction, however long that takes.
            closing.call(self._producer.close, _PATIENCE_S, "closing a producer")  # type: ignore[attr-defined]
        except FencedError as exc:
            _LOGGER.debug("a producer is closed in the background: %s", text_of(exc))
        except (KafkaException, SystemError) as exc:
            # A fenced one cannot abort, and need not. SystemError: the client's warning about it,
            # if warnings are errors.
            _LOGGER.debug("closing a producer: %s", text_of(exc))
        closing.close()

    def _failed_where(self) -> str:
        """Name the topics of records that were not delivered since the last call."""
        with suppress(KafkaException, SystemError):
            self._producer.poll(0)  # delivery reports may follow the errors that they caused
        topics = self._failed_topics or self._topics
        self._failed_topics = set()
        return f" (to {', '.join(map(repr, sorted(topics)))})" if topics else ""

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failure = self._failure or error
            self._failed_topics.add(message.topic() or "")
            return
        offset = message.offset()
        # A duplicate that the broker recognized counts as delivered but has no offset: then the
        # older position stays, and replaying from there is harmless.
        if offset is not None and offset >= 0:
            where = TopicPartition(message.topic() or "", message.partition() or 0)
            self._delivered[where] = max(offset + 1, self._delivered.get(where, 0))


def _created(config: dict[str, Any]) -> Producer:
    """Return a client; without the reports of the extension if librdkafka cannot load them."""
    try:
        return Producer(with_failure_reports(config))
    except KafkaException as exc:
        producer = Producer(config)  # if it is not about the extension, this raises
        _LOGGER.debug("results take the client's own calls: %s", text_of(exc))
        return producer


def _last_per_partition(records: Sequence[ProducedFields]) -> list[int]:
    """Return indices of the last record per EXPLICIT partition: only these need a report."""
    partitions = set(map(_partition_of, records))
    if partitions == _BY_KEY:
        return []
    if len(partitions) == 1 and len(set(map(_topic_of, records))) == 1:
        return [len(records) - 1]  # the changelog of one store
    last: dict[tuple[str, int], int] = {}
    for i, (topic, partition, *_) in enumerate(records):
        if partition is not None:
            last[topic, partition] = i
    return sorted(last.values())


class KafkaTransactionalProducer(KafkaPlainProducer):
    """One transactional id (see :class:`logstate.contracts.clients.TransactionalProducer`)."""

    def __init__(
        self,
        config: Mapping[str, Any],
        *,
        call_limit_s: float = CALL_LIMIT_S,
        reports_positions: bool = True,
    ) -> None:
        # A failed delivery fails the transaction, and needs no report.
        reports = {} if reports_positions else _FAILURES_ONLY
        producer = Producer({**config, **reports})
        self._create(producer, call_limit_s, reports_positions=reports_positions)
        self._is_suspect = False
        self._name = f"transactions of {config['transactional.id']!r}"
        self._calls = CallThread(f"offsets-of-{config['transactional.id']}")
        #: The client takes no time-out for this call: if the brokers are unavailable, or it hangs,
        #: it waits as long as the transaction lives, or forever. A replay costs less than that.
        self._hang_limit_s = min(_PATIENCE_S, int(config["transaction.timeout.ms"]) / 1000)

    def init_transactions(self) -> None:
        # Without a connection, the client looks up the coordinator again only after half a second.
        # So it connects first; waiting longer than that gains nothing.
        with suppress(KafkaException):
            self._producer.list_topics(_ANY_TOPIC, timeout=_COORDINATOR_RETRY_S)
        self._retry(self._producer.init_transactions, f"initialising {self._name}", _PATIENCE_S)

    def begin(self) -> None:
        self._topics = set()
        try:
            self._producer.begin_transaction()
        except KafkaException as exc:
            raise translate_error(exc, "beginning a transaction") from exc

    def produce(self, records: Sequence[ProducedFields]) -> None:
        with self._root_cause():
            super().produce(records)

    def flush(self) -> dict[TopicPartition, int]:
        with self._root_cause():
            return super().flush()

    @contextmanager
    def _root_cause(self) -> Iterator[None]:
        """Raise what made the transaction fail, not what its failure made of a later call.

        Refused records fail their transaction in the background. The next call reports
        "erroneous state" or purged records; only calls about the transaction itself report why.
        Beginning one has no effect while one is open, failed or not.
        """
        try:
            yield
        except BrokerError as exc:
            self._calls.refuse_if_hanging("producing")
            try:
                self._producer.begin_transaction()
            except KafkaException as cause:
                error = native_error(cause)
                if error.txn_requires_abort() or error.fatal():
                    raise translate_error(cause, f"producing{self._failed_where()}") from exc
            raise

    def send_offsets(
        self, offsets: Mapping[TopicPartition, tuple[int, str]], group_metadata: object
    ) -> None:
        producer = self._producer
        doing = "adding offsets"
        self._retry(
            lambda timeout: self._calls.call(
                lambda: send_offsets(producer, offsets, group_metadata, timeout),
                self._hang_limit_s,
                doing,
            ),
            doing,
        )

    def commit(self) -> None:
        started = time.monotonic()
        try:
            self._retry(self._producer.commit_transaction, "committing the transaction")
        finally:
            self._note_duration(started)
        self._delivered = {}

    def abort(self) -> None:
        self._calls.refuse_if_hanging("aborting the transaction")
        started = time.monotonic()
        try:
            self._retry(self._producer.abort_transaction, "aborting the transaction", _PATIENCE_S)
        finally:
            self._note_duration(started)
            self._delivered = {}
            self._failure = None
            self._failed_topics = set()

    def must_be_replaced(self) -> bool:
        return self._is_suspect

    def close(self) -> None:
        if self._calls.is_hanging:
            self._sender = None  # it has a reference to the client
            _LOGGER.debug("a producer is closed in the background: it still hangs in a call")
            return
        self._calls.close()
        super().close()

    def _note_duration(self, started: float) -> None:
        if time.monotonic() - started >= SUSPECT_AFTER_S:
            self._is_suspect = True

    def _retry(
        self, call: Callable[[float], Any], doing: str, limit_s: float | None = None
    ) -> None:
        """Repeat the call while the client allows it; a call that timed out continues inside it."""
        deadline = time.monotonic() + min(limit_s or self._call_limit_s, self._call_limit_s)
        while True:
            left = max(0.1, deadline - time.monotonic())
            try:
                call(left)
                return
            except KafkaException as exc:
                error: BrokerError | ProductionError = translate_error(exc, doing)
                if isinstance(error, RefusedError):
                    error = translate_error(exc, f"{doing}{self._failed_where()}")
                if not isinstance(error, RetriableError):
                    raise error from exc
                self._is_suspect = True
                if time.monotonic() >= deadline:
                    raise error from exc
