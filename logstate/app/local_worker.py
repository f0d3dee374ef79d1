"""One worker in this process, from opening its state directory to its end, with replacements.

It runs in the thread that calls :meth:`LocalWorker.run`. All other methods are thread-safe. The
state directory is locked from construction to the end.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping
from datetime import timedelta
from functools import cached_property
from pathlib import Path

from logstate.app.instance.health import STOPPING, Health, liveness, readiness
from logstate.app.instance.reports import TaskReport
from logstate.app.instance.restarts import Restarts, response_to
from logstate.app.instance.states import ApplicationState, Facts, Lifecycle
from logstate.app.local_tasks import LocalTasks
from logstate.app.settings import Settings
from logstate.app.unused_rows import UnusedRows
from logstate.changelog.directory import StateDirectory
from logstate.contracts.clients import Cluster, run_steps
from logstate.contracts.clock import Clock, pause
from logstate.contracts.errors import ConfigError, LogstateError, TopicsChangedError
from logstate.contracts.open_rows import OpenRows
from logstate.contracts.records import TaskId
from logstate.directory.snapshot_link import SnapshotLink, SnapshotsTopic
from logstate.kafka.garbage_collector import FreeMemory
from logstate.kafka.redaction import redacted_text
from logstate.metrics.instruments import Metrics
from logstate.queries.reader import Freshness, LocalStores
from logstate.restore.restore import RestoreListener
from logstate.restore.standby_assignor import GroupView
from logstate.task.owned_task import OwnedTask, Stage
from logstate.task.record_errors import what_ended
from logstate.topics.placement import places_of
from logstate.worker.assignment import WorkerControl
from logstate.worker.gc_tuner import gc_tuner
from logstate.worker.task_lag import TaskLag, lag_of, rows_lag_of
from logstate.worker.watchdog import Watchdog
from logstate.worker.worker import Worker
from logstate.worker.worker_observer import FIRST_ASSIGNMENT_MS, WorkerObserver

_LOGGER = logging.getLogger(__name__)


class LocalWorker:
    """Runs a worker, and replaces it after failures if the handler says so.

    Raises StateDirectoryError if the state directory cannot be locked.
    """

    def __init__(
        self,
        settings: Settings,
        state_dir: str | Path,
        cluster: Cluster,
        clock: Clock,
        lifecycle: Lifecycle,
        restore_listener: RestoreListener | None = None,
    ) -> None:
        self._settings = settings
        self._state_dir = state_dir
        self.cluster = cluster
        self.clock = clock
        self._lifecycle = lifecycle
        self._restore_listener = restore_listener
        self._restarts = Restarts()
        self._is_stopping = False
        #: a static member leaves the group for good
        self.leaves_group = False
        #: the exception that ended it, and its text for later queries
        self.failure: BaseException | None = None
        self._stopped_by: str | None = None
        self.is_finished = False
        self.directory = StateDirectory(state_dir, settings.application_id, slot=settings.slot)
        self.config = settings.worker_config(self.directory.instance_id)
        self.observer = WorkerObserver(
            monotonic_ms=clock.monotonic_ms, summary_intervals=settings.summary_intervals
        )
        self.observer.on_change = self._changed
        #: control of every worker, one after the other
        self._control = WorkerControl()
        #: why all instances of the application must stop; empty: they must not
        self.stops_all = ""
        #: the reason that another instance gave for stopping
        self._ordered: LogstateError | None = None
        self._worker = self._new_worker()
        self._unused_rows = self._new_unused_rows()
        self._snapshots = SnapshotLink(
            SnapshotsTopic(
                settings.application_id, settings.replication_factor, settings.topic_config
            ),
            cluster,
            clock,
            lambda: self._worker.fetch_buffer.barriers,
            self._running_tasks,
        )
        self._sub_topologies = {sub.id: sub for sub in settings.topology.sub_topologies}
        self._freshness = Freshness(clock.monotonic_ms, lambda: self.observer.away_since_ms)

    # ------------------------------------------------------------------ running

    def run(self, first: Callable[[], object] = lambda: None) -> None:
        """Run until it is stopped, or fails for good; ``failure`` has the reason then.

        Exceptions of this thread are not seen elsewhere, so ``first``, which must run in it before
        anything else, is called here.
        """
        end = ApplicationState.STOPPED
        self._lifecycle.move_to(ApplicationState.STARTING)
        try:
            first()
            if self._unused_rows is not None:
                self._unused_rows.start(f"logstate-cleanup-{self._settings.application_id}")
            if self._settings.topology.internal_topics:
                self._snapshots.start()
            self._run()
            if self._ordered is not None:
                raise self._ordered
        except BaseException as exc:  # noqa: BLE001  kept, and raised in the caller's thread
            end = ApplicationState.ERROR
            self.failure = exc
            text = self._stopped_by = self._redacted_error(exc)
            _LOGGER.error("application %s stopped: %s", self._settings.application_id, text)
        finally:
            if self._unused_rows is not None:
                self._unused_rows.stop()
            self._snapshots.stop()
            self.directory.close()
            self.is_finished = True
            self._lifecycle.move_to(end)
            with self.changed:
                self.changed.notify_all()

    def stop(
        self,
        within: timedelta | None = None,  # noqa: ARG002  a thread cannot be killed
        *,
        leaves_group: bool = False,
    ) -> None:
        """Stop; safe in signal handlers and from any thread."""
        self._is_stopping = True
        self.leaves_group = self.leaves_group or leaves_group
        self._snapshots.stop(waits=False)
        self._worker.stop(leaves_group=leaves_group)

    def stop_for(self, reason: LogstateError) -> None:
        """Stop as ``stop`` does, then fail with the reason."""
        self._ordered = reason
        self.stop()

    def pause(self, is_paused: bool) -> None:
        """Pause or resume processing."""
        self._control.is_paused = is_paused

    @property
    def count(self) -> int:
        """Number of workers."""
        return 1

    def scale(self, by: int) -> int:  # noqa: ARG002
        """Raise ConfigError: the worker is a thread of this process."""
        raise ConfigError(
            "this instance has one worker, which is a thread of its process: start it with"
            " workers=2 or more to be able to change their number while it runs"
        )

    def update_group_view(self, group_view: GroupView) -> None:
        """Set the present and past members of the group; also for later workers."""
        self._control.group_view = group_view

    def update_siblings(self, siblings: Mapping[int, int]) -> None:
        """Set the sibling workers that have started, and how many tasks each owns."""
        self._control.siblings = siblings

    def release(self) -> None:
        """Unlock the directory if nothing ran."""
        self.directory.close()

    def clean_up(self) -> None:
        """Delete the contents of the directory; only while nothing runs."""
        if self.directory.is_open:
            self.directory.delete_tasks()
            return
        settings = self._settings
        with StateDirectory(self._state_dir, settings.application_id, slot=settings.slot) as again:
            again.delete_tasks()

    def _run(self) -> None:
        while True:
            try:
                self._run_once()
            except Exception as exc:
                wait_ms = self._wait_after(exc)
                if wait_ms is None:
                    raise
            else:
                return
            pause(wait_ms / 1000, lambda: self._is_stopping)
            self._worker = self._new_worker()
            if self._is_stopping:
                self._worker.stop()

    def _run_once(self) -> None:
        tidy = FreeMemory().give_back
        watch = Watchdog(self.cluster.probe(), self.clock, self.observer, self._worker, tidy)
        watch.start(f"logstate-watch-{self._settings.application_id}")
        try:
            with gc_tuner.rare():
                run_steps(self._worker.run())
        finally:
            watch.stop()

    def _wait_after(self, failure: Exception) -> float | None:
        """Return the wait before the next worker; None if there is none."""
        if self._is_stopping:
            return None
        if isinstance(failure, TopicsChangedError) and failure.only_new:
            _LOGGER.info("the worker starts again: %s", self._redacted_error(failure))
            self.observer.replaced()
            return 0.0
        response = response_to(self._settings.uncaught_exception_handler, failure)
        if response != "replace_worker":
            self.stops_all = self._redacted_error(failure) if response == "stop_application" else ""
            return None
        wait_ms = self._restarts.wait_ms(self.clock.monotonic_ms())
        if wait_ms is None:
            failure.add_note(f"the worker: {self._restarts.too_many()}")
            return None
        text = self._redacted_error(failure)
        _LOGGER.error("the worker failed; restarting it in %.1f s: %s", wait_ms / 1000, text)
        self.observer.replaced()
        return wait_ms

    def _redacted_error(self, failure: BaseException) -> str:
        return redacted_text(what_ended(failure), self._settings.clients.all())

    # ------------------------------------------------------------------ observing

    @property
    def changed(self) -> threading.Condition:
        """Notified when anything has changed."""
        return self.observer.changed

    @property
    def is_started(self) -> bool:
        """The worker has joined the group."""
        return self.observer.is_started

    @property
    def is_assigned(self) -> bool:
        """The worker has received its assignment."""
        return self.observer.is_assigned

    @property
    def are_tasks_running(self) -> bool:
        """There are tasks, and all of them run."""
        tasks = self.observer.tasks
        return bool(tasks) and all(owned.stage is Stage.RUNNING for owned in tasks.values())

    @property
    def metrics(self) -> Metrics:
        """The live instruments."""
        return self.observer.metrics

    @property
    def transactional_ids(self) -> list[str]:
        """The transactional id of the only producer."""
        return [self.transactional_id]

    @property
    def transactional_id(self) -> str:
        """The transactional id of the producer."""
        return self.config.transactional_id

    @property
    def group_members(self) -> list[tuple[str, str | None]]:
        """Member id and ``group.instance.id`` of the worker if it is or will be a member."""
        member_id = self._worker.followed.member_id
        instance_id = self.config.instance_id
        return [(member_id, instance_id)] if member_id or instance_id else []

    def standbys(self) -> dict[str, int | None]:
        """Map standbys of other instances' tasks to their lag in offsets."""
        return {str(task): one.lag for task, one in self._worker.followed.reports.items()}

    def facts(self) -> Facts:
        """Return the current facts of the worker."""
        observer = self.observer
        return Facts(
            is_started=observer.is_started,
            is_settled=self._is_settled(),
            is_paused=observer.is_paused,
            is_stopping=observer.is_stopping,
        )

    def tasks(self) -> dict[str, str]:
        """Map task ids to stages."""
        return {str(t): o.stage.value for t, o in self.observer.tasks.items()}

    def lags(self) -> dict[str, TaskLag]:
        """Map task ids to lags."""
        return {str(t): lag_of(o) for t, o in self.observer.tasks.items()}

    def task_counts(self) -> dict[int, int | None]:
        """Map sub-topologies to partition counts; None before the start."""
        subs = self._sub_topologies.values()
        return {sub.id: self._worker.task_count(sub) for sub in subs}

    def task_reports(self) -> dict[str, TaskReport]:
        """Map task ids to reports."""
        return {
            str(task): TaskReport(
                lag_of(owned),
                owned.is_readable,
                self._freshness.age_ms(owned),
                _positions(owned),
                self._freshness.silence_ms(owned),
                rows_lag_of(owned),
                *_progress(owned, self.observer),
            )
            for task, owned in self.observer.tasks.items()
        }

    @cached_property
    def stores(self) -> LocalStores:
        """The stores of this worker; their serdes are bound when the first one is requested."""
        settings, topology = self._settings, self._settings.topology
        return LocalStores(
            places_of(topology, settings.application_id),
            settings.application_id,
            lambda: self.observer.tasks,
            lambda number: self._worker.task_count(self._sub_topologies[number]),
            self._freshness,
            standbys=lambda: self._worker.followed.queried(),  # noqa: PLW0108  of the worker then
            global_stores=lambda: self._worker.global_stores,
            why_ended=self.why_ended,
            partition_for=self.cluster.partition_for,
        )

    def readiness(self) -> Health:
        """Report whether requests are answered here."""
        serving = self._settings.serving
        return readiness(
            self.observer,
            self.clock.monotonic_ms(),
            self.why_ended() or (STOPPING if self._is_stopping else None),
            standbys=self._worker.followed.readable_total,
            waits_ms=0.0 if serving is None else serving.timeout / timedelta(milliseconds=1),
        )

    def liveness(self) -> Health:
        """Report whether only a restart helps."""
        hanging = self._worker.processing.slow_calls.stuck_call(self.clock.monotonic_ms())
        return liveness(self.why_ended() or hanging)

    def why_ended(self) -> str | None:
        """Return why the application has ended; None while it runs."""
        if not self.is_finished:
            return None
        why = "it was stopped" if self._stopped_by is None else f"it failed: {self._stopped_by}"
        return f"application {self._settings.application_id!r} has ended, because {why}"

    # ------------------------------------------------------------------ pieces

    def _new_unused_rows(self) -> UnusedRows | None:
        settings, delay = self._settings, self._settings.state_cleanup_delay
        if delay is None:
            return None
        delay_ms = delay // timedelta(milliseconds=1)
        return UnusedRows(
            self.directory, settings.topology, self.clock, delay_ms, self._assigned_tasks
        )

    def _assigned_tasks(self) -> Collection[TaskId] | None:
        """Return the assigned tasks; None while the assignment is unknown."""
        observer = self.observer
        return observer.tasks if observer.is_assigned and not observer.is_away else None

    def _running_tasks(self) -> tuple[str, ...]:
        return tuple(task for task, stage in self.tasks().items() if stage == "running")

    def _changed(self) -> None:
        if not self.observer.has_ended:
            self._lifecycle.follow(self.facts())

    def _is_settled(self) -> bool:
        observer = self.observer
        if observer.tasks:
            return all(owned.stage is Stage.RUNNING for owned in observer.tasks.values())
        since = observer.started_ms  # some brokers do not notify a member that gets no partitions
        now = self.clock.monotonic_ms()
        return observer.is_assigned or (since is not None and now - since >= FIRST_ASSIGNMENT_MS)

    def _new_worker(self) -> Worker:
        handlers, metrics = self._settings.handlers, self.observer.metrics
        traces = self._settings.traces()
        tasks = LocalTasks(self.directory, self.config, self.clock, handlers, metrics, traces)
        return Worker(
            self._settings.topology,
            self.config,
            self.cluster,
            self.clock,
            new_task=tasks.new_task,
            destroy_state=tasks.destroy_state,
            drive=run_steps,
            observer=self.observer,
            restore_listener=self._restore_listener,
            wait=lambda seconds: pause(seconds, lambda: self._is_stopping),
            error_handlers=handlers,
            control=self._control,
            check_state=self.directory.check,
        )


def _progress(
    owned: OwnedTask, observer: WorkerObserver
) -> tuple[int | None, tuple[str, ...], float, dict[str, int], Mapping[str, OpenRows]]:
    """Return the stream time, what buffered records wait for and how long, times of inputs, and
    what operators have open.
    """
    task = owned.task_or_none
    if task is None:
        return None, (), 0.0, {}, {}
    time, awaited = task.stream_time, tuple(map(str, task.awaited()))
    waits_ms = observer.input_wait_ms(task) if awaited else 0.0
    times = {str(tp): at for tp, at in [*task.partition_times.items()] if at >= 0}
    open_rows = task.open_operators.latest
    return time if time >= 0 else None, awaited, waits_ms, times, open_rows


def _positions(owned: OwnedTask) -> dict[str, int]:
    """Return the input positions of the committed rows."""
    task = owned.task_or_none
    return {} if task is None else {str(tp): at for tp, at in task.state.view.inputs.items()}
