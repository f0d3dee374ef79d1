"""Take a snapshot across repartition topics of a running application: send requests, read answers.

The decisions are in ``snapshot_rounds``. This module queries the brokers, waits, and retries a
failed attempt. It runs where the snapshot is requested, in an instance or outside; if that process
dies, the workers continue by themselves after a moment.
"""

from __future__ import annotations

import contextlib
import logging
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from logstate.changelog.cuts.snapshot_rounds import Attempt, VoidSnapshotError, levels_of
from logstate.contracts.clients import Admin, Cluster, LogConsumer, PlainProducer
from logstate.contracts.clock import Clock, SystemClock
from logstate.contracts.error_text import text_of
from logstate.contracts.errors import LogstateError, SnapshotError, TopicError
from logstate.contracts.records import ProducedRecord, TopicPartition
from logstate.contracts.snapshots import (
    SnapshotNote,
    SnapshotRequest,
    decode_message,
    encode_message,
)
from logstate.contracts.topic_names import snapshots_topic

_LOGGER = logging.getLogger(__name__)

#: how often all workers are asked who runs what, and how long each time
_CALLS, _CALL_S = 4, 0.5
#: how often all workers are asked which tasks they run, and how long each time
_MARKS_S = 5.0
#: how long a level may take to reach its barriers
_CUT_S, _CUT_MAX_S = 0.4, 1.6
#: ... the ends to be decided
_ENDS_S = 1.0
_POLL_S = 0.005
_PAUSE_S = 0.3

#: what a group has committed, if no transaction can still change it; otherwise empty
Committed = Callable[[Collection[TopicPartition]], Mapping[TopicPartition, tuple[int, str]]]


@dataclass(frozen=True)
class SnapshotClients:
    """Clients, at the end of the topic of requests."""

    application: str
    admin: Admin
    consumer: LogConsumer
    producer: PlainProducer
    committed: Committed
    clock: Clock
    #: waits for a number of seconds
    wait: Callable[[float], None] = time.sleep

    @property
    def partition(self) -> TopicPartition:
        """Of requests and answers."""
        return TopicPartition(snapshots_topic(self.application), 0)

    def send_request(self, order: SnapshotRequest) -> None:
        """Send a request."""
        value = encode_message(order)
        now_ms = self.clock.wall_clock_ms()
        self.producer.produce([ProducedRecord(*self.partition, b"order", value, now_ms)])
        self.producer.flush()

    def receive_answers(self, attempt: Attempt) -> None:
        """Receive new answers."""
        polled = self.consumer.poll(1_000, _POLL_S)
        for record in polled.records.get(self.partition, ()):
            attempt.receive_answer(decode_message(record.value() or b""))


def snapshot(clients: SnapshotClients, timeout_s: float) -> dict[str, SnapshotNote]:
    """Return task to what it has committed at its barriers; retries until it succeeds.

    Raises SnapshotError, with the reason of the last attempt, if none succeeds in time; ConfigError
    if the topology does not allow a snapshot.
    """
    deadline = clients.clock.monotonic_ms() / 1000 + timeout_s
    patience_s = _CUT_S
    while True:
        attempt = Attempt(uuid.uuid4().hex, hold_ms=int(2_000 * patience_s))
        try:
            return _attempted(clients, attempt, patience_s)
        except VoidSnapshotError as void:
            reason = void
            _LOGGER.info("retrying a snapshot of %s: %s", clients.application, text_of(void))
        finally:
            clients.send_request(SnapshotRequest(attempt.id, 1_000, is_over=True))
        if clients.clock.monotonic_ms() / 1000 > deadline:
            raise SnapshotError(
                f"no snapshot of {clients.application!r} succeeded in {timeout_s:g} s; the last "
                f"attempt: {reason}. Tasks that move or restore, and workers that stall, make an"
                " attempt fail: check `logstate status`, and try again when all tasks run"
            )
        patience_s = min(_CUT_MAX_S, 2 * patience_s)
        clients.wait(_PAUSE_S)


