"""An application without running instances, opened to change its state from outside.

One transactional producer writes everything; its transactional id belongs to the application, so a
new attempt fences an earlier one that died or is suspended. The consumer group must not have
members. The brokers check that (``commit_without_members``) before anything is written, and again
before the end of the transaction that hands the new state over.

A producer whose transaction ended slowly begins no other transaction: brokers before
transaction.version 2 (KIP-890) let a late copy of the request end the next transaction. It is not
replaced by a new producer either, because that would fence an attempt that began later.

Offsets and their metadata are read only when no transaction can change them any more. If a killed
instance left a transaction open, the brokers abort it after its timeout.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Self

import msgspec

from logstate.admin.handover import check_group_is_empty
from logstate.admin.handover_of_tasks import Begin
from logstate.admin.logs import KafkaLogs, Logs
from logstate.admin.reset import offsets_of_target
from logstate.changelog.commit_of_task import CommitOfTask, commit_of_task
from logstate.changelog.cut import MANIFEST_KEY, cut_key, decode_cut
from logstate.changelog.stored_manifest import check_topics_are_own, decode_manifest
from logstate.contracts.clients import Cluster, Committed, TransactionalProducer, run_steps
from logstate.contracts.clock import Clock, SystemClock
from logstate.contracts.error_text import text_of
from logstate.contracts.errors import (
    BrokerError,
    MembersLiveError,
    RetriableError,
    TopicError,
)
from logstate.contracts.records import ProducedFields, ProducedRecord, TaskId, TopicPartition
from logstate.contracts.topic_names import cuts_topic, offline_transactional_id
from logstate.directory.instance_info import describe_instances
from logstate.kafka.cluster import KafkaCluster
from logstate.task.task_commit import clocks_of_streams
from logstate.topics.manifest_changes import Manifest

#: of a transaction; the next attempt aborts that of a killed one, or the brokers after this time
TRANSACTION_TIMEOUT_MS: Final = 120_000
_PATIENCE_S = 90.0
_ASK_S = 5.0
_PAUSE_S = 0.1


class StoppedApplication:
    """Raises TopicError if the application never ran, MembersLiveError while an instance runs."""

    def __init__(
        self,
        application_id: str,
        cluster: Cluster,
        logs: Logs,
        *,
        clock: Clock | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """``sleep`` lets seconds pass on ``clock`` (by default the machine's)."""
        self.application_id = application_id
        self.cluster = cluster
        self.logs = logs
        self.admin = self.cluster.admin()
        self._clock = clock or SystemClock()
        self._sleep = sleep
        self._producer: TransactionalProducer | None = None

    @classmethod
    def on_brokers(
        cls,
        application_id: str,
        bootstrap: str,
        config: Mapping[str, Any] | None = None,
        *,
        timeout_ms: int = TRANSACTION_TIMEOUT_MS,
        reports_positions: bool = False,
    ) -> Self:
        """``timeout_ms``: of its transactions; ``reports_positions``: whether these do."""
        cluster = KafkaCluster(
            bootstrap,
            config,
            transaction_timeout_ms=timeout_ms,
            reports_positions=reports_positions,
        )
        logs = KafkaLogs({"bootstrap.servers": bootstrap, **(config or {})})
        return cls(application_id, cluster, logs)

    def __enter__(self) -> Self:
        cuts = cuts_topic(self.application_id)
        try:
            if cuts not in self.admin.describe_topics([cuts]):
                raise self.never_ran()
            self.check_group_is_empty()
            self._producer = self.cluster.transactional_producer(
                offline_transactional_id(self.application_id)
            )
            self._producer.init_transactions()  # also aborts the transaction of an earlier attempt
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release the clients; a transaction that is open is aborted."""
        if self._producer is not None:
            self._producer.close()
            self._producer = None
        self.admin.close()

    @property
    def producer(self) -> TransactionalProducer:
        """The producer that writes everything."""
        assert self._producer is not None, "use it in a with statement"
        return self._producer

    def check_group_is_empty(self) -> None:
        """Raises MembersLiveError, with the names of the instances that announce themselves."""
        try:
            run_steps(check_group_is_empty(self.admin, self.application_id))
        except MembersLiveError as error:
            seen = describe_instances(self.application_id, self.cluster, self.admin, self._clock)
            names = ", ".join(repr(one.entry.instance) for one in seen if one.is_alive)
            if not names:
                raise
            raise MembersLiveError(f"{text_of(error)}. Alive now: {names}") from error

    def never_ran(self) -> TopicError:
        """Return the error for an application that has no manifest."""
        return TopicError(
            f"application {self.application_id!r} has no manifest in"
            f" {cuts_topic(self.application_id)!r}: it never ran on these brokers, or was reset."
            " Is the application id right?"
        )

    def stored(self) -> tuple[Manifest, Mapping[bytes, bytes]]:
        """Return the manifest, and every record of the cuts topic.

        Raises RestoreError for a manifest that is damaged, or that lists topics of other
        applications as its own: an operation deletes and writes the topics that it lists.
        """
        partition = TopicPartition(cuts_topic(self.application_id), 0)
        records = self.logs.latest_values(partition)
        if MANIFEST_KEY not in records:
            raise self.never_ran()
        stored = decode_manifest(records[MANIFEST_KEY], self.application_id)
        check_topics_are_own(self.application_id, stored)
        return stored, records

    def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Committed]:
        """Return what the group has committed, once no open transaction can change it."""
        consumer = self.cluster.group_consumer(group_id=self.application_id, instance_id=None)
        deadline_ms = self._clock.monotonic_ms() + _PATIENCE_S * 1_000
        wanted = sorted(set(partitions))
        try:
            while True:
                try:
                    return consumer.committed(wanted, _ASK_S) if wanted else {}
                except RetriableError:
                    if self._clock.monotonic_ms() > deadline_ms:
                        raise
                self._sleep(_PAUSE_S)
        finally:
            consumer.close()

    def wait_until_decided(self, partition: TopicPartition) -> None:
        """Wait until no transaction is open in a log; a dead instance's ends with its timeout."""
        deadline_ms = self._clock.monotonic_ms() + _PATIENCE_S * 1_000
        while True:
            bounds = self.logs.bounds([partition])[partition]
            if bounds.stable_end >= bounds.end:
                return
            if self._clock.monotonic_ms() > deadline_ms:
                raise RetriableError(
                    f"a transaction has been open in {partition} at offset {bounds.stable_end} for"
                    f" {_PATIENCE_S:.0f} s: is a producer still running? Retry when it has ended"
                )
            self._sleep(_PAUSE_S)

    def ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the ends of logs to which no process writes."""
        return {tp: one.end for tp, one in self.logs.bounds(partitions).items()}

    def input_begins(
        self, partitions: Sequence[TopicPartition], begin: Begin
    ) -> dict[TopicPartition, int]:
        """Return where inputs begin that have no committed offset."""
        return run_steps(offsets_of_target(self.admin, list(partitions), begin))

    def in_transaction(self, write: Callable[[TransactionalProducer], None]) -> None:
        """Commit all that ``write`` produces, or nothing; raises if an instance has started."""

        def alone(producer: TransactionalProducer) -> None:
            write(producer)
            producer.flush()
            self.check_group_is_empty()

        self._committed_whole(alone)

    def append(self, records: Sequence[ProducedFields]) -> None:
        """Write records to new, unused topics, in a separate transaction."""

        def write(producer: TransactionalProducer) -> None:
            producer.produce(records)
            producer.flush()

        self._committed_whole(write)

    def _committed_whole(self, write: Callable[[TransactionalProducer], None]) -> None:
        producer = self.producer
        if producer.must_be_replaced():
            raise RetriableError(
                f"the end of a transaction of {offline_transactional_id(self.application_id)!r} was"
                " requested twice, or took long. A late copy of the request could commit the next"
                " transaction before it is complete, so nothing else is written. Check the load of"
                " the brokers and the network, and run the command again"
            )
        producer.begin()
        try:
            write(producer)
        except BaseException:
            with suppress(BrokerError):
                producer.abort()
            raise
        producer.commit()

    def write_manifest(self, manifest: Mapping[str, Any]) -> None:
        """Replace the manifest."""
        self.in_transaction(lambda producer: producer.produce([self.manifest_record(manifest)]))

    def manifest_record(self, manifest: Mapping[str, Any]) -> ProducedRecord:
        """Return a manifest as a record of the cuts topic."""
        value = msgspec.json.encode(manifest)
        return ProducedRecord(cuts_topic(self.application_id), 0, MANIFEST_KEY, value, 0)

    def send_offsets(self, offsets: Mapping[TopicPartition, tuple[int, str]]) -> None:
        """Add input offsets and their cuts to the open transaction, without a group member."""
        if not offsets:
            return
        consumer = self.cluster.group_consumer(group_id=self.application_id, instance_id=None)
        try:
            self.producer.send_offsets(offsets, consumer.group_metadata())
        finally:
            consumer.close()


def commits_of_tasks(
    number: int,
    sources: Sequence[str],
    partitions: int,
    committed: Mapping[TopicPartition, Committed],
    cut_records: Mapping[bytes, bytes],
    logged_as: Mapping[str, str],
) -> dict[TaskId, CommitOfTask]:
    """Return what each task of a sub-topology committed last; empty for a task without a commit."""
    found = {}
    for partition in range(partitions):
        task = TaskId(number, partition)
        offsets = {topic: committed.get(TopicPartition(topic, partition)) for topic in sources}
        known = {t: one for t, one in offsets.items() if one is not None and one.offset is not None}
        found[task] = _commit_of(known, cut_records.get(cut_key(task)), logged_as)
    return found


def names_of_logs(stored: Manifest) -> dict[str, str]:
    """Return store -> the name that its changelog uses, from a manifest."""
    return {name: entry.get("logged_as", name) for name, entry in stored["stores"].items()}


def _commit_of(
    offsets: Mapping[str, Committed], cut_record: bytes | None, logged_as: Mapping[str, str]
) -> CommitOfTask:
    commit = commit_of_task(offsets, cut_record)
    if commit.clocks:
        return commit
    # Kafka Streams wrote the last commit, or there is none.
    metadata = [
        decode_cut(one.metadata, committed_offset=one.offset or 0) for one in offsets.values()
    ]
    return commit._replace(clocks=clocks_of_streams(metadata, logged_as))
