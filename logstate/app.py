"""The Application: what a service holds.

It validates the configuration, opens the state directory, runs one worker in a thread (``start``)
or in the caller's (``run``), and answers queries. It installs no signal handlers and configures no
logging unless ``run`` is told to.
"""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from logstate.app_settings import check_settings
from logstate.changelog.directory import StateDirectory
from logstate.changelog.state import TaskState
from logstate.changelog.task_state import open_task_state
from logstate.contracts.clock import Clock, SystemClock
from logstate.contracts.errors import LogstateError, StoreUnavailableError
from logstate.contracts.seams import Cluster, run_steps
from logstate.contracts.topic_names import static_member_id, transactional_id
from logstate.contracts.worker_config import (
    CHECKPOINT_BYTES,
    ChangelogWrites,
    Guarantee,
    WorkerConfig,
)
from logstate.kafka.redaction import redacted, redacted_text
from logstate.metrics.instruments import Metrics
from logstate.queries.global_stores import GlobalStores
from logstate.queries.queries import GlobalQueryableStore, QueryableStore, unless_ended
from logstate.restore.restore import RestoreListener
from logstate.task.error_handlers import FAIL_ALWAYS, ErrorHandlers
from logstate.task.owned_task import OwnedTask, Stage
from logstate.task.task import Task
from logstate.topics.bound_plan import BoundPlan
from logstate.topology.plan.plan import Topology
from logstate.worker.collector_pace import collector_pace
from logstate.worker.worker import Worker
from logstate.worker.worker_observer import WorkerObserver

_LOGGER = logging.getLogger(__name__)
_MS = timedelta(milliseconds=1)


