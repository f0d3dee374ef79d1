"""A task in the state of its newest commit, and the records after it, in this process.

Everything is read from outside: no group is joined, nothing is produced, nothing is committed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from logstate.changelog.commit_of_task import CommitOfTask, commit_of_task
from logstate.changelog.cut import cut_key, decode_cut
from logstate.changelog.state import TaskState
from logstate.changelog.stores.kinds import kind_of
from logstate.cli.shared.stored_logs import Settings, Stored
from logstate.contracts.clients import Cluster, TopicDescription, run_steps
from logstate.contracts.clock import SystemClock
from logstate.contracts.compatibility import MigrationOptions
from logstate.contracts.errors import ConfigError
from logstate.contracts.records import FetchedRecord, TaskId, TopicPartition
from logstate.contracts.stores import StoreSpec
from logstate.kafka.group_offsets import committed_offsets
from logstate.kafka.log_reader import LogBounds, log_bounds, log_topics
from logstate.kafka.log_reader import read_partition as read_log
from logstate.queries.global_stores import GlobalStores
from logstate.restore.restore import logged_fields
from logstate.restore.restore_plan import clocks_under_new_names
from logstate.task.error_handlers import FAIL_ALWAYS, ErrorHandlers
from logstate.task.task import Task
from logstate.topics.bound_plan import BoundPlan, bind, external_topics
from logstate.topics.internal_topics import with_topics_of_patterns
from logstate.topics.upgrade import logged_as_stored
from logstate.topology.plan.plan import Topology

_BATCH = 1_000


class Failure(NamedTuple):
    """The record that failed."""

    record: FetchedRecord
    error: Exception
    #: store -> key -> value, for the record's key
    before: Mapping[str, Mapping[str, str]]
    after: Mapping[str, Mapping[str, str]]


class ReplayedTask:
    """One task, whose commits stay in memory.

    Raises ConfigError for a task that the topology does not have, TopicError for a topic that does
    not exist, RestoreError if a changelog cannot be read.
    """

    def __init__(
        self,
        settings: Settings,
        stored: Stored,
        topology: Topology,
        task_id: TaskId,
        cluster: Cluster,
        *,
        error_handlers: ErrorHandlers = FAIL_ALWAYS,
        renamed: Mapping[str, str] | None = None,
    ) -> None:
        self._settings = settings
        self.plan = _plan(settings, cluster, topology, stored, renamed or {})
        if task_id not in self.plan.task_ids():
            known = ", ".join(map(str, self.plan.task_ids()))
            raise ConfigError(f"--task {task_id} does not exist; the tasks are {known}")
        self.task_id = task_id
        self.inputs = self.plan.input_partitions(task_id)
        offsets = committed_offsets(settings, stored.application_id, self.inputs)
        by_topic = {tp.topic: one for tp, one in offsets.items()}
        self.commit = commit_of_task(by_topic, stored.cuts.get(cut_key(task_id)))
        times = {
            tp: decode_cut(one.metadata, committed_offset=one.offset or 0).partition_time_ms
            for tp, one in offsets.items()
        }
        self._clock = clock = SystemClock()
        globals_ = _global_stores(self.plan, cluster, error_handlers)
        sub_topology = self.plan.sub_topology(task_id)
        self.task = Task(
            task_id,
            [sub_topology],
            self.inputs,
            application_id=stored.application_id,
            clock=clock,
            open_state=lambda task: TaskState(sub_topology.stores, task, publishes_views=False),
            global_stores=globals_,
            partition_counts=self.plan.partition_counts,
            moved_topics=self.plan.moved_topics,
            max_idle_ms=None,
            error_handlers=error_handlers,
            initialises=False,
        )
        #: positions of records that a handler skipped or dead-lettered
        self.passed_over: list[str] = []
        #: declared stores without stored rows
        self.new_stores = [
            spec.name
            for spec in sub_topology.stores
            if self.plan.logged_as.get(spec.name, spec.name) not in _stored_names(stored)
        ]
        self._restore(self.commit)
        clocks = clocks_under_new_names(self.commit.clocks, self.plan.formerly)
        self.task.set_clocks(clocks, times)
        bounds = log_bounds(settings, self.inputs)
        self._bounds = bounds
        self.positions = {
            tp: max(self.commit.inputs.get(tp.topic, 0), bounds[tp].start) for tp in self.inputs
        }
        self.task.start_at(self.positions)

    def _restore(self, commit: CommitOfTask) -> None:
        for tp, spec in self.plan.changelogs(self.task_id).items():
            if spec.name in self.new_stores:
                continue
            end = commit.positions.get(tp.topic, 0)
            start = log_bounds(self._settings, [tp])[tp].start
            for batch in read_log(self._settings, tp, start=start, end=end, may_skip=True):
                writes = logged_fields(spec, batch)
                self.task.state.restore(spec.name, writes, (batch[-1].offset() or 0) + 1)

    def run(self, *, only: tuple[TopicPartition, int] | None = None) -> tuple[int, Failure | None]:
        """Process the following records, or one record; return the number processed and the
        failure.

        A record of each input is read ahead, and the task takes the oldest, as in production.
        Raises ConfigError for a record that is not in its partition.
        """
        if only is not None:
            _check_there(*only, self._bounds[only[0]])
        waiting = {tp: self._records(tp, only) for tp in self.inputs}
        heads: dict[TopicPartition, FetchedRecord] = {}
        count, was_read = 0, False
        while True:
            for tp, records in waiting.items():
                if tp not in heads:
                    found = next(records, None)
                    if found is None and only is not None and tp == only[0] and not was_read:
                        raise _no_record(*only)
                    if found is not None:
                        was_read = True
                        heads[tp] = found
                        self.task.add_records(tp, [found])
            if not heads:
                return count, None
            try:
                is_over = self._process_one()
            except Exception as error:  # noqa: BLE001  the failure to find
                return count, self._failed(error, heads)
            for tp in [tp for tp in heads if not self.task.buffered(tp)]:
                if not self._is_head(tp):
                    gone = heads.pop(tp)
                    if is_over:
                        self.passed_over.append(position_of(gone))
                    else:
                        count += 1
            self.task.committed(self.task.freeze(), {})
            self.task.state.apply()

    def _process_one(self) -> bool:
        """Process a record; return True if a handler skipped it. Waits for a handler that
        retries.
        """
        task = self.task
        before = task.skipped_total + task.dead_letters_total
        task.process(1)
        if task.blocked_until_ms > 0:
            time.sleep(max(0.0, task.blocked_until_ms - self._clock.monotonic_ms()) / 1_000)
        return task.skipped_total + task.dead_letters_total > before

    def _is_head(self, partition: TopicPartition) -> bool:
        return self.task.queues[partition].head is not None

    def _records(
        self, partition: TopicPartition, only: tuple[TopicPartition, int] | None
    ) -> Iterator[FetchedRecord]:
        start, end = self.positions[partition], self._bounds[partition].stable_end
        if only is not None:
            start, end = (only[1], only[1] + 1) if partition == only[0] else (end, end)
        for batch in read_log(self._settings, partition, start=start, end=end, may_skip=True):
            yield from batch

    def _failed(self, error: Exception, heads: Mapping[TopicPartition, FetchedRecord]) -> Failure:
        """Return the failure. The failed record is the one that is in no queue anymore."""
        where = TopicPartition(str(self.task.topic), self.task.partition)
        record = heads.get(where) or next(iter(heads.values()))
        after = self._rows(record.key())
        self.task.discard()
        return Failure(record, error, self._rows(record.key()), after)

    def _rows(self, raw: bytes | None) -> dict[str, dict[str, str]]:
        """Return the rows of all stores for a record's key, with all its windows."""
        if raw is None:
            return {}
        source, specs = self._key_of(raw), self.task.state.specs
        return {
            name: {
                repr(key): repr(value)
                for key, value, of in _rows_with_keys(specs[name], store)
                if source in (of, getattr(of, "key", None))
            }
            for name, store in self.task.state.stores.items()
            if hasattr(store, "all") and kind_of(specs[name]).key_layout.record_time_at is None
        }

    def _key_of(self, raw: bytes) -> Any:
        sources = self.plan.sub_topology(self.task_id).sources
        topic = str(self.task.topic)
        for source in sources:
            names = {self.plan.resolved(ref.name, ref.is_internal) for ref in source.topics}
            if topic in names:
                return source.key.deserializer(topic, True)(raw)
        return raw


