"""Fill a store from outside: write rows to its changelog in one transaction.

    1  check that the group has no members, and fence an earlier attempt that died
    2  return if this batch was written before
    3  in ONE transaction: write every row, a note that the batch was written, and the unchanged
       offsets of the store's tasks with cuts that contain the new ends of the changelog
    4  before it commits: check again that the group has no members

Either everything is written or nothing. If the process dies at any point, the next attempt, or the
brokers after the transaction timeout, abort the transaction. The next attempt then finds the note
or does not.

Rows replace rows of the same key. Only the store is filled: nothing is sent downstream of its
operator, and stores that are computed from it do not change.
"""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from logstate.admin.handover_of_tasks import NOTHING, position_of, task_handover
from logstate.admin.row_copies import NO_TIMESTAMP
from logstate.admin.stopped_application import (
    StoppedApplication,
    commits_of_tasks,
    names_of_logs,
)
from logstate.admin.store_rows import LoggedRow, Row, StoreRows
from logstate.changelog.commit_of_task import CommitOfTask
from logstate.changelog.cut import UNKNOWN_TIME_MS
from logstate.changelog.row_counts import without_counts
from logstate.contracts.changelog_keys import history_ms_of
from logstate.contracts.clients import Committed, TransactionalProducer
from logstate.contracts.errors import ConfigError, UpgradeError
from logstate.contracts.records import ProducedFields, ProducedRecord, TaskId, TopicPartition
from logstate.contracts.serde import Serde
from logstate.contracts.topic_names import cuts_topic
from logstate.topics.manifest_changes import Manifest

#: brokers allow fifteen minutes by default; the rows are encoded and written meanwhile
_TRANSACTION_TIMEOUT_MS: Final = 600_000
_BATCH = 10_000

#: by partition of the store
Clocks: TypeAlias = "Mapping[int, dict[str, int]]"


@dataclass(frozen=True)
class Backfilled:
    """The result of a backfill."""

    #: number of records written, deletions included
    rows: int
    #: number of rows left out because the store has expired their windows, or because they are
    #: versions that begin before its history; a put would ignore them, too
    expired: int = 0
    #: whether the batch was written before; then this call wrote nothing
    is_repeat: bool = False


def backfill(
    rows: Iterable[Row] | Any,
    *,
    application_id: str,
    store: str,
    bootstrap: str,
    batch_id: str | None = None,
    key: Serde[Any] | None = None,
    value: Serde[Any] | None = None,
    config: Mapping[str, Any] | None = None,
    on_step: Callable[[str], None] = lambda _: None,
) -> Backfilled:
    """Fill a store of a stopped application that has run before; all rows, or none.

    Args:
        rows: mappings with the columns that a reader of the store sees (``key``, ``value``; of
            windows ``window_start``, of sessions also ``window_end``, of versions ``valid_from``;
            ``_timestamp`` where the rows keep one), or a table or batches of pyarrow, to which
            Polars and DuckDB turn theirs by ``to_arrow()``. A null value deletes.
        application_id: the application's id.
        store: a key-value, window, session or versioned store.
        bootstrap: brokers, as ``host:port``.
        batch_id: a name for these rows. A batch of the same name is written only once, however
            often it is tried; without a name the rows are written each time.
        key: a serde, needed for key formats that only a serde can write (Avro, Protobuf).
        value: the same for values.
        config: settings of the Kafka clients, as for ``Application``.
        on_step: called with a description of each step before it begins.

    Raises MembersLiveError while an instance is running, ConfigError for an unsuitable store or
    unsuitable columns, SerdeError for a row that cannot be written, TopicError if the application
    never ran. In each case nothing was written.
    """
    with open_backfill(application_id, bootstrap, config) as application:
        filling = Filling(application, store, batch_id, key=key, value=value, on_step=on_step)
        if filling.was_written():
            return Backfilled(0, is_repeat=True)
        return filling.fill(filling.logged(_plain_rows(rows)))


