"""Consumers: the member of the group, and the reader of changelogs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from typing import Any, cast

import confluent_kafka
from confluent_kafka import Consumer, KafkaError, KafkaException, Message

from logstate.contracts.errors import BrokerError, FencedError, LostMemberError
from logstate.contracts.records import FetchedRecord, TopicPartition
from logstate.contracts.seams import Committed, Polled, Rebalance
from logstate.kafka.error_classes import Place, Reaction, reaction_to
from logstate.kafka.faults import translated, underlying_code

_OUT_OF_RANGE = frozenset(
    {
        KafkaError.OFFSET_OUT_OF_RANGE,
        KafkaError._AUTO_OFFSET_RESET,
        KafkaError._LOG_TRUNCATION,
    }
)
#: how late an assignment may be noticed
_ASSIGNMENT_WAIT_S = 0.01


def _native(
    partitions: Iterable[TopicPartition], offset: int = 0
) -> list[confluent_kafka.TopicPartition]:
    return [confluent_kafka.TopicPartition(t, p, offset) for t, p in partitions]


def _native_at(positions: Mapping[TopicPartition, int]) -> list[confluent_kafka.TopicPartition]:
    return [confluent_kafka.TopicPartition(t, p, o) for (t, p), o in positions.items()]


def _fetch(consumer: Consumer, max_records: int, timeout_s: float, place: Place) -> Polled:
    """One poll. ``consume(n, timeout)`` waits for n records, so the wait is for the first only."""
    polled = Polled()
    messages = consumer.consume(max_records, 0)
    if not messages and timeout_s > 0:
        first = consumer.poll(timeout_s)
        if first is None:
            return polled
        messages = [first, *consumer.consume(max_records - 1, 0)]
    # The client's accessors are called from C here and below: a loop costs three times as much.
    if any(map(Message.error, messages)):
        messages = _without_errors(polled, messages, place)
    polled.records = _by_partition(messages)
    return polled


def _without_errors(polled: Polled, messages: Sequence[Message], place: Place) -> list[Message]:
    records = []
    for message in messages:
        error = message.error()
        if error is None:
            records.append(message)
        else:
            where = (message.topic(), message.partition())
            _sort_error(polled, error, where, message.offset(), place)
    return records


def _by_partition(messages: Sequence[Message]) -> dict[TopicPartition, list[FetchedRecord]]:
    """Records of a partition come in runs: the partition is looked up where one begins."""
    groups: dict[TopicPartition, list[FetchedRecord]] = {}
    has_one_topic = len(set(map(Message.topic, messages))) == 1
    key: Callable[[Message], Any] = Message.partition if has_one_topic else _place_of
    for _, run in groupby(messages, key):
        records: list[Any] = list(run)
        first = records[0]
        where = TopicPartition(first.topic() or "", first.partition() or 0)
        if where in groups:
            groups[where] += records
        else:
            groups[where] = records
    return groups


def _place_of(message: Message) -> tuple[str | None, int | None]:
    return message.topic(), message.partition()


def _sort_error(
    polled: Polled, error: KafkaError, where: tuple[Any, Any], offset: Any, place: Place
) -> None:
    code = error.code()
    if code == KafkaError._PARTITION_EOF:
        polled.ends.append((TopicPartition(*where), offset))
        return
    if code in _OUT_OF_RANGE:
        polled.out_of_range.append(TopicPartition(*where))
        return
    if code == KafkaError._MAX_POLL_EXCEEDED:
        # The client joins again by itself at the next poll.
        raise FencedError(f"this member was removed from the group: {error.str()}")
    reaction = reaction_to(underlying_code(error), place)
    if reaction is Reaction.FATAL:
        at = "" if where[0] is None else f" of {where[0]}-{where[1]} at offset {offset}"
        raise BrokerError(
            f"reading{at} failed for good: {error.str()} ({error.name()}). Going on would leave"
            " records out without a word: look at the permissions and settings of this client, and"
            " at the log itself"
        )
    if error.fatal() or code == KafkaError._FATAL or reaction is Reaction.FENCED:
        raise LostMemberError(f"the group's consumer cannot be used any more: {error.str()}")
    # everything else is a passing fault that the client retries by itself


class KafkaLogConsumer:
    """Assign-only, read committed (see :class:`logstate.contracts.seams.LogConsumer`).

    A partition that is read on from where it is stays as it is: assigned anew, it would lose what
    the client has fetched already, and each of many partitions is assigned again when one is done.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._consumer = Consumer(dict(config))
        #: what is assigned, and from where it was read at first
        self._starts: dict[TopicPartition, int] = {}

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        kept = {
            tp
            for tp, start in self._starts.items()
            if tp in positions and positions[tp] == (self.position(tp) or start)
        }
        consumer = self._consumer
        try:
            consumer.incremental_unassign(_native(self._starts.keys() - kept))
            consumer.incremental_assign(
                _native_at({tp: at for tp, at in positions.items() if tp not in kept})
            )
        except KafkaException as exc:
            raise translated(exc, "assigning logs", "fetch") from exc
        self._starts = {tp: self._starts[tp] if tp in kept else at for tp, at in positions.items()}

    def poll(self, max_records: int, timeout_s: float) -> Polled:
        try:
            return _fetch(self._consumer, max_records, timeout_s, "fetch")
        except KafkaException as exc:
            raise translated(exc, "reading logs", "fetch") from exc

    def position(self, partition: TopicPartition) -> int | None:
        try:
            (found,) = self._consumer.position(_native([partition]))
        except KafkaException as exc:
            raise translated(exc, f"asking for the position in {partition}", "fetch") from exc
        return found.offset if found.offset >= 0 else None

    def close(self) -> None:
        self._consumer.close()


