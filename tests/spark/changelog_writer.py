"""Writes what an application would: changelogs, committed cuts and a manifest, in transactions."""

from __future__ import annotations

import json
import struct
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from logstate.changelog.cut import MANIFEST_KEY, encode_task_cut
from logstate.contracts.errors import LogstateError
from logstate.contracts.records import TopicPartition as LogPartition
from logstate.contracts.topic_names import changelog_topic, cuts_topic
from logstate.kafka.log_reader import log_bounds
from logstate.kafka.offset_metadata import send_offsets
from tests.markers import are_written
from tests.patience import PATIENCE_S, until

Change = tuple[bytes, bytes | None] | tuple[bytes, bytes | None, int]

#: kinds of stores whose rows an application counts
COUNTED_KINDS = {"key_value", "timestamped_key_value"}

STRING = {"format": "string", "schema": None}
INT64 = {"format": "int64", "schema": None}


def int64(value: int) -> bytes:
    return value.to_bytes(8, "big", signed=True)


def window_key(key: str, start_ms: int, sequence: int = 0) -> bytes:
    return key.encode() + struct.pack(">qi", start_ms, sequence)


def session_key(key: str, start_ms: int, end_ms: int) -> bytes:
    return key.encode() + struct.pack(">qq", end_ms, start_ms)


class RowCounts:
    """How many rows a store has at each position of its changelog."""

    def __init__(self, store: str) -> None:
        self.store = store
        self._written: dict[int, list[tuple[int, bytes, bool]]] = {}
        #: partition to how many of these are counted, and the keys that have a row
        self._counted: dict[int, tuple[int, set[bytes]]] = {}

    def wrote(self, partition: int, first: int, changes: Sequence[Change]) -> None:
        records = self._written.setdefault(partition, [])
        records += [
            (first + n, key, value is not None) for n, (key, value, *_) in enumerate(changes)
        ]

    def at(self, partition: int, position: int) -> int:
        records = self._written.get(partition, [])
        at, live = self._counted.get(partition, (0, set[bytes]()))
        if at and records[at - 1][0] >= position:
            at, live = 0, set()
        while at < len(records) and records[at][0] < position:
            _, key, is_live = records[at]
            (live.add if is_live else live.discard)(key)
            at += 1
        self._counted[partition] = at, live
        return len(live)