def open_backfill(
    application_id: str, bootstrap: str, config: Mapping[str, Any] | None
) -> StoppedApplication:
    """Open the application, with the longest transactions that brokers allow by default."""
    return StoppedApplication.on_brokers(
        application_id,
        bootstrap,
        config,
        timeout_ms=_TRANSACTION_TIMEOUT_MS,
        reports_positions=True,
    )


class Filling:
    """One batch for one store."""

    def __init__(
        self,
        application: StoppedApplication,
        store: str,
        batch_id: str | None,
        *,
        key: Serde[Any] | None = None,
        value: Serde[Any] | None = None,
        on_step: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._application, self._on_step = application, on_step
        stored, self._cut_records = application.stored()
        _check_is_whole(stored)
        self._logged_as = names_of_logs(stored)
        self.entry = store_entry(stored, store)
        self.rows = StoreRows.of(store, self.entry, key=key, value=value)
        self._topic = str(self.entry["changelog_topic"])
        self._note = f"backfill:{store}:{batch_id or uuid.uuid4().hex}".encode()
        self._expired = 0

    def was_written(self) -> bool:
        """Whether the batch was written before."""
        return self._note in self._cut_records

    def logged(self, rows: Iterable[Row]) -> Iterator[LoggedRow]:
        """Return the changelog records of rows."""
        checked: frozenset[str] | None = None
        for row in rows:
            names = frozenset(row)
            if names != checked:
                self.rows.check_columns(set(names))
                checked = names
            yield from self.rows.logged(row)

    def fill(self, records: Iterable[LoggedRow]) -> Backfilled:
        """Write the records, and commit the tasks' offsets with cuts that include them."""
        self._on_step("read the commits")
        before = self._read_committed()
        clocks = {
            task.partition: without_counts(commit.clocks) for task, commit in before.commits.items()
        }
        count = 0

        def write(producer: TransactionalProducer) -> None:
            nonlocal count
            self._on_step("write the rows")
            for batch in self._batches(records, clocks):
                producer.produce(batch)
                count += len(batch)
            positions = producer.flush()
            self._on_step("hand over")
            # Check before our own offsets are pending: reading them would wait for our commit.
            self._check_is_as(before)
            self._hand_over(before, clocks, positions, count)
            self._on_step("commit")

        self._application.in_transaction(write)
        self._on_step("done")
        return Backfilled(count, self._expired)

    def _read_committed(self) -> _Committed:
        application, entry = self._application, self.entry
        partitions, sources = range(self.rows.partitions), entry["source_topics"]
        for partition in partitions:
            application.wait_until_decided(TopicPartition(self._topic, partition))
        inputs = [TopicPartition(topic, partition) for topic in sources for partition in partitions]
        committed = application.committed(inputs)
        commits = commits_of_tasks(
            entry["sub_topology"],
            sources,
            len(partitions),
            committed,
            self._cut_records,
            self._logged_as,
        )
        unread = [tp for tp in inputs if committed.get(tp, NOTHING).offset is None]
        return _Committed(committed, commits, application.input_begins(unread, "earliest"))

    def _check_is_as(self, before: _Committed) -> None:
        if self._application.committed(before.committed) != before.committed:
            raise UpgradeError(
                f"an instance of application {self._application.application_id!r} has run"
                " meanwhile. Stop every instance, and try again; nothing was written"
            )

    def _batches(
        self, records: Iterable[LoggedRow], clocks: Clocks
    ) -> Iterator[list[ProducedFields]]:
        batch: list[ProducedFields] = []
        if self.rows.kind.is_versioned:  # of one time the version counts, not an earlier end
            records = sorted(records, key=lambda one: (one.time_ms, one.value is not None))
        is_live = self._expiry_check(clocks)
        for record in records:
            if not is_live(record):
                self._expired += 1
                continue
            partition, key, value, time_ms = record
            stamp = time_ms if time_ms > 0 else NO_TIMESTAMP
            batch.append((self._topic, partition, key, value, stamp, None))
            if len(batch) >= _BATCH:
                yield batch
                batch = []
        if batch:
            yield batch

    def _expiry_check(self, clocks: Clocks) -> Callable[[LoggedRow], bool]:
        """Return a check whether a row is new enough for the store; it advances the stream time.

        The stream time advances as with a put, because reads of versions as of a time are limited
        by it.
        """
        name, kind = f"store:{self.rows.name}", self.rows.kind
        if kind.is_versioned:
            oldest: int | None = -(history_ms_of(self.entry) or 0)
        elif kind.is_segmented:
            oldest = kind.oldest_shown(self.entry)
        else:
            return lambda _: True

        def is_live(record: LoggedRow) -> bool:
            of_task, row_ms = clocks[record.partition], record.time_ms
            if kind.is_segmented:
                row_ms = kind.key_layout.expiry_time(record.key)
            clock_ms = max(of_task.get(name, UNKNOWN_TIME_MS), row_ms)
            # Also a version: a restore would skip it, and it would never be visible.
            if oldest is not None and row_ms < clock_ms + oldest:
                return False
            of_task[name] = clock_ms
            return True

        return is_live

    def _hand_over(
        self,
        before: _Committed,
        clocks: Clocks,
        positions: Mapping[TopicPartition, int],
        count: int,
    ) -> None:
        application, sources = self._application, self.entry["source_topics"]
        described = application.admin.describe_topics(sorted(sources))
        ids = {name: one.topic_id for name, one in described.items()}
        offsets: dict[TopicPartition, tuple[int, str]] = {}
        records = [self._note_record(count)]
        for task, commit in before.commits.items():
            logs = {t: at for t, at in commit.positions.items() if t not in sources}
            reached = positions.get(TopicPartition(self._topic, task.partition))
            handed = task_handover(
                application.application_id,
                task,
                {t: before.position(TopicPartition(t, task.partition)) for t in sources},
                positions=logs if reached is None else {**logs, self._topic: reached},
                clocks=clocks[task.partition],
                topic_ids={**ids, **commit.topic_ids},
                begins=commit.begins,
                logged_as=self._logged_as,
            )
            offsets.update(handed.offsets)
            records += handed.records
        application.producer.produce(records)
        application.producer.flush()
        application.send_offsets(offsets)

    def _note_record(self, count: int) -> ProducedRecord:
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        note = msgspec.json.encode({"rows": count, "written_at": now})
        topic = cuts_topic(self._application.application_id)
        return ProducedRecord(topic, 0, self._note, note, 0)


class _Committed(NamedTuple):
    """What the tasks of the store have committed."""

    committed: Mapping[TopicPartition, Committed]
    commits: Mapping[TaskId, CommitOfTask]
    #: of inputs that were never read
    begins: Mapping[TopicPartition, int]

    def position(self, partition: TopicPartition) -> tuple[int, int]:
        """Return the next offset of an input, and the largest event time seen in it."""
        return position_of(partition, self.committed, self.begins)


def store_entry(stored: Manifest, store: str) -> Mapping[str, Any]:
    """Return a store's entry of a manifest. Raises ConfigError if there is none."""
    if store not in stored["stores"]:
        raise ConfigError(
            f"application {stored['application_id']!r} has no store {store!r}; it has"
            f" {', '.join(sorted(stored['stores'])) or 'none'}"
        )
    entry: Mapping[str, Any] = stored["stores"][store]
    return entry


def _check_is_whole(stored: Manifest) -> None:
    for mark, doing in (("reset_since", "reset"), ("resharding_since", "moved")):
        if mark in stored:
            raise UpgradeError(
                f"application {stored['application_id']!r} is being {doing} since {stored[mark]},"
                " or that was interrupted: end it first. Nothing was written"
            )


def _plain_rows(rows: Any) -> Iterator[Row]:
    """Return rows as mappings. Arrow tables and batches are read batch by batch."""
    for one in rows.to_batches() if hasattr(rows, "to_batches") else rows:
        if hasattr(one, "to_pylist"):
            yield from one.to_pylist()
        else:
            yield one
