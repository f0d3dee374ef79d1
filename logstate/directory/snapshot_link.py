"""A worker's ear for snapshots: orders go to its marks, what these note goes out.

It has a thread and clients of its own, outside of transactions and of the group: whatever happens
to them, records are processed, and a snapshot that is being taken meanwhile fails. What was said
before it began to listen is none of its business: the next order says all there is to know.
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
#: while a snapshot is being taken
_ALERT_POLL_S = 0.002
_BATCH = 1_000
#: the first wait after a failure, and the longest
_RETRY_S, _RETRY_MAX_S = 1.0, 30.0
_END_S = 3.0
#: nothing in it is worth more than a minute
_CONFIG = {
    "cleanup.policy": "delete",
    "message.timestamp.type": "CreateTime",
    "retention.ms": "3600000",
    "segment.ms": "3600000",
}


class Ordered(Protocol):
    """The marks of a worker, as far as its ear knows them."""

    wanted: SnapshotRequest | None
    notes: deque[SnapshotNote]
    shape: Mapping[int, SubShape]


@dataclass(frozen=True)
class SnapshotsTopic:
    """The topic, as it is made where it is missing."""

    application_id: str
    replication_factor: int = -1
    overrides: Mapping[str, str] | None = None

    @property
    def partition(self) -> TopicPartition:
        """Its only one."""
        return TopicPartition(snapshots_topic(self.application_id), 0)

    def ensure(self, admin: Admin) -> None:
        """Make it, unless it is there."""
        name = self.partition.topic
        if name not in admin.describe_topics([name]):
            # What is promised to other topics of the application may be too much for this one.
            factor, config = self.replication_factor, {**(self.overrides or {}), **_CONFIG}
            admin.create_topics([NewTopic(name, 1, factor, config)])

    def record(self, key: str, message: Message, now_ms: int) -> ProducedRecord:
        """A message as it is written."""
        topic, number = self.partition
        return ProducedRecord(topic, number, key.encode(), encode_message(message), now_ms)


class SnapshotLink:
    """See the module. ``marks`` are those of the worker that runs now; ``running`` its tasks."""

    def __init__(
        self,
        topic: SnapshotsTopic,
        cluster: Cluster,
        clock: Clock,
        marks: Callable[[], Ordered],
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
        """In a thread of its own."""
        name = f"logstate-snapshots-{self._topic.application_id}"
        thread = threading.Thread(target=self._run, name=name, daemon=True)
        thread.start()
        self._thread = thread  # one that the system refuses is not waited for

    def stop(self, *, waits: bool = True) -> None:
        """From any thread."""
        self._is_stopping = True
        if waits and self._thread is not None:
            self._thread.join(_END_S)

    # ------------------------------------------------------------------ its own thread

    def _run(self) -> None:
        wait_s = _RETRY_S
        while not self._is_stopping:
            try:
                with contextlib.ExitStack() as clients:
                    consumer = self._listening(clients)
                    while not self._is_stopping:
                        self._turn(consumer, clients)
                        wait_s = _RETRY_S
            except LogstateError as exc:
                _LOGGER.debug("the topic of snapshots is unavailable, retrying: %s", text_of(exc))
            except Exception:
                _LOGGER.exception("listening for snapshots failed; it is tried again")
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

    def _turn(self, consumer: LogConsumer, clients: contextlib.ExitStack) -> None:
        marks = self._marks()
        answers: list[Message] = []
        while marks.notes:
            answers.append(marks.notes.popleft())
        poll_s = 0.0 if answers else _POLL_S if marks.wanted is None else _ALERT_POLL_S
        polled = consumer.poll(_BATCH, poll_s)
        if polled.out_of_range:
            raise LogstateError(f"{self._topic.partition} was made anew")
        heard = [decode_message(r.value() or b"") for r in polled.records.get(self._where, ())]
        for order in heard:
            if isinstance(order, SnapshotRequest) and _counts(order, marks.wanted):
                # First it holds, then it is said.
                marks.wanted = order
                answers.append(Present(order.id, order.step, self._running(), dict(marks.shape)))
        if answers:
            self._say(answers, clients)

    @property
    def _where(self) -> TopicPartition:
        return self._topic.partition

    def _say(self, answers: list[Message], clients: contextlib.ExitStack) -> None:
        if self._producer is None:
            self._producer = self._cluster.plain_producer()
            clients.callback(_closed, self._producer)
        now_ms = self._clock.wall_clock_ms()
        self._producer.produce([self._topic.record("answer", one, now_ms) for one in answers])
        self._producer.flush()


def _counts(order: SnapshotRequest, newest: SnapshotRequest | None) -> bool:
    """Of two who take snapshots the later one goes on; the end of the other is not its end."""
    return not order.is_over or newest is None or newest.id == order.id


def _closed(client: Admin | LogConsumer | PlainProducer) -> None:
    with contextlib.suppress(LogstateError):
        client.close()
