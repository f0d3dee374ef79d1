"""One worker in this process, from its directory to its end, and the next one where it failed.

It runs in the thread that calls :meth:`LocalWorker.run`. Everything else may be asked from any
thread. The state directory is held from construction to the end.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection
from datetime import timedelta
from pathlib import Path

from logstate.app.instance.health import FIRST_ASSIGNMENT_MS, Health, liveness, readiness
from logstate.app.instance.reports import TaskReport
from logstate.app.instance.restarts import Restarts, response_to
from logstate.app.instance.states import ApplicationState, Facts, Lifecycle
from logstate.app.local_tasks import LocalTasks
from logstate.app.readable_stores import ReadableStores
from logstate.app.settings import AppSettings
from logstate.app.unused_rows import UnusedRows
from logstate.changelog.directory import StateDirectory
from logstate.contracts.clients import Cluster, run_steps
from logstate.contracts.clock import Clock, pause
from logstate.contracts.errors import ConfigError, LogstateError
from logstate.contracts.records import TaskId
from logstate.directory.snapshot_link import SnapshotLink, SnapshotsTopic
from logstate.kafka.garbage_collector import FreeMemory
from logstate.kafka.redaction import redacted_text
from logstate.metrics.instruments import Metrics
from logstate.queries.queries import QueryableStore, is_readable
from logstate.restore.restore import RestoreListener
from logstate.restore.standby_assignor import GroupView
from logstate.task.owned_task import OwnedTask, Stage
from logstate.task.record_errors import what_ended
from logstate.worker.gc_tuner import gc_tuner
from logstate.worker.lag import TaskLag, lag_of
from logstate.worker.watchdog import Watchdog
from logstate.worker.worker import Worker
from logstate.worker.worker_control import WorkerControl
from logstate.worker.worker_observer import WorkerObserver

_LOGGER = logging.getLogger(__name__)


class LocalWorker:
    """See the module. Raises StateDirectoryError where the directory cannot be had."""

    def __init__(
        self,
        settings: AppSettings,
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
        #: its end is for good, though it may be a static member
        self.leaves_group = False
        #: what ended it, and in words for whoever asks afterwards
        self.failure: BaseException | None = None
        self._stopped_by: str | None = None
        self.is_finished = False
        self.directory = StateDirectory(state_dir, settings.application_id, slot=settings.slot)
        self.config = settings.worker_config(self.directory.instance_id)
        self.observer = WorkerObserver(monotonic_ms=clock.monotonic_ms)
        self.observer.on_change = self._changed
        #: of every worker, one after the other
        self._control = WorkerControl()
        #: why all instances of the application are to stop; empty: they are not
        self.stops_all = ""
        #: by another instance
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
        self._stores = ReadableStores(
            settings.topology,
            settings.application_id,
            lambda: self._worker,
            self.observer,
            cluster,
            clock,
            self.why_ended,
        )

    # ------------------------------------------------------------------ running

    def run(self, first: Callable[[], object] = lambda: None) -> None:
        """Until it is stopped, or fails for good; ``failure`` has the reason then.

        Whatever ends it: nobody else hears of what is raised in this thread. So what has to be done
        in it before all else, ``first``, is done here too.
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
            text = self._stopped_by = self._redacted(exc)
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
        within: timedelta | None = None,  # noqa: ARG002  nobody is killed here
        *,
        leaves_group: bool = False,
    ) -> None:
        """Ask it to finish; safe in signal handlers and from any thread."""
        self._is_stopping = True
        self.leaves_group = self.leaves_group or leaves_group
        self._snapshots.stop(waits=False)
        self._worker.stop(leaves_group=leaves_group)

    def stop_for(self, reason: LogstateError) -> None:
        """Finish as by ``stop``, and fail with the reason then."""
        self._ordered = reason
        self.stop()

    def pause(self, is_paused: bool) -> None:
        """Process nothing, or go on."""
        self._control.is_paused = is_paused

    @property
    def count(self) -> int:
        """How many workers there are."""
        return 1

    def scale(self, by: int) -> int:  # noqa: ARG002
        """Refused: it is a thread of this process."""
        raise ConfigError(
            "this instance has one worker, which is a thread of its process: start it with"
            " workers=2 or more, and their number can be changed while it runs"
        )

    def know(self, group_view: GroupView) -> None:
        """Who is in the group, and who was; the worker that follows it knows as well."""
        self._control.group_view = group_view

    def meet(self, company: frozenset[int]) -> None:
        """Which other workers of its instance have joined."""
        self._control.company = company

    def release(self) -> None:
        """Let go of the directory, where nothing ran."""
        self.directory.close()

    def clean_up(self) -> None:
        """Delete what is in the directory; nothing runs."""
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
        """How long to wait before the next worker; None where there is to be none."""
        if self._is_stopping:
            return None
        response = response_to(self._settings.uncaught, failure)
        if response != "replace_worker":
            self.stops_all = self._redacted(failure) if response == "stop_application" else ""
            return None
        wait_ms = self._restarts.wait_ms(self.clock.monotonic_ms())
        if wait_ms is None:
            failure.add_note(f"the worker: {self._restarts.too_many()}")
            return None
        text = self._redacted(failure)
        _LOGGER.error("the worker failed; another one starts in %.1f s: %s", wait_ms / 1000, text)
        self.observer.replaced()
        return wait_ms

    def _redacted(self, failure: BaseException) -> str:
        return redacted_text(what_ended(failure), self._settings.clients.all())

    # ------------------------------------------------------------------ looking inside

    @property
    def changed(self) -> threading.Condition:
        """Notified when anything has changed."""
        return self.observer.changed

    @property
    def is_started(self) -> bool:
        """The group was joined."""
        return self.observer.is_started

    @property
    def is_assigned(self) -> bool:
        """The group has said which tasks are here."""
        return self.observer.is_assigned

    @property
    def are_tasks_running(self) -> bool:
        """It has tasks, and each of them runs."""
        tasks = self.observer.tasks
        return bool(tasks) and all(owned.stage is Stage.RUNNING for owned in tasks.values())

    @property
    def metrics(self) -> Metrics:
        """The live instruments."""
        return self.observer.metrics

    @property
    def transactional_ids(self) -> list[str]:
        """Of its producer, which is the only one."""
        return [self.transactional_id]

    @property
    def transactional_id(self) -> str:
        """Of its producer."""
        return self.config.transactional_id

    @property
    def group_members(self) -> list[tuple[str, str | None]]:
        """Its member id and ``group.instance.id``, once it is a member or about to be one."""
        member_id = self._worker.followed.member_id
        instance_id = self.config.instance_id
        return [(member_id, instance_id)] if member_id or instance_id else []

    def standbys(self) -> dict[str, int | None]:
        """Tasks of other instances that are followed -> offsets that they lack here."""
        return {str(task): one.lag for task, one in self._worker.followed.reports.items()}

    def facts(self) -> Facts:
        """What is true of it now."""
        observer = self.observer
        return Facts(
            is_started=observer.is_started,
            is_settled=self._is_settled(),
            is_paused=observer.is_paused,
            is_stopping=observer.is_stopping,
        )

    def tasks(self) -> dict[str, str]:
        """Task id -> stage."""
        return {str(t): o.stage.value for t, o in self.observer.tasks.items()}

    def lags(self) -> dict[str, TaskLag]:
        """Task id -> how far it is behind."""
        return {str(t): lag_of(o) for t, o in self.observer.tasks.items()}

    def task_counts(self) -> dict[int, int | None]:
        """Sub-topology -> its partitions; None before the start."""
        subs = self._settings.topology.sub_topologies
        return {sub.id: self._worker.task_count(sub) for sub in subs}

    def task_reports(self) -> dict[str, TaskReport]:
        """Task id -> what there is to tell of it."""
        return {
            str(task): TaskReport(
                lag_of(owned), is_readable(owned), self.age_ms(owned), _positions(owned)
            )
            for task, owned in self.observer.tasks.items()
        }

    def age_ms(self, owned: OwnedTask) -> float:
        """How old the committed rows of a task are."""
        return self._stores.freshness(None).age_ms(owned)

    def store(
        self, name: str, max_age: timedelta | None, *, standbys: bool = False
    ) -> QueryableStore:
        """A store for reading what is committed."""
        return self._stores.named(name, max_age, standbys=standbys)

    def readiness(self, max_age: timedelta | None) -> Health:
        """Whether local reads of all its tasks are answered."""
        return readiness(self.observer, self._stores.freshness(None), self.why_ended(), max_age)

    def liveness(self) -> Health:
        """Whether only a new start can help."""
        hanging = self._worker.processing.slow_calls.hanging(self.clock.monotonic_ms())
        return liveness(self.why_ended() or hanging)

    def why_ended(self) -> str | None:
        """Why nothing runs any more; None while it does."""
        if not self.is_finished:
            return None
        why = "it was stopped" if self._stopped_by is None else f"it failed: {self._stopped_by}"
        return f"application {self._settings.application_id!r} has ended, because {why}"

    # ------------------------------------------------------------------ pieces

    def _new_unused_rows(self) -> UnusedRows | None:
        settings, delay = self._settings, self._settings.rows.cleanup_delay
        if delay is None:
            return None
        delay_ms = delay // timedelta(milliseconds=1)
        return UnusedRows(
            self.directory, settings.topology, self.clock, delay_ms, self._assigned_tasks
        )

    def _assigned_tasks(self) -> Collection[TaskId] | None:
        """None while nothing follows from having no task."""
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
        since = observer.started_ms  # some brokers tell a member nothing that gets nothing
        now = self.clock.monotonic_ms()
        return observer.is_assigned or (since is not None and now - since >= FIRST_ASSIGNMENT_MS)

    def _new_worker(self) -> Worker:
        handlers, metrics = self._settings.handlers, self.observer.metrics
        tasks = LocalTasks(self.directory, self.config, self.clock, handlers, metrics)
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


def _positions(owned: OwnedTask) -> dict[str, int]:
    """Of the committed rows."""
    task = owned.task_or_none
    return {} if task is None else {str(tp): at for tp, at in task.state.view.inputs.items()}
