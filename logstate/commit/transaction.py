"""The transactional producer of a worker, from fencing to replacement.

A transaction is opened lazily with its first record. Unless it ends quickly and without error, its
producer is unusable: librdkafka retries the end of a transaction silently, and a late duplicate
could end the NEXT one (KIP-890 part 2 is not implemented there). So after any failure or slowness
the producer object is dropped and a new one with the same transactional id is initialized: this
increments the epoch, which fences every request in flight, and waits until the old transaction has
ended.

Invariants:
1. no producer is used after a non-temporary error;
2. `abandon` leaves no open transaction of this worker, or raises.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from logstate.contracts.clients import Cluster, PlainProducer, Step, Steps, TransactionalProducer
from logstate.contracts.error_text import text_of
from logstate.contracts.errors import (
    AbortableError,
    BrokerError,
    FencedError,
    LogstateError,
    RetriableError,
)
from logstate.contracts.records import ProducedFields, TopicPartition

T = TypeVar("T")


class RenewedProducer:
    """A :class:`PlainProducer`; ``make`` creates its client."""

    def __init__(self, make: Callable[[], PlainProducer]) -> None:
        self._make = make
        self._client = make()
        self._is_usable = True

    def produce(self, records: Sequence[ProducedFields]) -> None:
        self._carried_out(lambda client: client.produce(records))

    def flush(self) -> dict[TopicPartition, int]:
        return self._carried_out(lambda client: client.flush())

    def close(self) -> None:
        self._client.close()

    def _carried_out(self, call: Callable[[PlainProducer], T]) -> T:
        if not self._is_usable:
            self._client.close()
            self._client, self._is_usable = self._make(), True
        try:
            return call(self._client)
        except FencedError:
            self._is_usable = False
            raise


_LOGGER = logging.getLogger(__name__)

_ALONE_ATTEMPTS_MAX = 20
#: A process that was suspended for longer than the timeout is fenced too, maybe repeatedly.
_ALONE_FENCES_MAX = 4


class Transactions:
    """All transactions of one worker, one after the other."""

    def __init__(self, cluster: Cluster, transactional_id: str) -> None:
        self._cluster = cluster
        self.transactional_id = transactional_id
        self._producer: TransactionalProducer | None = None
        self.is_open = False
        #: the missing producer was logged, and there has been none since
        self._has_told = False

    def initialise(self) -> Steps[None]:
        """Create a producer and fence every earlier one of this id."""
        producer = yield Step(
            "new_producer", self._cluster.transactional_producer, (self.transactional_id,)
        )
        self.is_open = False
        try:
            yield Step("init_transactions", producer.init_transactions)
        except Exception:
            yield Step("close_producer", producer.close)
            raise
        self._producer = producer

    def is_ready(self, *, quietly: bool = False) -> Steps[bool]:
        """Return True if there is a producer; retries if the last one could not be replaced.

        Logs that once until there is one. ``quietly``: the brokers are unavailable, and that has
        been logged.
        """
        if self._producer is None:
            try:
                yield from self.initialise()
            except RetriableError as exc:
                level = logging.DEBUG if quietly or self._has_told else logging.WARNING
                self._has_told = self._has_told or not quietly
                _LOGGER.log(
                    level,
                    "there is no producer yet, nothing can be processed until there is: %s",
                    text_of(exc),
                )
                return False
            self._has_told = False
        return True

    def produce(self, records: Sequence[ProducedFields]) -> Steps[None]:
        """Produce records, opening the transaction if necessary."""
        if records:
            yield from self.begin()
            yield Step("produce", self._current_producer.produce, (records,))

    def begin(self) -> Steps[None]:
        """Open the transaction unless it is open."""
        if not self.is_open:
            yield Step("begin", self._current_producer.begin)
            self.is_open = True

    def flush(self) -> Steps[dict[TopicPartition, int]]:
        """Wait for delivery; return the next offsets of explicit partitions."""
        delivered = yield Step("flush", self._current_producer.flush, awaits_brokers=True)
        return delivered  # type: ignore[no-any-return]

    def commit(
        self, offsets: Mapping[TopicPartition, tuple[int, str]], group_metadata: object
    ) -> Steps[None]:
        """Add the offsets and commit. After any error the outcome is unknown: call `abandon`."""
        found = (offsets, group_metadata)
        yield Step("send_offsets", self._current_producer.send_offsets, found, awaits_brokers=True)
        yield from self._end_transaction()

    def commit_alone(self, records: Sequence[ProducedFields]) -> Steps[None]:
        """Commit records that belong to no task (the manifest) in a separate transaction.

        Retried after a failure; the last of many failures is raised. A process that is fenced
        repeatedly has a live rival: they would fence each other forever.
        """
        fenced = 0
        for attempt in range(1, _ALONE_ATTEMPTS_MAX + 1):
            try:
                yield from self.produce(records)
                yield from self._end_transaction()
            except FencedError as exc:
                fenced += 1
                if fenced > _ALONE_FENCES_MAX:
                    raise FencedError(
                        f"another process uses the transactional id {self.transactional_id!r} right"
                        f" now ({exc}). Two instances probably have copies of one state directory:"
                        " give each a separate one"
                    ) from exc
                yield from self.abandon()
            except (AbortableError, RetriableError):
                if attempt == _ALONE_ATTEMPTS_MAX:
                    raise
                yield from self.abandon()
            else:
                return

    def _end_transaction(self) -> Steps[None]:
        yield Step("commit", self._current_producer.commit, awaits_brokers=True)
        self.is_open = False
        if self._current_producer.must_be_replaced():
            _LOGGER.info(
                "committing took long: the producer of %s is replaced", self.transactional_id
            )
            yield from self._replace()

    def abandon(self) -> Steps[None]:
        """Leave the transaction uncommitted, unless its commit has been decided already."""
        if self._producer is None:
            yield from self.initialise()
            return
        if self.is_open:
            try:
                yield Step("abort", self._producer.abort)
            except LogstateError as exc:
                _LOGGER.debug("aborting failed, the new producer will fence it: %s", text_of(exc))
        yield from self._replace()

    def close(self) -> Steps[None]:
        """Drop the producer; an open transaction is aborted first."""
        if self._producer is None:
            return
        if self.is_open:
            try:
                yield Step("abort", self._producer.abort)
            except BrokerError as exc:
                _LOGGER.warning(
                    "could not abort the open transaction; it will time out: %s", text_of(exc)
                )
        yield from self._close_producer()

    def _replace(self) -> Steps[None]:
        yield from self._close_producer()
        yield from self.initialise()

    def _close_producer(self) -> Steps[None]:
        old, self._producer = self._current_producer, None
        self.is_open = False
        yield Step("close_producer", old.close)

    @property
    def _current_producer(self) -> TransactionalProducer:
        assert self._producer is not None, "initialise() first"
        return self._producer
