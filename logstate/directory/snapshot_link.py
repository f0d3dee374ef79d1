"""Receives snapshot requests for a worker, and sends the notes of its barriers.

It has a separate thread and clients, outside of transactions and of the group: record processing
does not depend on them, but a snapshot in progress fails with them. Messages from before it began
to listen do not matter: the next request contains everything.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from logstate.contracts.clients import Admin, Cluster, LogConsumer, NewTopic, PlainProducer
from logstate.contracts.clock import Clock, pause
from logstate.contracts.error_text import text_of
from logstate.contracts.errors import LogstateError
from logstate.contracts.records import ProducedRecord, TopicPartition
from logstate.contracts.snapshots import (
    Message,
    Present,
    SnapshotNote,
    SnapshotRequest,
    SubShape,
    decode_message,
    encode_message,
)
from logstate.contracts.topic_names import snapshots_topic

_LOGGER = logging.getLogger(__name__)

_POLL_S = 0.1
#: poll timeout while a snapshot is being taken
_ALERT_POLL_S = 0.002
_BATCH = 1_000
#: the first wait after a failure, and the maximum
_RETRY_S, _RETRY_MAX_S = 1.0, 30.0
_END_S = 3.0
#: its records matter for a minute at most
_CONFIG = {
    "cleanup.policy": "delete",
    "message.timestamp.type": "CreateTime",
    "retention.ms": "3600000",
    "segment.ms": "3600000",
}


class BarrierState(Protocol):
    """The barriers of a worker as seen by this module."""

    wanted: SnapshotRequest | None
    notes: deque[SnapshotNote]
    shape: Mapping[int, SubShape]


@dataclass(frozen=True)
class SnapshotsTopic:
    """The topic for snapshot messages, and its settings if it must be created."""

    application_id: str
    replication_factor: int = -1
    overrides: Mapping[str, str] | None = None

    @property
    def partition(self) -> TopicPartition:
        """Its only partition."""
        return TopicPartition(snapshots_topic(self.application_id), 0)

    def ensure(self, admin: Admin) -> None:
        """Create the topic if it is missing."""
        name = self.partition.topic
        if name not in admin.describe_topics([name]):
            # The settings of the application's other topics may be excessive for this one.
            factor, config = self.replication_factor, {**(self.overrides or {}), **_CONFIG}
            admin.create_topics([NewTopic(name, 1, factor, config)])

    def record(self, key: str, message: Message, now_ms: int) -> ProducedRecord:
        """Return the record of a message."""
        topic, number = self.partition
        return ProducedRecord(topic, number, key.encode(), encode_message(message), now_ms)


class SnapshotLink:
    """Runs the thread. ``marks`` returns the current worker's barriers; ``running`` its tasks."""

    def __init__(
        self,
        topic: SnapshotsTopic,
        cluster: Cluster,
        clock: Clock,
        marks: Callable[[], BarrierState],
        running: Callable[[], tuple[str, ...]],
    ) -> None:
        self._topic = topic
        self._cluster = cluster
        self._clock = clock
        self._marks = marks
        self._running = running
        self._producer: PlainProducer | None = None
        self._is_stopping = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread."""
        name = f"logstate-snapshots-{self._topic.application_id}"
        thread = threading.Thread(target=self._run, name=name, daemon=True)
        thread.start()
        self._thread = thread  # a thread that could not start is not joined

    def stop(self, *, waits: bool = True) -> None:
        """Stop the thread. Called from any thread."""
        self._is_stopping = True
        if waits and self._thread is not None:
            self._thread.join(_END_S)

    # ------------------------------------------------------------------ in its thread

    def _run(self) -> None:
        wait_s = _RETRY_S
        while not self._is_stopping:
            try:
                with contextlib.ExitStack() as clients:
                    consumer = self._listening(clients)
                    while not self._is_stopping:
                        self._serve_once(consumer, clients)
                        wait_s = _RETRY_S
            except LogstateError as exc:
                _LOGGER.debug("the topic of snapshots is unavailable, retrying: %s", text_of(exc))
            except Exception:
                _LOGGER.exception("listening for snapshots failed and will be retried")
            if not self._is_stopping:
                pause(wait_s, lambda: self._is_stopping)
                wait_s = min(_RETRY_MAX_S, 2 * wait_s)

    def _listening(self, clients: contextlib.ExitStack) -> LogConsumer:
        partition = self._topic.partition
        self._producer = None
        admin = self._cluster.admin()
        try:
            self._topic.ensure(admin)
            end = admin.end_offsets([partition])[partition]
        finally:
            _closed(admin)
        consumer = self._cluster.log_consumer()
        clients.callback(_closed, consumer)
        consumer.assign({partition: end})
        return consumer

    def _serve_once(self, consumer: LogConsumer, clients: contextlib.ExitStack) -> None:
        marks = self._marks()
        answers: list[Message] = []
        while marks.notes:
            answers.append(marks.notes.popleft())
        poll_s = 0.0 if answers else _POLL_S if marks.wanted is None else _ALERT_POLL_S
        polled = consumer.poll(_BATCH, poll_s)
        if polled.out_of_range:
            raise LogstateError(f"{self._topic.partition} was recreated")
        heard = [decode_message(r.value() or b"") for r in polled.records.get(self._partition, ())]
        for order in heard:
            if isinstance(order, SnapshotRequest) and _replaces(order, marks.wanted):
                # The request must take effect before it is acknowledged.
                marks.wanted = order
                answers.append(Present(order.id, order.step, self._running(), dict(marks.shape)))
        if answers:
            self._send_answers(answers, clients)

    @property
    def _partition(self) -> TopicPartition:
        return self._topic.partition

    def _send_answers(self, answers: list[Message], clients: contextlib.ExitStack) -> None:
        if self._producer is None:
            self._producer = self._cluster.plain_producer()
            clients.callback(_closed, self._producer)
        now_ms = self._clock.wall_clock_ms()
        self._producer.produce([self._topic.record("answer", one, now_ms) for one in answers])
        self._producer.flush()


def _replaces(order: SnapshotRequest, newest: SnapshotRequest | None) -> bool:
    """Return True if a request counts: the later of two replaces the other, but not by its end."""
    return not order.is_over or newest is None or newest.id == order.id


def _closed(client: Admin | LogConsumer | PlainProducer) -> None:
    with contextlib.suppress(LogstateError):
        client.close()
