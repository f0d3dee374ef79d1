"""The member of the consumer group."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from typing import Any, cast

import confluent_kafka
from confluent_kafka import Consumer, KafkaError, KafkaException

from logstate.contracts.clients import Committed, Polled, Rebalance
from logstate.contracts.errors import BrokerError
from logstate.contracts.records import TopicPartition
from logstate.kafka.background_poller import BackgroundPoller
from logstate.kafka.faults import native_error, translate_error
from logstate.kafka.fetching import as_polled, native, native_at, place_of
from logstate.kafka.offset_metadata import read_committed
from logstate.kafka.record_source import record_source
from logstate.kafka.unreadable_batch import UnreadableBatch, end_of_batch

#: how late an assignment may be noticed
_ASSIGNMENT_WAIT_S = 0.01
#: between two checks whether the group has assigned the partitions to others
_GIVE_UP_LOOK_S = 0.05


class KafkaGroupConsumer:
    """A group member (see :class:`logstate.contracts.clients.GroupConsumer`).

    New partitions are assigned at offset 0 and paused at once: the engine decides where they start,
    outside the callback. The client may fetch once before the pause takes effect, which is an error
    if offset 0 was deleted; the engine does not see it. But the client then never fetches that
    partition again and refuses to seek in it (_STATE), so a partition that was out of range is
    removed from the assignment and assigned again at its start. The same is done if a seek is
    refused: its error may not have been polled yet. That error has a position before the start, by
    which it is recognized later.

    A logical offset like "end" is never assigned instead: the client looks it up in the background,
    and a late result overrides a seek that was made meanwhile. Records would be skipped silently.

    The consumer tracks the position of each partition itself: the client returns the old position
    after a seek, and none after an assignment, until a record arrives.
    """

    def __init__(self, config: Mapping[str, Any], *, is_incremental: bool) -> None:
        self._config = config
        self._consumer = Consumer(dict(config))
        self._source = record_source(self._consumer, config)
        self._is_incremental = is_incremental
        self._credentials = _credentials(config)
        self._name = f"group {config['group.id']!r}"
        self._topics: Sequence[str] = ()
        self._on_rebalance: Callable[[Rebalance], None] = lambda _: None
        self._beside = BackgroundPoller(self._consumer)
        self._out_of_range: set[TopicPartition] = set()
        self._paused: set[TopicPartition] = set()
        #: next position of each started partition: after the last returned record
        self._positions: dict[TopicPartition, int] = {}
        self._has_rebalanced = False

    def subscribe(self, topics: Sequence[str], on_rebalance: Callable[[Rebalance], None]) -> None:
        self._topics, self._on_rebalance = topics, on_rebalance
        self._consumer.subscribe(
            list(topics),
            on_assign=self._assigned,
            on_revoke=self._revoked,
            on_lost=self._lost,
        )

    def poll(self, max_records: int, timeout_s: float) -> Polled:
        try:
            with self._beside.turn(self._on_rebalance):
                kept, self._beside.kept = self._beside.kept, []
                polled = as_polled(kept, "group") if kept else self._poll(max_records, timeout_s)
        except KafkaException as exc:
            raise translate_error(exc, f"polling as member of {self._name}", "group") from exc
        except BrokerError as exc:
            if type(exc) is not BrokerError:  # the engine handles it
                raise
            raise BrokerError(f"as member of {self._name}: {exc}") from exc
        for tp, records in polled.records.items():
            if tp in self._positions:
                self._positions[tp] = cast(int, records[-1].offset()) + 1
        while polled.unreadable:
            self._pass_batch(polled, *polled.unreadable.popitem())
        polled.out_of_range = self._new_out_of_range(polled.out_of_range)
        if self._has_rebalanced:
            self._has_rebalanced = False
            self._beside.call(self._fetch_now)
        return polled

    def _pass_batch(
        self, polled: Polled, partition: TopicPartition, found: tuple[int, str]
    ) -> None:
        """Replace a batch that cannot be read by one record, and continue after it."""
        first, reason = found
        position = self._positions.get(partition)
        if position is None:  # not started: the engine decides where
            return
        try:
            end = end_of_batch(self._config, partition, first)
            if end <= position:  # reported before a seek
                return
            self._beside.call(lambda: self._continue_at(partition, end))
        except KafkaException as exc:
            raise translate_error(exc, f"passing a batch of {partition}", "group") from exc
        batch = UnreadableBatch(partition, first, end, reason)
        polled.records.setdefault(partition, []).append(batch)
        self._positions[partition] = end

    def _continue_at(self, partition: TopicPartition, position: int) -> None:
        if not self._try_seek(partition, position):
            self._assign_again({partition}, {partition: position})
        if partition in self._paused:
            self._consumer.pause(native([partition]))
        else:
            self._resume([partition])

    def _new_out_of_range(
        self, out_of_range: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """Return those of started partitions, without positions before their current start."""
        starts = self._positions
        mended = {tp for tp, at in out_of_range.items() if 0 <= at < starts.get(tp, 0)}
        self._out_of_range |= out_of_range.keys() - mended
        return {tp: at for tp, at in out_of_range.items() if tp in starts and tp not in mended}

    def _fetch_now(self) -> None:
        """Make the client fetch resumed partitions at once.

        A thread of the client that found nothing to fetch sleeps for up to a second; neither
        resuming nor a seek to offset 0 wakes it. The client itself pauses and resumes every
        partition while the assignment changes. Setting credentials is the only call that wakes all
        of its threads; the same credentials are set again.
        """
        if self._credentials is not None:
            self._consumer.set_sasl_credentials(*self._credentials)

    def stay(self, is_still: Callable[[], bool]) -> None:
        self._beside.begin(is_still)

    def ask_group(self) -> None:
        """Send the same subscription again, which the client does at once and changes nothing.

        In the classic protocol all members would rejoin, and they learn of each other anyway.
        """
        if not self._is_incremental:
            return
        with suppress(KafkaException):  # a poll raises any error of the client
            self._beside.call(lambda: self.subscribe(self._topics, self._on_rebalance))

    def _poll(self, max_records: int, timeout_s: float) -> Polled:
        """Poll; return at the first assignment.

        The client calls back during its wait for a record and then continues to wait.
        """
        has_none = not self._paused and not self._positions
        while has_none and timeout_s > _ASSIGNMENT_WAIT_S:
            polled = self._source.take(max_records, _ASSIGNMENT_WAIT_S, "group")
            if self._paused or polled.records or polled.out_of_range:
                return polled
            timeout_s -= _ASSIGNMENT_WAIT_S
        return self._source.take(max_records, timeout_s, "group")

    def committed(
        self, partitions: Sequence[TopicPartition], timeout_s: float
    ) -> dict[TopicPartition, Committed]:
        try:
            return self._beside.call(lambda: read_committed(self._consumer, partitions, timeout_s))
        except KafkaException as exc:
            raise translate_error(
                exc, f"reading committed offsets of {self._name}", "group"
            ) from exc

    def start(self, positions: Mapping[TopicPartition, int]) -> None:
        broken = self._out_of_range & positions.keys()
        try:
            self._beside.call(lambda: self._seek(positions, broken))
        except KafkaException as exc:
            raise translate_error(exc, f"seeking to {dict(positions)}", "group") from exc
        self._out_of_range -= broken
        self._paused.difference_update(positions)
        self._positions.update(positions)

    def _seek(
        self, positions: Mapping[TopicPartition, int], broken: AbstractSet[TopicPartition]
    ) -> None:
        whole = {tp: at for tp, at in positions.items() if tp not in broken}
        refused = {tp for tp, at in whole.items() if not self._try_seek(tp, at)}
        if refused or broken:
            self._assign_again(refused | broken, positions)
        self._resume(positions)

    def _try_seek(self, partition: TopicPartition, position: int) -> bool:
        """Seek; return whether it worked: not if the client no longer fetches the partition."""
        try:
            self._consumer.seek(*native_at({partition: position}))
        except KafkaException as exc:
            if native_error(exc).code() != KafkaError._STATE:
                raise
            return False
        return True

    def _assign_again(
        self, broken: AbstractSet[TopicPartition], positions: Mapping[TopicPartition, int]
    ) -> None:
        """Make the client forget its state of partitions; the group does not notice.

        The eager protocol has no calls for some partitions only: all others keep their positions.
        """
        consumer = self._consumer
        if self._is_incremental:
            consumer.incremental_unassign(native(broken))
            consumer.incremental_assign(native_at({tp: positions[tp] for tp in broken}))
            self._source.attach(broken)
            return
        assigned = [TopicPartition(tp.topic, tp.partition) for tp in consumer.assignment()]
        going_on = {**dict.fromkeys(assigned, 0), **self._positions, **positions}
        consumer.assign(native_at({tp: going_on[tp] for tp in assigned}))
        self._source.attach(assigned)
        consumer.pause(native(self._paused))

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        partitions = set(partitions)
        self._paused |= partitions
        try:
            self._beside.call(lambda: self._consumer.pause(native(partitions)))
        except KafkaException as exc:
            raise translate_error(exc, "pausing partitions", "group") from exc

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        partitions = set(partitions)
        self._paused -= partitions
        try:
            self._beside.call(lambda: self._resume(partitions))
        except KafkaException as exc:
            raise translate_error(exc, "resuming partitions", "group") from exc

    def _resume(self, partitions: Iterable[TopicPartition]) -> None:
        self._consumer.resume(native(partitions))
        self._fetch_now()

    def known_ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self._beside.call(lambda: self._known_ends(partitions))

    def _known_ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        ends = {}
        for partition in partitions:
            (place,) = native([partition])
            with suppress(KafkaException):  # a partition that was revoked meanwhile
                found = self._consumer.get_watermark_offsets(place, cached=True)
                if found[1] >= 0:
                    ends[partition] = found[1]
        return ends

    def group_metadata(self) -> object:
        return self._beside.call(self._consumer.consumer_group_metadata)

    def member_id(self) -> str:
        member_id = self._beside.call(self._consumer.memberid)
        return "" if self._beside.is_lost else member_id or ""

    def give_up(self, topic: str, timeout_s: float) -> None:
        self._beside.close()
        self._source.close()
        self._on_rebalance = lambda _: None
        self.subscribe([topic], self._on_rebalance)
        end = time.monotonic() + timeout_s
        while not self._has_given_up(topic) and time.monotonic() < end:
            self._consumer.consume(1_000, _GIVE_UP_LOOK_S)

    def _has_given_up(self, topic: str) -> bool:
        """Return whether the group has responded: until then an eager member has none either."""
        topics = {tp.topic for tp in self._consumer.assignment()}
        return topics == {topic} or (self._is_incremental and not topics)

    def close(self) -> None:
        self._beside.close()
        self._source.close()
        self._consumer.close()

    # Callbacks run inside poll() and close(), on the worker's thread, or inside stay().

    def _handle_rebalance(self, kind: str, partitions: Sequence[TopicPartition]) -> None:
        rebalance = Rebalance(kind, partitions)
        self._has_rebalanced = True
        if self._beside.is_here():
            self._beside.hand_over(rebalance)
        else:
            self._on_rebalance(rebalance)

    def _assigned(
        self, consumer: Consumer, partitions: list[confluent_kafka.TopicPartition]
    ) -> None:
        new = [TopicPartition(tp.topic, tp.partition) for tp in partitions]
        self._source.attach(new)
        if self._is_incremental:
            consumer.incremental_assign(native(new))
        else:
            consumer.assign(native(new))
        self._source.attach(new)
        if new:
            self.pause(new)
        self._handle_rebalance("assigned", new)

    def _revoked(
        self, consumer: Consumer, partitions: list[confluent_kafka.TopicPartition]
    ) -> None:
        gone = [TopicPartition(tp.topic, tp.partition) for tp in partitions]
        self._handle_rebalance("revoked", gone)
        self._give_up(consumer, gone)

    def _lost(self, consumer: Consumer, partitions: list[confluent_kafka.TopicPartition]) -> None:
        gone = [TopicPartition(tp.topic, tp.partition) for tp in partitions]
        self._handle_rebalance("lost", gone)
        self._give_up(consumer, gone)

    def _give_up(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        self._source.detach(TopicPartition(tp.topic, tp.partition) for tp in partitions)
        self._out_of_range.difference_update(partitions)
        self._paused.difference_update(partitions)
        gone = {(tp.topic, tp.partition) for tp in partitions}
        self._beside.kept = [m for m in self._beside.kept if place_of(m) not in gone]
        for partition in partitions:
            self._positions.pop(partition, None)
        if self._is_incremental:
            consumer.incremental_unassign(native(partitions))
        else:
            consumer.unassign()


def _credentials(config: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the client's user name and password; empty if no mechanism needs them.

    None for Kerberos: it has none, but would read the name.
    """
    mechanisms = {config.get("sasl.mechanism"), config.get("sasl.mechanisms")}
    if "GSSAPI" in mechanisms:
        return None
    return str(config.get("sasl.username", "")), str(config.get("sasl.password", ""))