class KafkaGroupConsumer:
    """A group member (see :class:`logstate.contracts.seams.GroupConsumer`).

    New partitions are assigned at offset 0 and paused at once: the position they start at is the
    engine's decision, made outside the callback. The client may fetch once before it is told to
    pause, and where offset 0 has been deleted that is an error: it is kept from the engine. But
    then the client fetches the partition never again and refuses to seek in it (_STATE), so a
    partition that was out of range is taken out of the assignment and put back at its start.

    Never a logical offset like "end" instead: the client looks it up in the background, and a late
    answer overrules a seek that was made meanwhile. Records would be left out without a word.

    Where a partition goes on is counted here and not asked of the client: its answer is the old one
    after a seek, and none after an assignment, until a record comes.
    """

    def __init__(self, config: Mapping[str, Any], *, is_incremental: bool) -> None:
        self._consumer = Consumer(dict(config))
        self._is_incremental = is_incremental
        self._on_rebalance: Callable[[Rebalance], None] = lambda _: None
        self._out_of_range: set[TopicPartition] = set()
        self._paused: set[TopicPartition] = set()
        #: of the partitions that were started, where they go on: after the last record handed out
        self._positions: dict[TopicPartition, int] = {}

    def subscribe(self, topics: Sequence[str], on_rebalance: Callable[[Rebalance], None]) -> None:
        self._on_rebalance = on_rebalance
        self._consumer.subscribe(
            list(topics),
            on_assign=self._assigned,
            on_revoke=self._revoked,
            on_lost=self._lost,
        )

    def poll(self, max_records: int, timeout_s: float) -> Polled:
        try:
            polled = self._poll(max_records, timeout_s)
        except KafkaException as exc:
            raise translated(exc, "polling the group's partitions", "group") from exc
        for tp, records in polled.records.items():
            if tp in self._positions:
                self._positions[tp] = cast(int, records[-1].offset()) + 1
        self._out_of_range.update(polled.out_of_range)
        polled.out_of_range = [tp for tp in polled.out_of_range if tp in self._positions]
        return polled

    def _poll(self, max_records: int, timeout_s: float) -> Polled:
        """A poll; one that brings the first assignment ends with it.

        The client calls back from within its wait for a record and then goes on waiting.
        """
        has_none = not self._paused and not self._positions
        while has_none and timeout_s > _ASSIGNMENT_WAIT_S:
            polled = _fetch(self._consumer, max_records, _ASSIGNMENT_WAIT_S, "group")
            if self._paused or polled.records or polled.out_of_range:
                return polled
            timeout_s -= _ASSIGNMENT_WAIT_S
        return _fetch(self._consumer, max_records, timeout_s, "group")

    def committed(
        self, partitions: Sequence[TopicPartition], timeout_s: float
    ) -> dict[TopicPartition, Committed]:
        try:
            found = self._consumer.committed(_native(partitions), timeout_s)
        except KafkaException as exc:
            raise translated(exc, "reading the group's committed offsets", "group") from exc
        result = {}
        for tp in found:
            if tp.error is not None:
                doing = f"reading the offset of {tp.topic}"
                raise translated(KafkaException(tp.error), doing, "group")
            offset = tp.offset if tp.offset >= 0 else None
            result[TopicPartition(tp.topic, tp.partition)] = Committed(offset, tp.metadata or "")
        return result

    def start(self, positions: Mapping[TopicPartition, int]) -> None:
        broken = self._out_of_range & positions.keys()
        try:
            if broken:
                self._assign_again({tp: positions[tp] for tp in broken})
            for native in _native_at({tp: positions[tp] for tp in positions.keys() - broken}):
                self._consumer.seek(native)
            self._consumer.resume(_native(positions))
        except KafkaException as exc:
            raise translated(exc, f"seeking to {dict(positions)}", "group") from exc
        self._out_of_range -= broken
        self._paused.difference_update(positions)
        self._positions.update(positions)

    def _assign_again(self, positions: Mapping[TopicPartition, int]) -> None:
        """Make the client forget what it knew of partitions; the group does not notice.

        The eager protocol has no calls for some partitions only: all others stay where they are.
        """
        consumer = self._consumer
        if self._is_incremental:
            consumer.incremental_unassign(_native(positions))
            consumer.incremental_assign(_native_at(positions))
            return
        assigned = [TopicPartition(tp.topic, tp.partition) for tp in consumer.assignment()]
        going_on = {tp: self._positions.get(tp, 0) for tp in assigned}
        consumer.assign(_native_at({**going_on, **positions}))
        consumer.pause(_native(self._paused))

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        partitions = set(partitions)
        self._paused |= partitions
        try:
            self._consumer.pause(_native(partitions))
        except KafkaException as exc:
            raise translated(exc, "pausing partitions", "group") from exc

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        partitions = set(partitions)
        self._paused -= partitions
        try:
            self._consumer.resume(_native(partitions))
        except KafkaException as exc:
            raise translated(exc, "resuming partitions", "group") from exc

    def known_ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        ends = {}
        for partition in partitions:
            (native,) = _native([partition])
            with suppress(KafkaException):  # a partition that was taken away meanwhile
                found = self._consumer.get_watermark_offsets(native, cached=True)
                if found[1] >= 0:
                    ends[partition] = found[1]
        return ends

    def group_metadata(self) -> object:
        return self._consumer.consumer_group_metadata()

    def member_id(self) -> str:
        return self._consumer.memberid() or ""

    def close(self) -> None:
        self._consumer.close()

    # Callbacks run inside poll() and close(), on the worker's thread.

    def _assigned(
        self, consumer: Consumer, partitions: list[confluent_kafka.TopicPartition]
    ) -> None:
        new = [TopicPartition(tp.topic, tp.partition) for tp in partitions]
        if self._is_incremental:
            consumer.incremental_assign(_native(new))
        else:
            consumer.assign(_native(new))
        if new:
            self.pause(new)
        self._on_rebalance(Rebalance("assigned", new))

    def _revoked(
        self, consumer: Consumer, partitions: list[confluent_kafka.TopicPartition]
    ) -> None:
        gone = [TopicPartition(tp.topic, tp.partition) for tp in partitions]
        self._on_rebalance(Rebalance("revoked", gone))
        self._give_up(consumer, gone)

    def _lost(self, consumer: Consumer, partitions: list[confluent_kafka.TopicPartition]) -> None:
        gone = [TopicPartition(tp.topic, tp.partition) for tp in partitions]
        self._on_rebalance(Rebalance("lost", gone))
        self._give_up(consumer, gone)

    def _give_up(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        self._out_of_range.difference_update(partitions)
        self._paused.difference_update(partitions)
        for partition in partitions:
            self._positions.pop(partition, None)
        if self._is_incremental:
            consumer.incremental_unassign(_native(partitions))
        else:
            consumer.unassign()
