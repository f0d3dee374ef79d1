"""Taking a snapshot across repartitions of an application that runs: orders out, answers in.

What is decided is in ``snapshot_rounds``. Here are the questions to the brokers, the waiting, and
the next attempt where one failed. It runs wherever somebody asks for a snapshot, in an instance or
outside; if that one dies, the workers go on by themselves after a moment.
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
#: how long a level may take to get to its marks
_MARKS_S = 5.0
#: ... and a level to cut, which others wait for: the first attempt, and at most a later one
_CUT_S, _CUT_MAX_S = 0.4, 1.6
#: ... the ends to be decided
_ENDS_S = 1.0
_POLL_S = 0.005
_PAUSE_S = 0.3

#: what a group has committed, where no transaction could still change it; else nothing
Committed = Callable[[Collection[TopicPartition]], Mapping[TopicPartition, tuple[int, str]]]


@dataclass(frozen=True)
class Ground:
    """Clients, at the end of the topic of orders."""

    application: str
    admin: Admin
    consumer: LogConsumer
    producer: PlainProducer
    committed: Committed
    clock: Clock
    #: so many seconds
    wait: Callable[[float], None] = time.sleep

    @property
    def partition(self) -> TopicPartition:
        """Of orders and answers."""
        return TopicPartition(snapshots_topic(self.application), 0)

    def say(self, order: SnapshotRequest) -> None:
        """Give an order."""
        value = encode_message(order)
        now_ms = self.clock.wall_clock_ms()
        self.producer.produce([ProducedRecord(*self.partition, b"order", value, now_ms)])
        self.producer.flush()

    def listen(self, attempt: Attempt) -> None:
        """Hear what has been said."""
        polled = self.consumer.poll(1_000, _POLL_S)
        for record in polled.records.get(self.partition, ()):
            attempt.hear(decode_message(record.value() or b""))


def snapshot(ground: Ground, timeout_s: float) -> dict[str, SnapshotNote]:
    """Task to what it has committed at its marks; tried until it succeeds.

    Raises SnapshotError, with the reason of the last attempt, if none does in time; ConfigError
    where the topology does not allow one.
    """
    deadline = ground.clock.monotonic_ms() / 1000 + timeout_s
    patience_s = _CUT_S
    while True:
        attempt = Attempt(uuid.uuid4().hex, hold_ms=int(2_000 * patience_s))
        try:
            return _attempted(ground, attempt, patience_s)
        except VoidSnapshotError as void:
            reason = void
            _LOGGER.info("a snapshot of %s is tried again: %s", ground.application, text_of(void))
        finally:
            ground.say(SnapshotRequest(attempt.id, 1_000, is_over=True))
        if ground.clock.monotonic_ms() / 1000 > deadline:
            raise SnapshotError(
                f"no snapshot of {ground.application!r} succeeded in {timeout_s:g} s; the last "
                f"attempt: {reason}. Tasks that move or restore, and workers that stand still, make"
                " an attempt fail: look at `logstate status`, and try again when all tasks run"
            )
        patience_s = min(_CUT_MAX_S, 2 * patience_s)
        ground.wait(_PAUSE_S)


def _attempted(ground: Ground, attempt: Attempt, cut_s: float) -> dict[str, SnapshotNote]:
    _call_roll(ground, attempt)
    step = 0
    for number, level in enumerate(levels_of(attempt.shape)):
        if number:
            step += 1
            ground.say(attempt.order(step, level, releases=False))
            absent = _absent_at(attempt, level, step)
            _until(ground, attempt, absent, cut_s, "no worker knows the marks of")
        step += 1
        ground.say(attempt.order(step, level, releases=True))
        patience_s = _MARKS_S if number else cut_s
        unnoted = _unnoted(attempt, level)
        _until(ground, attempt, unnoted, patience_s, "nothing was heard of a cut of")
        _read_ends(ground, attempt, attempt.end_level(level))
    return attempt.notes


def _call_roll(ground: Ground, attempt: Attempt) -> None:
    # More than once: a task that begins to run behind a call says nothing by itself.
    left: list[str] = []
    for _ in range(_CALLS):
        ground.say(SnapshotRequest(attempt.id, 0))
        left = _left(ground, attempt, lambda: _away(attempt), _CALL_S)
        if not left:
            return
    raise VoidSnapshotError(f"no worker says that it runs {', '.join(left)}")


def _away(attempt: Attempt) -> list[str]:
    return attempt.absent(attempt.shape, 0) if attempt.shape else ["any task"]


def _absent_at(attempt: Attempt, level: list[int], step: int) -> Callable[[], list[str]]:
    return lambda: attempt.absent(level, step)


def _unnoted(attempt: Attempt, level: list[int]) -> Callable[[], list[str]]:
    return lambda: attempt.unnoted(level)


def _until(
    ground: Ground,
    attempt: Attempt,
    missing: Callable[[], list[str]],
    seconds: float,
    what: str,
) -> None:
    if left := _left(ground, attempt, missing, seconds):
        raise VoidSnapshotError(f"{what} {', '.join(left)} for {seconds:g} s")


def _left(
    ground: Ground, attempt: Attempt, missing: Callable[[], list[str]], seconds: float
) -> list[str]:
    """What is missing still, after that time at most."""
    deadline = ground.clock.monotonic_ms() / 1000 + seconds
    while left := missing():
        if ground.clock.monotonic_ms() / 1000 > deadline:
            return left
        ground.listen(attempt)
    return []


def _read_ends(ground: Ground, attempt: Attempt, logs: Collection[TopicPartition]) -> None:
    deadline = ground.clock.monotonic_ms() / 1000 + _ENDS_S
    while logs:
        ends = ground.admin.end_offsets(list(logs))
        stable = ground.admin.stable_offsets(list(logs))
        committed = ground.committed(list(attempt.inputs_of_writers(logs)))
        if committed and attempt.check_ends(ends, stable, committed):
            return
        if ground.clock.monotonic_ms() / 1000 > deadline:
            raise VoidSnapshotError(f"a transaction stays open in {sorted({t for t, _ in logs})}")


@contextlib.contextmanager
def ground_of(config: Mapping[str, Any], application: str, cluster: Cluster) -> Iterator[Ground]:
    """Clients for snapshots of one application, made once and warm.

    Raises TopicError where no instance has ever listened for orders.
    """
    from logstate.kafka.group_offsets import StableOffsets

    with contextlib.ExitStack() as clients:
        admin = cluster.admin()
        clients.callback(_closed, admin)
        partition = TopicPartition(snapshots_topic(application), 0)
        if partition.topic not in admin.describe_topics([partition.topic]):
            raise TopicError(
                f"there is no topic {partition.topic!r}: no instance of {application!r} has "
                "listened for snapshots yet; is it running, with this version of logstate?"
            )
        end = admin.end_offsets([partition])[partition]
        consumer = cluster.log_consumer()
        clients.callback(_closed, consumer)
        consumer.assign({partition: end})
        producer = cluster.plain_producer()
        clients.callback(_closed, producer)
        offsets = StableOffsets(config, application)
        clients.callback(offsets.close)
        yield Ground(application, admin, consumer, producer, offsets.of, SystemClock())


def _closed(client: Admin | LogConsumer | PlainProducer) -> None:
    with contextlib.suppress(LogstateError):
        client.close()