def _attempted(clients: SnapshotClients, attempt: Attempt, cut_s: float) -> dict[str, SnapshotNote]:
    _find_running_tasks(clients, attempt)
    step = 0
    for number, level in enumerate(levels_of(attempt.shape)):
        if number:
            step += 1
            clients.send_request(attempt.order(step, level, releases=False))
            absent = _absent_at(attempt, level, step)
            _until(clients, attempt, absent, cut_s, "no worker knows the barriers of")
        step += 1
        clients.send_request(attempt.order(step, level, releases=True))
        patience_s = _MARKS_S if number else cut_s
        tasks_without_cut = _tasks_without_cut(attempt, level)
        _until(clients, attempt, tasks_without_cut, patience_s, "no cut was reported of")
        _read_ends(clients, attempt, attempt.finish_level(level))
    return attempt.notes


def _find_running_tasks(clients: SnapshotClients, attempt: Attempt) -> None:
    # More than once: a task that starts after a request reports nothing by itself.
    left: list[str] = []
    for _ in range(_CALLS):
        clients.send_request(SnapshotRequest(attempt.id, 0))
        left = _missing_after(clients, attempt, lambda: _silent_tasks(attempt), _CALL_S)
        if not left:
            return
    raise VoidSnapshotError(f"no worker reports that it runs {', '.join(left)}")


def _silent_tasks(attempt: Attempt) -> list[str]:
    return attempt.absent(attempt.shape, 0) if attempt.shape else ["any task"]


def _absent_at(attempt: Attempt, level: list[int], step: int) -> Callable[[], list[str]]:
    return lambda: attempt.absent(level, step)


def _tasks_without_cut(attempt: Attempt, level: list[int]) -> Callable[[], list[str]]:
    return lambda: attempt.tasks_without_cut(level)


def _until(
    clients: SnapshotClients,
    attempt: Attempt,
    missing: Callable[[], list[str]],
    seconds: float,
    what: str,
) -> None:
    if left := _missing_after(clients, attempt, missing, seconds):
        raise VoidSnapshotError(f"{what} {', '.join(left)} for {seconds:g} s")


def _missing_after(
    clients: SnapshotClients, attempt: Attempt, missing: Callable[[], list[str]], seconds: float
) -> list[str]:
    """Return the tasks that are still missing, after that time at most."""
    deadline = clients.clock.monotonic_ms() / 1000 + seconds
    while left := missing():
        if clients.clock.monotonic_ms() / 1000 > deadline:
            return left
        clients.receive_answers(attempt)
    return []


def _read_ends(
    clients: SnapshotClients, attempt: Attempt, logs: Collection[TopicPartition]
) -> None:
    deadline = clients.clock.monotonic_ms() / 1000 + _ENDS_S
    while logs:
        ends = clients.admin.end_offsets(list(logs))
        stable = clients.admin.stable_offsets(list(logs))
        committed = clients.committed(list(attempt.inputs_of_writers(logs)))
        if committed and attempt.check_ends(ends, stable, committed):
            return
        if clients.clock.monotonic_ms() / 1000 > deadline:
            raise VoidSnapshotError(f"a transaction stays open in {sorted({t for t, _ in logs})}")


@contextlib.contextmanager
def snapshot_clients(
    config: Mapping[str, Any], application: str, cluster: Cluster
) -> Iterator[SnapshotClients]:
    """Create clients for snapshots of one application.

    Raises TopicError if no instance has ever listened for requests.
    """
    from logstate.kafka.group_offsets import StableOffsets

    with contextlib.ExitStack() as clients:
        admin = cluster.admin()
        clients.callback(_closed, admin)
        partition = TopicPartition(snapshots_topic(application), 0)
        if partition.topic not in admin.describe_topics([partition.topic]):
            raise TopicError(
                f"the topic {partition.topic!r} does not exist: no instance of {application!r} has "
                "listened for snapshots yet. Is it running, with this version of logstate?"
            )
        end = admin.end_offsets([partition])[partition]
        consumer = cluster.log_consumer()
        clients.callback(_closed, consumer)
        consumer.assign({partition: end})
        producer = cluster.plain_producer()
        clients.callback(_closed, producer)
        offsets = StableOffsets(config, application)
        clients.callback(offsets.close)
        yield SnapshotClients(application, admin, consumer, producer, offsets.of, SystemClock())


def _closed(client: Admin | LogConsumer | PlainProducer) -> None:
    with contextlib.suppress(LogstateError):
        client.close()
