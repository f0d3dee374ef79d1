"""The reader of changelogs: manually assigned, in no group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaException

from logstate.contracts.clients import Polled
from logstate.contracts.records import TopicPartition
from logstate.kafka.faults import translate_error
from logstate.kafka.fetching import native, native_at
from logstate.kafka.record_source import record_source


class KafkaLogConsumer:
    """Assign-only, read committed (see :class:`logstate.contracts.clients.LogConsumer`).

    A partition that continues from its position stays assigned: a new assignment would drop the
    records that the client has already fetched, and each of many partitions is assigned again when
    one is finished. But the client never again fetches a partition whose position was outside its
    log, which may contain that position by now: such a partition is always assigned again.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._consumer = Consumer(dict(config))
        self._source = record_source(self._consumer, config)
        #: assigned partitions, and the offset at which each one started
        self._starts: dict[TopicPartition, int] = {}
        #: those of them that the client no longer fetches
        self._given_up: set[TopicPartition] = set()

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        kept = {
            tp
            for tp, start in self._starts.items()
            if tp in positions and positions[tp] == (self.position(tp) or start)
        } - self._given_up
        consumer, source = self._consumer, self._source
        new = {tp: at for tp, at in positions.items() if tp not in kept}
        try:
            consumer.incremental_unassign(native(self._starts.keys() - kept))
            source.detach(self._starts.keys() - kept)
            source.attach(new)
            consumer.incremental_assign(native_at(new))
            source.attach(new)
        except KafkaException as exc:
            raise translate_error(exc, "assigning logs", "fetch") from exc
        self._starts = {tp: self._starts[tp] if tp in kept else at for tp, at in positions.items()}
        self._given_up.clear()

    def poll(self, max_records: int, timeout_s: float) -> Polled:
        try:
            polled = self._source.take(max_records, timeout_s, "fetch")
        except KafkaException as exc:
            raise translate_error(exc, "reading logs", "fetch") from exc
        self._given_up.update(polled.out_of_range)
        return polled

    def position(self, partition: TopicPartition) -> int | None:
        try:
            (found,) = self._consumer.position(native([partition]))
        except KafkaException as exc:
            raise translate_error(exc, f"asking for the position in {partition}", "fetch") from exc
        return found.offset if found.offset >= 0 else None

    def close(self) -> None:
        self._source.close()
        self._consumer.close()
