"""Where a consumer's records come from: the client's objects, or the extension module.

Both return the same :class:`~logstate.contracts.clients.Polled`, with records that have the methods
of :class:`~logstate.contracts.records.FetchedRecord`. The suite in ``tests/log_conformance`` runs
on both, and on the fake cluster.

How the extension's source works: the client's consumer queue has events of all kinds, and most of
them end in a callback of the client, which only the client's own calls can run. So the queues of
the assigned partitions are forwarded to a queue of this module. It contains their records and
errors and nothing else. Rebalances, logs, statistics and errors of the group remain in the client's
queue, which every ``take`` serves first, with a call of the client.

Invariants:

- A partition is attached before it is assigned, so that none of its records reaches the client's
  queue. If a call of the client returns records nevertheless, they are older than those in this
  module's queue, and are returned first, alone.
- A partition is attached again after it was assigned, and once per second: when the client stops
  reading a partition, it ends the forwarding, and does not forward to its own queue later.
  Attaching twice changes nothing; records that waited meanwhile follow in their order.
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, Final, Protocol

from confluent_kafka import Consumer, KafkaError

from logstate.contracts.clients import Polled
from logstate.contracts.records import TopicPartition
from logstate.kafka.error_classes import Place
from logstate.kafka.extension import extension
from logstate.kafka.fetching import as_polled, sort_error
from logstate.kafka.librdkafka import librdkafka

#: a batch ends with the record that exceeds it; as many bytes as the client's own queue may hold
BATCH_MAX_BYTES: Final = 8 << 20
_ATTACH_AGAIN_S: Final = 1.0


class RecordSource(Protocol):
    """The records of one consumer, in batches."""

    def attach(self, partitions: Iterable[TopicPartition]) -> None:
        """Prepare for partitions: call it before AND after they are assigned."""

    def detach(self, partitions: Iterable[TopicPartition]) -> None:
        """Forget partitions that are not assigned any more."""

    def take(self, max_records: int, timeout_s: float, place: Place) -> Polled:
        """Return the records that have arrived, or wait for the first; callbacks run inside."""

    def close(self) -> None:
        """Drop the records; call it before the client is closed. More calls have no effect."""


class ClientRecords:
    """Records as the client's objects."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer

    def attach(self, partitions: Iterable[TopicPartition]) -> None:
        pass

    def detach(self, partitions: Iterable[TopicPartition]) -> None:
        pass

    def take(self, max_records: int, timeout_s: float, place: Place) -> Polled:
        """Poll once. ``consume(n, timeout)`` waits for n records: so only for the first."""
        messages = self._consumer.consume(max_records, 0)
        if not messages and timeout_s > 0:
            first = self._consumer.poll(timeout_s)
            if first is None:
                return Polled()
            messages = [first, *self._consumer.consume(max_records - 1, 0)]
        return as_polled(messages, place)

    def close(self) -> None:
        pass


class ExtensionRecords:
    """Records that the extension module copies from librdkafka."""

    def __init__(self, consumer: Consumer, queue: Any, error_cb: Any = None) -> None:
        """``error_cb``: the callback for errors in the consumer's settings."""
        self._consumer = consumer
        self._error_cb = error_cb
        self._attached: set[TopicPartition] = set()
        self._attach_again_s = 0.0
        self._queue = queue
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self._writer, False)
        #: held while the queue is read, so that it is not closed then
        self._in_use = threading.Lock()
        self._arrivals = select.poll()
        self._arrivals.register(self._reader, select.POLLIN)
        queue.notify(self._writer)

    def attach(self, partitions: Iterable[TopicPartition]) -> None:
        queue = self._queue
        if queue is None:
            return
        for partition in partitions:
            if queue.attach(*partition):
                self._attached.add(partition)

    def detach(self, partitions: Iterable[TopicPartition]) -> None:
        self._attached.difference_update(partitions)

    def take(self, max_records: int, timeout_s: float, place: Place) -> Polled:
        now = time.monotonic()
        if now >= self._attach_again_s:
            self._attach_again_s = now + _ATTACH_AGAIN_S
            self.attach(tuple(self._attached))
        deadline = now + timeout_s
        while True:
            polled = self._take_arrived(max_records, place)
            if polled is not None:
                return polled
            left_s = deadline - time.monotonic()
            if left_s <= 0 or self._queue is None:
                return Polled()
            # librdkafka writes at most one byte per queue until the queue is read.
            if self._arrivals.poll(max(1.0, left_s * 1000)):
                os.read(self._reader, 4096)

    def _take_arrived(self, max_records: int, place: Place) -> Polled | None:
        messages = self._consumer.consume(max_records, 0)
        if messages:
            return as_polled(messages, place)
        queue = self._queue
        if queue is None:
            return None
        with self._in_use:
            records, errors = queue.take(max_records, BATCH_MAX_BYTES)
        if not records and not errors:
            return None
        polled = Polled(records)
        for topic, partition, offset, code, reason in errors:
            error = KafkaError(code, reason)
            if reason.startswith(f"{topic} [{partition}]: "):
                self._report(error)
            else:
                sort_error(polled, error, (topic, partition), offset, place)
        return polled

    def _report(self, error: KafkaError) -> None:
        """Report an error as the client does that it passes to a callback.

        These say that a topic or a partition does not exist. They are the only ones whose text
        begins with the partition; librdkafka's function makes no other difference.
        """
        if self._error_cb is not None:
            self._error_cb(error)

    def close(self) -> None:
        queue, self._queue = self._queue, None
        if queue is None:
            return
        self._attached.clear()
        with self._in_use:
            queue.close()
        with suppress(BlockingIOError):
            os.write(self._writer, b"1")  # ends a wait

    def __del__(self) -> None:
        # The pipe lives as long as this object: another thread may wait for it in `take`. And as
        # long as the queue, which writes to it.
        self.close()
        os.close(self._reader)
        os.close(self._writer)


def record_source(consumer: Consumer, config: Mapping[str, Any]) -> RecordSource:
    """Return the extension's records of a new consumer, or the client's if that is not possible.

    ``config``: the settings of the consumer.
    """
    module, library = extension(), librdkafka()
    if module is None or library is None:
        return ClientRecords(consumer)
    handle = library.handle_of(consumer)
    if handle is None:
        return ClientRecords(consumer)
    queue = module.Queue(consumer, handle, TopicPartition)
    return ExtensionRecords(consumer, queue, config.get("error_cb"))