def _rows_with_keys(spec: StoreSpec, store: Any) -> Iterator[tuple[Any, Any, Any]]:
    """Yield what rows begin with, their values, and their keys. A set's rows are its values."""
    kind = kind_of(spec)
    for key, value in store.all():
        if not kind.key_layout.has_element:
            yield key, value, key
        elif kind.element_name:
            yield key, value, key[0]
        else:
            yield (key, value), True, key


def _check_there(partition: TopicPartition, offset: int, bounds: LogBounds) -> None:
    if not bounds.start <= offset < bounds.stable_end:
        raise ConfigError(
            f"--offset {partition}@{offset} does not exist: the partition has the offsets from"
            f" {bounds.start} to {bounds.stable_end - 1}; earlier ones were deleted"
        )


def _no_record(partition: TopicPartition, offset: int) -> ConfigError:
    return ConfigError(
        f"--offset {partition}@{offset} does not exist: no committed record has this offset. It is"
        " the end of a transaction, a record of an aborted one, or compaction removed it."
        f" `logstate tail {partition.topic}` shows the existing offsets"
    )


def position_of(record: FetchedRecord) -> str:
    """Return the position of a record in the format of ``--offset``."""
    return f"{record.topic()}-{record.partition()}@{record.offset()}"


def _global_stores(
    plan: BoundPlan, cluster: Cluster, error_handlers: ErrorHandlers
) -> Mapping[str, Any]:
    found = GlobalStores(
        plan.application_id,
        plan.global_inputs(),
        cluster,
        SystemClock(),
        error_handlers=error_handlers,
    )
    if plan.topology.global_sub_topologies:
        admin = cluster.admin()
        run_steps(found.bootstrap(admin))
        admin.close()
    return found.stores


def _stored_names(stored: Stored) -> set[str]:
    """Return the names under which stores are logged."""
    return {str(one.get("logged_as", name)) for name, one in stored.manifest["stores"].items()}


def _plan(
    settings: Settings,
    cluster: Cluster,
    topology: Topology,
    stored: Stored,
    renamed: Mapping[str, str],
) -> BoundPlan:
    admin = cluster.admin()
    try:
        topology = run_steps(with_topics_of_patterns(admin, topology, stored.application_id))
    finally:
        admin.close()
    found: dict[str, Any] = log_topics(settings, external_topics(topology))
    existing = {name: TopicDescription(o.topic_id, o.partitions) for name, o in found.items()}
    plan = bind(topology, stored.application_id, existing)
    for old, new in renamed.items():
        known, declared = stored.manifest["stores"], topology.stores
        if old not in known or new not in declared:
            raise ConfigError(
                f"--renamed {old}={new}: the stored stores are {sorted(known)}, and the topology"
                f" has {sorted(declared)}. Write stored=declared"
            )
    return logged_as_stored(plan, stored.manifest, MigrationOptions(renamed))