class ApplicationLog:
    """The topics of one application, written by hand."""

    def __init__(self, bootstrap: str, application: str, partitions: int = 2) -> None:
        self.bootstrap = bootstrap
        self.application = application
        self.partitions = partitions
        self.source = f"{application}-in"
        self._config = {"bootstrap.servers": bootstrap}
        self._admin = AdminClient(self._config)
        self._stores: dict[str, dict[str, Any]] = {}
        self._counts: dict[str, RowCounts] = {}
        self._ids: dict[Producer, str] = {}
        self._producer = self._new_producer()
        self._create(self.source, partitions, {})
        self._create(cuts_topic(application), 1, {"cleanup.policy": "compact"})

    def add_input(self) -> str:
        """Create another input of the stores' tasks, return the topic."""
        topic = f"{self.application}-other"
        self._create(topic, self.partitions, {})
        return topic

    def create_topic(self, topic: str) -> None:
        """Create a topic with as many partitions as the application's."""
        self._create(topic, self.partitions, {})

    def changelog(self, store: str) -> str:
        return changelog_topic(self.application, store)

    def add_store(
        self,
        name: str,
        kind: str = "key_value",
        *,
        key: Mapping[str, Any] = STRING,
        value: Mapping[str, Any] = INT64,
        config: Mapping[str, str] | None = None,
        **more: Any,
    ) -> str:
        """Create the changelog topic, enter the store into the manifest, return the topic."""
        topic = self.changelog(name)
        self._create(topic, self.partitions, {"cleanup.policy": "compact", **(config or {})})
        self._stores[name] = {
            "kind": kind,
            "changelog_topic": topic,
            "partitions": self.partitions,
            "sub_topology": 0,
            "source_topics": [self.source],
            "key": dict(key),
            "value": dict(value),
            "window_size_ms": None,
            "retention_ms": None,
            **more,
        }
        if kind in COUNTED_KINDS and "source_topic" not in more:
            self._counts[topic] = RowCounts(name)
        self.write_manifest()
        return topic

    def write_manifest(self, **more: Any) -> None:
        manifest = {
            "version": 1,
            "application_id": self.application,
            "describe": "",
            "stores": self._stores,
            **more,
        }
        with self._transaction() as producer:
            producer.produce(
                cuts_topic(self.application), key=MANIFEST_KEY, value=json.dumps(manifest)
            )

    def stop_counting(self) -> None:
        """From here on no commit says how many rows a store has: others write to the logs too."""
        self._counts.clear()

    def new_producer(self) -> Producer:
        """A producer of the test's own, whose records no commit counts."""
        self.stop_counting()
        return self._new_producer()

    def _new_producer(self) -> Producer:
        transactional_id = f"{self.application}-{time.monotonic_ns()}"
        producer = Producer(
            {
                **self._config,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": 600_000,  # no transaction ends by itself in a test
                "linger.ms": 0,
            }
        )
        producer.init_transactions(PATIENCE_S)
        self._ids[producer] = transactional_id
        return producer

    @contextmanager
    def transaction(self, *, aborts: bool = False) -> Iterator[Producer]:
        """A transaction of the test's own, whose records no commit counts."""
        self.stop_counting()
        with self._transaction(aborts=aborts) as producer:
            yield producer

    @contextmanager
    def _transaction(self, *, aborts: bool = False) -> Iterator[Producer]:
        producer = self._producer
        producer.begin_transaction()
        yield producer
        producer.flush(PATIENCE_S)
        self.end(producer, aborts=aborts)

    def end(self, producer: Producer, *, aborts: bool = False) -> None:
        """End its transaction, and return when every reader sees that."""
        if aborts:
            producer.abort_transaction(PATIENCE_S)
        else:
            producer.commit_transaction(PATIENCE_S)
        until(lambda: are_written(self.bootstrap, self._ids[producer]), "markers are missing")

    def write(
        self, topic: str, changes: Sequence[Change], *, partition: int = 0, aborts: bool = False
    ) -> int:
        """One transaction; returns the position after its last record."""
        with self._transaction(aborts=aborts) as producer:
            position = write_open(producer, topic, changes, partition)
        if topic in self._counts and not aborts:
            self._counts[topic].wrote(partition, position - len(changes), changes)
        self._wait_stable(topic, partition, position)
        return position

    def commit(
        self,
        input_offset: int,
        positions: Mapping[str, int],
        *,
        partition: int = 0,
        padding: int = 0,
        clocks: Mapping[str, int] | None = None,
        changes: Callable[[Producer], None] | None = None,
    ) -> None:
        """Commit one task's offset with its cut, as the application's group.

        The cut says how many rows the stores have, as an application's does. Records that
        ``changes`` writes are not counted, so no commit of a store is from then on.
        """
        if changes is not None:
            self.stop_counting()
        counted = {
            f"rows:{counts.store}": counts.at(partition, positions[topic])
            for topic, counts in self._counts.items()
            if topic in positions
        }
        task_cut = encode_task_cut(
            {self.source: (input_offset, 0)},
            positions=positions,
            clocks={**counted, **(clocks or {}), **{f"clock-{n}": n for n in range(padding)}},
            topic_ids={},
        )
        offset = (input_offset, task_cut.metadata[self.source])
        consumer = Consumer({**self._config, "group.id": self.application})
        with self._transaction() as producer:
            if changes is not None:
                changes(producer)
            if task_cut.record is not None:
                producer.produce(
                    cuts_topic(self.application),
                    key=f"cut:0_{partition}",
                    value=task_cut.record,
                )
            task = {LogPartition(self.source, partition): offset}
            send_offsets(producer, task, consumer.consumer_group_metadata(), PATIENCE_S)
        consumer.close()

    @contextmanager
    def pending_commit(
        self,
        input_offset: int,
        positions: Mapping[str, int],
        topic: str,
        changes: Sequence[Change],
        *,
        partition: int = 0,
    ) -> Iterator[None]:
        """What an instance leaves that died between sending its offsets and the commit."""
        metadata = encode_task_cut(
            {self.source: (input_offset, 0)}, positions=positions, clocks={}, topic_ids={}
        ).metadata
        consumer = Consumer({**self._config, "group.id": self.application})
        producer = self._new_producer()
        producer.begin_transaction()
        write_open(producer, topic, changes, partition)
        offset = (input_offset, metadata[self.source])
        task = {LogPartition(self.source, partition): offset}
        send_offsets(producer, task, consumer.consumer_group_metadata(), PATIENCE_S)
        consumer.close()
        try:
            yield
        finally:
            self.end(producer, aborts=True)

    def commit_by_another(self, topic: str, offset: int, partition: int = 0) -> None:
        """Commit an offset as the application's group, without a word about state."""
        consumer = Consumer({**self._config, "group.id": self.application})
        consumer.commit(offsets=[TopicPartition(topic, partition, offset)], asynchronous=False)
        consumer.close()

    def delete_before(self, topic: str, offset: int, partition: int = 0) -> None:
        """What retention does: the log begins at this offset from now on."""
        (future,) = self._admin.delete_records([TopicPartition(topic, partition, offset)]).values()
        future.result(PATIENCE_S)

    def create_again(self, topic: str) -> None:
        """Delete a topic and create another one under its name."""
        (future,) = self._admin.delete_topics([topic]).values()
        future.result(PATIENCE_S)
        # The controller has deleted it; the broker hears of that later.
        until(lambda: topic not in self._topics(), f"{topic} is still there")
        if topic in self._counts:
            self._counts[topic] = RowCounts(self._counts[topic].store)
        self._create(topic, self.partitions, {"cleanup.policy": "compact"})

    def _wait_stable(self, topic: str, partition: int, position: int) -> None:
        # Another transaction may be open below it, whose end is on the way.
        log = LogPartition(topic, partition)
        until(
            lambda: log_bounds(self._config, [log])[log].stable_end >= position,
            f"{log} did not become stable",
        )

    def _create(self, topic: str, partitions: int, config: Mapping[str, str]) -> None:
        new = NewTopic(topic, partitions, 1, config=dict(config))
        for future in self._admin.create_topics([new]).values():
            future.result(PATIENCE_S)
        logs = [LogPartition(topic, number) for number in range(partitions)]
        until(lambda: self._are_there(logs), f"{topic} is not there")

    def _are_there(self, logs: Sequence[LogPartition]) -> bool:
        """Whether the broker answers for them: it hears of a topic after the controller."""
        try:
            return len(log_bounds(self._config, logs)) == len(logs)
        except LogstateError:
            return False

    def _topics(self) -> Mapping[str, Any]:
        return self._admin.list_topics(timeout=PATIENCE_S).topics


def write_open(
    producer: Producer, topic: str, changes: Sequence[Change], partition: int = 0
) -> int:
    """Records into the producer's open transaction; returns the position after the last one."""
    offsets: list[int] = []

    def delivered(error: object, message: Any) -> None:
        assert error is None
        offsets.append(message.offset())

    for key, value, *time_ms in changes:
        producer.produce(
            topic,
            key=key,
            value=value,
            partition=partition,
            timestamp=time_ms[0] if time_ms else int(time.time() * 1000),
            on_delivery=delivered,
        )
    producer.flush(PATIENCE_S)
    return max(offsets) + 1
