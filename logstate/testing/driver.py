"""TopologyTestDriver: the real task code, one partition, no broker, no threads, manual clocks.

The driver runs every sub-topology of a topology in one :class:`logstate.task.task.Task` and acts
as the broker: records that the task sends to a topic that it also reads come back as input, all
others are kept as output. A commit follows each record, so every update is visible at once, as in
Kafka Streams' test driver with its caches off. Windows that a record closed, and unmatched rows of
outer joins, are emitted at once too, unless the driver or, otherwise, the builder has an emit
interval.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeVar, overload

from logstate.changelog.directory import state_root, usable_directory
from logstate.changelog.rows.writes import LoggedFields
from logstate.contracts.clock import ManualClock
from logstate.contracts.compatibility import MigrationOptions
from logstate.contracts.drops import Dropped, DropReason
from logstate.contracts.errors import RefusedError
from logstate.contracts.processing import EmitIntervals, IdleTime, Traces
from logstate.contracts.record_parts import headers_of, timestamp_of
from logstate.contracts.records import Headers, ProducedFields, ProducedRecord, TopicPartition
from logstate.contracts.topic_names import changelog_topic
from logstate.contracts.typed_stores import StoreDeclaration, name_of
from logstate.task.error_handlers import FAIL_ALWAYS, ErrorHandlers
from logstate.task.task import Task
from logstate.testing.driver_file import DriverFile, check_closed
from logstate.testing.driver_log import DriverLog
from logstate.testing.driver_settings import check_driver_settings, moved_ms
from logstate.testing.driver_sources import RecordEncoder, parts_of, source_serdes
from logstate.testing.driver_tasks import DriverTasks, driver_store, follow
from logstate.testing.driver_topics import DriverTopics
from logstate.testing.fake.fetched import StoredRecord
from logstate.testing.processor_bench import TestContext
from logstate.testing.recovery_point import RecoveryPoint, decide_alone
from logstate.topology.plan.pattern_topics import with_matching_topics
from logstate.topology.plan.plan import Topology

S = TypeVar("S")


class TopologyTestDriver(DriverTopics):
    """Run a topology synchronously on test records.

    Args:
        topology: the result of ``StreamsBuilder.build()``.
        application_id: prefix of internal topics.
        wall_clock_start_ms: initial time of the manual wall clock.
        changelog_writes: ``"update"`` logs every write, ``"commit"`` the last per key and commit.
        state_dir: keep persistent stores in RocksDB below this directory; None: in memory. A driver
            continues with the state that the previous one left there when it was closed.
        renamed, forget: like those of the Application, if the topology changed.
        error_handlers: like those of the Application; a retry waits for the manual clock.
        commit_every, apply_every: commit after so many records, apply after so many commits.
        window_emit_interval, outer_join_emit_interval: like those of the Application, by the manual
            clock; no interval if neither the driver nor the builder has one.
        trace_ratio: like that of the Application; spans go to the global tracer provider.
        topics: existing topics, for streams that are read by a pattern; or partition counts of
            topics by name, for partitioners. By default, a repartition topic has the count of
            ``repartition(partitions=)``, and all others 1.

    Raises ConfigError for invalid settings, StateDirectoryError for an unusable ``state_dir``,
    TopicError for a source or an output that is an internal topic, and the errors of the topology;
    a failed driver should be closed. Raises UpgradeError if the topology does not fit what another
    driver left in ``state_dir``, like a start of the Application.

    >>> from logstate.topology import StreamsBuilder
    >>> builder = StreamsBuilder()
    >>> clicks = builder.stream("clicks", key=str, value=str)
    >>> clicks.map_values(str.upper, value=str).to("shouts")
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.pipe("clicks", "ada", "home", timestamp=5)
    ...     driver.read("shouts", key=str, value=str)
    [('ada', 'HOME')]
    """

    _is_closed = False
    #: half a record may be processed: only the last commit is valid
    _has_failed = False

    def __init__(
        self,
        topology: Topology,
        *,
        application_id: str = "app",
        wall_clock_start_ms: int = 0,
        changelog_writes: Literal["update", "commit"] = "update",
        state_dir: str | Path | None = None,
        commit_every: int = 1,
        apply_every: int = 1,
        error_handlers: ErrorHandlers | None = None,
        topics: Iterable[str] | Mapping[str, int] = (),
        renamed: Mapping[str, str] | None = None,
        forget: Collection[str] = (),
        window_emit_interval: timedelta | None = None,
        outer_join_emit_interval: timedelta | None = None,
        trace_ratio: float | None = None,
    ) -> None:
        decisions = MigrationOptions({} if renamed is None else renamed, forget)
        handlers = FAIL_ALWAYS if error_handlers is None else error_handlers
        check_driver_settings(
            topology,
            decisions,
            application_id=application_id,
            wall_clock_start_ms=wall_clock_start_ms,
            changelog_writes=changelog_writes,
            state_dir=state_dir,
            commit_every=commit_every,
            apply_every=apply_every,
            error_handlers=handlers,
            topics=topics,
            emit_intervals=(window_emit_interval, outer_join_emit_interval),
            trace_ratio=trace_ratio,
        )
        self.topology = topology = with_matching_topics(topology, topics)
        self.clock = ManualClock(wall_clock_start_ms)
        self._dead_letter_topic = handlers.dead_letter_topic
        self._application_id = application_id
        self._state_dir = usable_directory(state_root(state_dir)) if state_dir is not None else None
        self._application_context = TestContext(application_id, self._state_dir)
        self._tasks = DriverTasks(
            topology,
            application_id,
            self.clock,
            self._state_dir,
            logs_every_write=changelog_writes == "update",
            error_handlers=handlers,
            emit_intervals=EmitIntervals.of(
                window_emit_interval, outer_join_emit_interval, default_ms=0
            ),
            partition_counts=topics if isinstance(topics, Mapping) else {},
            application_context=self._application_context.application,
            traces=_traces(application_id, trace_ratio),
        )
        self._commit_every = commit_every
        self._apply_every = apply_every
        self._since_commit = self._since_apply = 0
        #: monotonic time of the last processed record, or of the start
        self._idle_since_ms = self.clock.monotonic_ms()
        self._log = DriverLog()
        left = DriverFile.read(self._state_dir)
        if left is not None:
            left = left.upgraded(topology, application_id, decisions)
            left.fill(self._log)
        self._open_globals()
        self.task = self._new_task(initialises=False)
        self._restore_state(left)
        self._recovery = RecoveryPoint.of(self.task, self._log)

    # ------------------------------------------------------------------ input

    def pipe(
        self, topic: str, key: Any, value: Any, *, timestamp: int = 0, headers: Headers = None
    ) -> None:
        """Pipe one record; key and value are encoded with the source's own serdes.

        Raises ValueError for a topic that no source reads, SerdeError for a key or value that does
        not fit the declared type, RuntimeError after the driver was closed.
        """
        encoded = RecordEncoder(topic, *source_serdes(self.topology, self._application_id, topic))
        raw_key, raw_value, written = encoded(key, value, headers)
        self.pipe_raw(topic, raw_key, raw_value, timestamp, written)

    def pipe_all(self, topic: str, records: Iterable[tuple[Any, Any, int]]) -> None:
        """Pipe ``(key, value, timestamp)`` triples in order; raise TypeError for other items."""
        for one in records:
            whose = f"pipe_all() of {topic!r}"
            key, value, timestamp = parts_of(one, 3, whose, "(key, value, timestamp) triples")
            self.pipe(topic, key, value, timestamp=timestamp)

    def pipe_raw(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        headers: Headers = None,
    ) -> None:
        """Pipe one record as bytes and process it with all records that follow from it."""
        self._check_open("pipe")
        if topic not in self._global_by_topic and topic not in self.task.source_topics:
            source_serdes(self.topology, self._application_id, topic)  # raises for unread topics
        timestamp, headers = timestamp_of(timestamp, "pipe got"), headers_of(headers, "pipe got")
        self._recovery.inputs.append(ProducedRecord(topic, 0, key, value, timestamp, headers))
        self._deliver(topic, key, value, timestamp, headers)
        self._run_until_idle()

    def advance_wall_clock(self, by: timedelta | int) -> None:
        """Advance the wall clock (a timedelta, or milliseconds) and run due punctuations once.

        Inputs are idle while nothing is piped: windows with ``close_on_idle`` close here, too.

        Raises ValueError for a step back, TypeError for other values, RuntimeError after the
        driver was closed.
        """
        self._check_open("advance_wall_clock")
        self.clock.advance(moved_ms(by, "the wall clock"))
        for task in self._globals:  # retries of their handlers
            follow(task)
        self.task.punctuate("wall_clock")
        self._commit()
        self._run_until_idle()
        idle = IdleTime(self._idle_since_ms, self.clock.monotonic_ms())
        if self.task.blocked_until_ms == 0 and self.task.idle_ticks.is_due(idle):
            self.task.tick(idle)
            self._commit()
            self._run_until_idle()

    # ------------------------------------------------------------------ output and state

    @property
    def outputs(self) -> list[ProducedRecord]:
        """Records of all output topics in order, since the last ``take_outputs``."""
        return self._log.outputs

    def take_outputs(self) -> list[ProducedRecord]:
        """Return ``outputs`` and start a new list."""
        return self._log.take()

    @property
    def produced_topics(self) -> set[str]:
        """Return every topic that was written to, repartition and changelog topics included."""
        return self._log.produced_topics

    @overload
    def store(self, name: StoreDeclaration[S]) -> S: ...
    @overload
    def store(self, name: str) -> Any: ...
    def store(self, name: str | StoreDeclaration[Any]) -> Any:
        """Return a store by name or declaration, global stores included.

        Raises StoreUnavailableError for a name that the topology does not have; methods that this
        kind of store does not have raise StoreError.
        """
        return driver_store(self.topology, self.task, name_of(name))

    def metrics(self) -> dict[str, Any]:
        """Return what processors measured, like ``Application.metrics``."""
        return self._application_context.metrics.snapshot()

    def changelog(self, topic: str) -> list[ProducedRecord]:
        """Return all records of a changelog topic; ``timestamp`` is -1 if a record had none."""
        return self._log.changelogs.get(topic, [])

    @property
    def changelogs(self) -> dict[str, list[ProducedRecord]]:
        """Changelog topic -> records."""
        return self._log.changelogs

    @property
    def internal(self) -> dict[str, list[ProducedRecord]]:
        """Repartition or foreign-key topic -> records."""
        return self._log.internal

    @property
    def dropped_total(self) -> int:
        """Records dropped so far, those of global stores included, as Kafka Streams counts them.

        That includes records that an error handler skipped or sent to the dead letter topic, and
        excludes records without a key before a repartition topic. The metric
        ``dropped_records_total`` excludes the former and includes the latter.
        """
        dropped = sum(d.count for d in self.dropped if d.reason is not DropReason.NULL_GROUP_KEY)
        return dropped + self.skipped_total + self.task.dead_letters_total

    @property
    def skipped_total(self) -> int:
        """Records, and scheduled calls, that an error handler skipped so far."""
        return sum(task.skipped_total for task in (self.task, *self._globals))

    @property
    def dropped(self) -> list[Dropped]:
        """Dropped records so far, by node and reason, and how late they were."""
        return [one for task in (self.task, *self._globals) for one in task.drops if one.count]

    def close(self) -> None:
        """Commit, leave the state to the next driver on ``state_dir``, and close everything.

        Outputs can still be read; nothing more can be piped.
        """
        if self._state_dir is not None and not self._is_closed:
            self._write_state()
        self._is_closed = True
        for task in (self.task, *self._globals):
            task.close()
        self._application_context.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        self.close()

    # ------------------------------------------------------------------ crashes

    def crash(self, *, loses_disk: bool = False) -> None:
        """Kill the task between two records and recover it, like a restart after SIGKILL.

        Uncommitted results are dropped and their inputs are processed again. Stores are recovered
        from ``state_dir`` as far as they were applied, and from their changelogs beyond that; with
        ``loses_disk`` (or without a ``state_dir``) from the changelogs alone. Clocks come from the
        last commit. Processors are created again, without closing the old ones.

        Global stores return to the commit too and follow as they did before, so the crash has no
        visible effect. On a cluster their time is independent of a task: inputs that are processed
        again may meet newer rows there.

        Raises ValueError if outputs were read that are not committed, RuntimeError after the
        driver was closed.
        """
        self._check_open("crash")
        point = self._recovery
        self._log.rollback(point.log)
        for task in (self.task, *self._globals):
            task.state.close()
        if loses_disk and self._state_dir is not None:
            shutil.rmtree(self._state_dir, ignore_errors=True)
        self._open_globals()
        self.task = self._new_task(initialises=False)
        point.restore(self.task, self.topology, self._log)
        self._since_commit = 0
        self._idle_since_ms = self.clock.monotonic_ms()
        self._recovery = replace(point, inputs=[])
        self._run_until_idle()  # finish what an event had caused when the commit came
        for record in point.inputs:
            self.pipe_raw(record.topic, record.key, record.value, record.timestamp, record.headers)

    # ------------------------------------------------------------------ one driver after another

    def _restore_state(self, left: DriverFile | None) -> None:
        try:
            if left is None:
                check_closed(self.task, {})
                self.task.initialise()
            else:
                left.restore(self.task, self.topology, self._log)
                self.clock.advance(max(0, left.wall_clock - self.clock.wall_clock_ms()))
            self._run_until_idle()
        except BaseException:
            self.task.close()
            raise

    def _write_state(self) -> None:
        assert self._state_dir is not None
        if not self._has_failed:
            self._commit()
            self.task.state.apply()
        now = self.clock.wall_clock_ms()
        left = DriverFile.of(self.topology, self.task, self._log, self._recovery, now)
        left.write(self._state_dir)

    def _check_open(self, what: str) -> None:
        if self._is_closed:
            raise RuntimeError(
                f"{what}() of a test driver that was closed: its task has ended, and nothing would"
                " process it. Call it before close(), or inside the with-statement; outputs"
                " can still be read"
            )

    # ------------------------------------------------------------------ the broker's part

    def _deliver(
        self, topic: str, key: bytes | None, value: bytes | None, timestamp: int, headers: Headers
    ) -> bool:
        """Deliver a record to the tasks that read the topic; return False if there are none."""
        task = self._global_by_topic.get(topic, self.task)
        if topic not in task.source_topics:
            return False
        offset = self._log.next_offsets[topic]
        self._log.next_offsets[topic] = offset + 1
        self._log.inputs[topic].append(ProducedRecord(topic, 0, key, value, timestamp, headers))
        record = StoredRecord(topic, 0, offset, key, value, timestamp, headers)
        task.add_records(TopicPartition(topic, 0), [record])
        if task is not self.task:
            follow(task)
        return True

    def _run_until_idle(self) -> None:
        try:
            while self.task.process(1):
                self._idle_since_ms = self.clock.monotonic_ms()
                self._since_commit += 1
                if self._since_commit >= self._commit_every:
                    self._commit()
                self._route_outputs()
            self._route_outputs()
        except BaseException:
            self._has_failed = True
            raise

    def _commit(self) -> None:
        count, self._since_commit = self._since_commit, 0
        try:
            commit = self.task.freeze()
        except RefusedError as exc:
            self._replay_apart(exc, count)
            return
        self._route(commit.outputs)
        positions = {}
        for store, writes in commit.changes.writes.items():
            if self.topology.stores[store].is_logged:
                positions[store] = self._append_changes(store, writes)
        self.task.committed(commit, positions)
        self._since_apply += 1
        if self._since_apply >= self._apply_every or self.task.state.applies_always:
            self._since_apply = 0
            self.task.state.apply()
        self._recovery = RecoveryPoint.of(self.task, self._log, commit)

    def _replay_apart(self, refused: RefusedError, count: int) -> None:
        """Find the record of a refused result like a worker: commit each one separately."""
        decide_alone(self.task, refused, count)
        point, commit_every = self._recovery, self._commit_every
        point.go_back(self.task, self.topology, self._log)
        self._recovery = replace(point, inputs=[])
        self._commit_every = 1
        self._run_until_idle()
        for one in point.inputs:
            self.pipe_raw(one.topic, one.key, one.value, one.timestamp, one.headers)
        self._commit_every = commit_every

    def _append_changes(self, store: str, writes: list[LoggedFields]) -> int:
        """Append a store's writes to its changelog; return the changelog's end."""
        source_topic = self.topology.stores[store].source_topic
        if source_topic is not None:
            return self.task.consumed.get(TopicPartition(source_topic, 0), 0)
        topic = changelog_topic(self._application_id, store)
        return self._log.log(topic, writes) if writes else len(self.changelog(topic))

    def _route_outputs(self) -> None:
        outputs, self.task.outputs[:] = self.task.outputs.copy(), []
        self._route(outputs)

    def _route(self, records: Iterable[ProducedFields]) -> None:
        for record in map(ProducedRecord._make, records):
            topic = record.topic
            is_read = self._deliver(
                topic, record.key, record.value, record.timestamp, record.headers
            )
            is_internal = is_read and topic.startswith(self._application_id + "-")
            self._log.add(record, is_internal=is_internal)

    # ------------------------------------------------------------------ construction

    def _open_globals(self) -> None:
        """Create the tasks of the global stores, and let them read the records piped so far."""
        self._globals = self._tasks.new_globals(self._log)
        self._global_by_topic = {t: task for task in self._globals for t in task.source_topics}

    def _new_task(self, *, initialises: bool) -> Task:
        return self._tasks.new_task(self._globals, initialises=initialises)


def _traces(application_id: str, ratio: float | None) -> Traces | None:
    if ratio is None:
        return None
    from logstate.metrics.opentelemetry import RecordTraces

    return RecordTraces(application_id, ratio)