class Application:
    """One instance of a stream processing application.

    Instances with the same ``application_id`` share the work: each owns some partitions and keeps
    their state locally. Starting or stopping one moves partitions; state follows by replay.

    Args:
        topology: what ``StreamsBuilder.build()`` returned.
        application_id: consumer group, and prefix of internal topics and transactional ids.
        bootstrap: ``host:port,...`` of the brokers.
        state_dir: directory for local state, one per instance; kept between runs it saves replays.
        guarantee: ``"exactly_once"`` (outputs become visible with the commit) or
            ``"at_least_once"`` (outputs visible at once, repeated after a crash). State is
            exactly-once in both.
        commit_interval: how often to commit; the latency of exactly-once outputs.
        kafka: further librdkafka settings, for example ``security.protocol`` and ``sasl.*``.
            Settings the library owns are refused. Secrets are never shown or logged.
        offset_reset: where a source without an ``offset_reset`` of its own begins when nothing is
            committed: ``"earliest"``, ``"latest"``, ``"none"`` or a timedelta back from now.
        replication_factor: of internal topics; -1 is the brokers' default.
        topic_config: further configuration of internal topics.
        checkpoint_interval: how long committed rows may wait before RocksDB takes them over.
        checkpoint_bytes: how many bytes of committed rows (keys and values, every commit counted)
            may wait per task. Both bound what a restart replays after a crash.
        changelog_writes: ``"commit"`` logs a row once per commit, ``"update"`` every write.
        group_protocol: ``"consumer"`` (KIP-848) or ``"classic"`` for brokers before 4.0.
        static_membership: keep partitions over a restart within the session time-out (KIP-345).
        slot: tells instances apart that share one ``state_dir``.
        error_handlers: what to do with records that do not decode, cannot be processed, or whose
            results cannot be produced; by default the application stops before them.
        restore_listener: told about the progress of restores, in the worker's thread.

    Raises:
        ConfigError: with every problem of the configuration at once.
        StateDirectoryError: the directory is not writable, or another process uses it.
    """

    _thread: threading.Thread | None = None
    _failure: BaseException | None = None
    #: what stopped the worker, for whoever asks afterwards
    _stopped_by: str | None = None
    _has_begun = False
    _is_finished = False

    def __init__(
        self,
        topology: Topology,
        *,
        application_id: str,
        bootstrap: str,
        state_dir: str | Path,
        guarantee: Guarantee = "exactly_once",
        commit_interval: timedelta = timedelta(milliseconds=100),
        kafka: Mapping[str, Any] | None = None,
        offset_reset: str | timedelta = "earliest",
        replication_factor: int = -1,
        topic_config: Mapping[str, str] | None = None,
        checkpoint_interval: timedelta = timedelta(seconds=10),
        checkpoint_bytes: int = CHECKPOINT_BYTES,
        changelog_writes: ChangelogWrites = "commit",
        group_protocol: Literal["consumer", "classic"] = "consumer",
        static_membership: bool = False,
        slot: int = 0,
        restore_listener: RestoreListener | None = None,
        error_handlers: ErrorHandlers | None = None,
        cluster: Cluster | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._kafka = dict(kafka or {})
        check_settings(
            topology,
            bootstrap=bootstrap,
            guarantee=guarantee,
            commit_interval=commit_interval,
            checkpoint_interval=checkpoint_interval,
            checkpoint_bytes=checkpoint_bytes,
            offset_reset=offset_reset,
            changelog_writes=changelog_writes,
            group_protocol=group_protocol,
            kafka=self._kafka,
        )
        self.topology, self.application_id, self.bootstrap = topology, application_id, bootstrap
        self._clock = clock or SystemClock()
        self._cluster = cluster or self._kafka_cluster(group_protocol)
        self._directory = StateDirectory(state_dir, application_id, slot=slot)
        self._observer = WorkerObserver(monotonic_ms=self._clock.monotonic_ms)
        identity, handlers = self._directory.instance_id, error_handlers or FAIL_ALWAYS
        self._config = WorkerConfig(
            application_id=application_id,
            transactional_id=transactional_id(application_id, identity, slot),
            instance_id=static_member_id(application_id, identity) if static_membership else None,
            guarantee=guarantee,
            changelog_writes=changelog_writes,
            commit_interval_ms=commit_interval // _MS,
            checkpoint_interval_ms=checkpoint_interval // _MS,
            checkpoint_bytes=checkpoint_bytes,
            replication_factor=replication_factor,
            topic_config=dict(topic_config or {}),
            offset_reset=offset_reset,
            passes_over_refused=handlers.decides_on_results,
            dead_letter_topic=handlers.dead_letter_topic,
        )
        self._error_handlers = handlers
        self._worker = self._new_worker(restore_listener)

    @property
    def transactional_id(self) -> str:
        """Of this instance's producer; the same at every start with this ``state_dir``."""
        return self._config.transactional_id

    def __repr__(self) -> str:
        return (
            f"Application({self.application_id!r}, bootstrap={self.bootstrap!r},"
            f" kafka={redacted(self._kafka)!r})"
        )

    # ------------------------------------------------------------------ running

    def run(self, *, handle_signals: bool = True) -> None:
        """Run in this thread until ``stop`` or, with ``handle_signals``, SIGTERM or SIGINT.

        Everything processed is committed before it returns. Raises what stopped the worker.
        """
        self._begin()
        previous: dict[signal.Signals, Any] = {}
        if handle_signals and threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                previous[number] = signal.signal(number, lambda *_: self.stop())
        try:
            self._run_worker()
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)
        self._raise_failure()

    def start(self, *, timeout: timedelta = timedelta(seconds=60)) -> Self:
        """Run in a thread of its own; returns when the group was joined.

        Raises what made the start fail: unreachable brokers, missing topics, wrong counts; or
        TimeoutError, and the application stops, if it takes longer than ``timeout``.
        """
        self._begin()
        self._thread = threading.Thread(
            target=self._run_worker, name=f"logstate-{self.application_id}", daemon=True
        )
        self._thread.start()
        with self._observer.changed:
            is_decided = self._observer.changed.wait_for(
                lambda: self._observer.is_started or self._is_finished, timeout.total_seconds()
            )
        if self._is_finished:
            self._thread.join()
        self._raise_failure()
        if not is_decided:
            self.stop()
            raise TimeoutError(f"the application did not start within {timeout}; it is stopped")
        return self

    def wait_until_running(self, timeout: timedelta = timedelta(seconds=60)) -> None:
        """Wait until at least one task runs and none is being restored.

        Raises TimeoutError, what stopped the worker meanwhile, or LogstateError where it ended.
        """

        def is_running() -> bool:
            tasks = self._observer.tasks.values()
            return self._is_finished or (
                bool(tasks) and all(o.stage is Stage.RUNNING for o in tasks)
            )

        with self._observer.changed:
            reached = self._observer.changed.wait_for(is_running, timeout.total_seconds())
        self._raise_failure()
        if self._is_finished:
            raise LogstateError(f"application {self.application_id!r} has ended; nothing runs")
        if not reached:
            stages = {str(t): o.stage.value for t, o in self._observer.tasks.items()}
            raise TimeoutError(f"not running after {timeout}: tasks are {stages or 'not assigned'}")

    def stop(self) -> None:
        """Ask the worker to finish; safe in signal handlers and from any thread."""
        self._worker.stop()

    def close(self, *, timeout: timedelta = timedelta(seconds=60)) -> None:
        """Stop, commit everything processed, leave the group, release the state directory.

        Raises what stopped the worker, unless ``start`` or ``run`` raised it already; TimeoutError
        if it does not end in time.
        """
        self.stop()
        if self._thread is not None:
            self._thread.join(timeout.total_seconds())
            if self._thread.is_alive():
                raise TimeoutError(f"the worker did not end within {timeout}")
        self._has_begun = True  # too late for a start
        self._directory.close()
        self._raise_failure()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        try:
            self.close()
        except Exception as failure:
            if exc is None:
                raise
            exc.add_note(f"and closing the application failed: {failure}")

    @property
    def is_alive(self) -> bool:
        """True until the worker ended or failed."""
        return not self._is_finished

    # ------------------------------------------------------------------ looking inside

    def store(self, name: str) -> QueryableStore:
        """A store for reading committed local state from any thread; global ones too."""
        spec = self.topology.global_stores.get(name)
        if spec is not None:
            globals_ = self.topology.global_sub_topologies
            number = next(s.id for s in globals_ if spec in s.stores)
            return GlobalQueryableStore(
                spec,
                self.application_id,
                number,
                unless_ended(name, self._why_ended, lambda: self._worker.global_stores),
            )
        spec = self.topology.stores.get(name)
        if spec is None:
            known = sorted((*self.topology.stores, *self.topology.global_stores))
            raise StoreUnavailableError(f"there is no store {name!r}; the topology has {known}")
        sub_topology = next(s for s in self.topology.sub_topologies if spec in s.stores)
        return QueryableStore(
            spec,
            self.application_id,
            unless_ended(name, self._why_ended, lambda: self._observer.tasks),
            sub_topology.id,
            unless_ended(name, self._why_ended, lambda: self._worker.task_count(sub_topology)),
            self._cluster.partition_for,
        )

    def metrics(self) -> dict[str, Any]:
        """A snapshot of all figures (see logstate.metrics.catalogue)."""
        return self._observer.metrics.snapshot()

    @property
    def metrics_registry(self) -> Metrics:
        """The live instruments, for the Prometheus and OpenTelemetry exporters."""
        return self._observer.metrics

    def tasks(self) -> dict[str, str]:
        """Task id -> stage, for health checks."""
        return {str(t): o.stage.value for t, o in self._observer.tasks.items()}

    # ------------------------------------------------------------------ pieces

    def _begin(self) -> None:
        if self._has_begun:
            raise LogstateError(
                f"application {self.application_id!r} was started already; an Application runs"
                " once: make a new one"
            )
        self._has_begun = True

    def _why_ended(self) -> str | None:
        if not self._is_finished:
            return None
        why = "it was stopped" if self._stopped_by is None else f"it failed: {self._stopped_by}"
        return f"application {self.application_id!r} has ended, because {why}"

    def _raise_failure(self) -> None:
        """Raise what stopped the worker, once."""
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _run_worker(self) -> None:
        try:
            with collector_pace.rare():
                run_steps(self._worker.run())
        except BaseException as exc:  # noqa: BLE001  kept, and raised in the caller's thread
            self._failure = exc
            text = self._stopped_by = redacted_text(str(exc), self._kafka)
            _LOGGER.error("application %s stopped: %s", self.application_id, text)
        finally:
            self._is_finished = True
            self._directory.close()
            with self._observer.changed:
                self._observer.changed.notify_all()

    def _new_worker(self, restore_listener: RestoreListener | None) -> Worker:
        return Worker(
            self.topology,
            self._config,
            self._cluster,
            self._clock,
            new_task=self._new_task,
            destroy_state=self._destroy_state,
            drive=run_steps,
            observer=self._observer,
            restore_listener=restore_listener,
        )

    def _new_task(self, plan: BoundPlan, owned: OwnedTask, globals_: GlobalStores) -> Task:
        sub_topology = plan.sub_topology(owned.task_id)
        path = self._directory.task_path(owned.task_id)

        def open_state(task: Task) -> TaskState:
            return open_task_state(
                sub_topology.stores,
                task,
                state_dir=path,
                logs_every_write=self._config.changelog_writes == "update",
            )

        return Task(
            owned.task_id,
            [sub_topology],
            owned.partitions,
            application_id=self.application_id,
            clock=self._clock,
            open_state=open_state,
            global_stores=globals_.stores,
            partition_counts=plan.partition_counts,
            error_handlers=self._error_handlers,
            initialises=False,
        )

    def _destroy_state(self, owned: OwnedTask) -> None:
        self._directory.quarantine_task(owned.task_id)

    def _kafka_cluster(self, group_protocol: Literal["consumer", "classic"]) -> Cluster:
        from logstate.kafka.cluster import KafkaCluster

        return KafkaCluster(
            self.bootstrap,
            self._kafka,
            client_id=self.application_id,
            group_protocol=group_protocol,
            tells_positions=any(
                spec.is_logged and not spec.source_topic for spec in self.topology.stores.values()
            ),
        )
