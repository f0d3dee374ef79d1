"""The Application: the object that a service creates.

It validates the configuration, opens the state directory, runs one worker in a thread (``start``)
or in the caller's thread (``run``), and answers queries. It installs signal handlers only in
``run`` and configures no logging.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack, closing
from dataclasses import fields
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from logstate.app.application_view import ApplicationView
from logstate.app.catch_up import CatchUp
from logstate.app.drain import Drain, StopRequest
from logstate.app.instance.owner_process import is_worker
from logstate.app.instance.restarts import UncaughtHandler
from logstate.app.instance.signal_handlers import signal_handlers
from logstate.app.instance.states import ApplicationState
from logstate.app.settings import GroupProtocol, Settings, SummaryInterval
from logstate.app.workers import new_workers
from logstate.changelog.directory import state_root
from logstate.contracts.clients import Cluster
from logstate.contracts.clock import Clock, wait_s
from logstate.contracts.errors import LogstateError, check
from logstate.contracts.rocksdb_config import RocksDbConfig
from logstate.contracts.serving import Serving
from logstate.contracts.setting_rules import durations
from logstate.contracts.standby_settings import StandbySettings
from logstate.contracts.worker_config import (
    ChangelogWrites,
    Guarantee,
    OnDataLoss,
    OnStateLoss,
)
from logstate.kafka.redaction import redacted
from logstate.restore.restore import RestoreListener
from logstate.task.error_handlers import ErrorHandlers
from logstate.topology.dsl.builder import StreamsBuilder
from logstate.topology.dsl.topology_target import resolved
from logstate.topology.plan.plan import Topology

_LOGGER = logging.getLogger(__name__)

#: time between killing processes that took too long and their end
_KILLED_S = 5.0
#: between two looks of a wait
_LOOK_S = 0.1


class Application(ApplicationView):
    """One instance of a stream processing application.

    Instances with the same ``application_id`` share the work: each owns some partitions and keeps
    their state locally. Starting or stopping one moves partitions; state follows by replay::

        app = Application(
            topology, application_id="shop", bootstrap="localhost:9092", state_dir="state"
        )
        app.run()  # until SIGTERM; or in a thread: with app: app.store("spent").get("ada")

    Records of one partition are processed in their order. Null keys and values, late records and
    records out of order are treated as each operator says.

    Args:
        topology: the result of ``StreamsBuilder.build()``, a function that returns it, or the
            location of one of them as ``"module:attribute"``.
        application_id: consumer group, and prefix of internal topics and transactional ids.
        bootstrap: ``host:port,...`` of the brokers.
        state_dir: directory for local state, one per instance; kept between runs it saves replays.
            ``~`` is the user's home; relative paths are resolved at construction.
        guarantee: ``"exactly_once"`` (outputs become visible with the commit) or
            ``"at_least_once"`` (outputs visible at once, repeated after a crash). State is
            exactly-once in both.
        commit_interval: how often to commit, up to 10 minutes; the latency of exactly-once outputs.
        kafka: further librdkafka settings, for example ``security.protocol`` and ``sasl.*``.
            Each client receives the settings that it supports. Settings that the library controls
            are refused. Secrets are never shown or logged.
        consumer, producer, admin: settings for one kind of client alone.
        offset_reset: where a source without its own ``offset_reset`` begins if nothing is
            committed: ``"earliest"``, ``"latest"``, ``"none"`` or a timedelta back from now.
        topic_prefix: prefix of every topic that the topology and ``dead_letter_topic`` name, such
            as ``"staging."``. Internal topics begin with the application id instead. See
            docs/topics.md.
        replication_factor: of internal topics; -1 is the brokers' default.
        topic_config: further configuration of internal topics.
        topics_interval: how often the topics are checked: a new topic that matches a pattern is
            read then, and added partitions are found (Kafka Streams' ``metadata.max.age.ms``). See
            docs/topics.md.
        checkpoint_interval: how long committed rows may wait before they are written to RocksDB.
        checkpoint_bytes: how many bytes of committed rows (keys and values, every commit counted)
            may wait over all tasks of the instance. Both limit the replay of a restart after a
            crash.
        cache_bytes: memory for recently read or written rows, over all tasks of the
            instance; 0 keeps none from one commit to the next. See docs/sizing.md.
        rocksdb: memory and files of RocksDB, as :class:`RocksDbConfig`. See docs/sizing.md.
        state_cleanup_delay: how long local rows of a task stay after it has moved to another
            instance (Kafka Streams' ``state.cleanup.delay.ms``); None keeps them. Rows of tasks
            with a persistent store that has no changelog are kept. See docs/workers.md.
        changelog_writes: ``"commit"`` logs a row once per commit, ``"update"`` every write.
        group_protocol: ``"consumer"`` (KIP-848) or ``"classic"`` for brokers before 4.0.
        static_membership: keep partitions over a restart within the session timeout (KIP-345).
        slot: distinguishes instances that share one ``state_dir``.
        error_handlers: what to do with records that do not decode, cannot be processed, or whose
            results cannot be produced; by default the application stops before them.
        restore_listener: called with the progress of restores, in the worker's thread.
        renamed: stores that are stored under another name, as ``{"stored": "declared"}``. The rows
            and the changelog of the old name then belong to the new one.
        forget: names of stored stores and repartition topics that are not wanted anymore.
        start_timeout: how long a start waits for unavailable brokers; None waits forever.
        log_summary_interval: how often the instance logs, at level INFO, what it has processed, its
            tasks and their lag: ``"growing"``: after 2 minutes, after 4 more, 8, 16, then every
            30; or a constant time (Kafka Streams' ``log.summary.interval.ms``); None: never.
        trace_ratio: share of records without a trace that begin one, from 0 to 1, for OpenTelemetry
            (``logstate[otel]``); records of sampled traces continue these. None makes no spans and
            costs nothing. See docs/traces.md.
        uncaught_exception_handler: the response to a failed worker: ``"stop_instance"``;
            ``"stop_application"``: all other instances stop too; or ``"replace_worker"``: a new
            worker starts at the last commit, after an increasing delay, up to a dozen times
            within ten minutes. Or a function that receives the exception, in the worker's
            thread, and returns one of them.
        workers: 1 is a thread of this process; more are separate processes, which share the
            ``state_dir`` with the slots from ``slot`` on. They import the modules of the topology
            again: values that the main program has set in a module do not exist there. See
            docs/workers.md.
        serve: ``"host:port"`` for queries over HTTP, or a :class:`Serving` with a token, TLS and
            limits. Instances with it know each other. See docs/queries.md.
        window_emit_interval: minimum wall-clock time between two checks for closed windows, for
            ``emit="close"``; overrides the value of ``StreamsBuilder``. Default: a second.
        outer_join_emit_interval: the same for the unmatched rows of left and outer stream joins.
        on_state_loss: what to do if committed state is missing, because a changelog has lost
            records or the local rows of a store without a changelog do not exist: ``"fail"``
            raises RestoreError; ``"continue"`` logs an ERROR and starts with the remaining rows.
            See docs/state-loss.md.
        on_data_loss: what to do if unprocessed records of an input are gone: their offset is
            committed and the topic begins later, or ends before it. ``"fail"`` raises
            RestoreError; ``"continue"`` logs an ERROR, counts them
            (``input_records_lost_total``), and continues at the first existing record,
            regardless of ``offset_reset``. See docs/missing-data.md.
        max_task_idle: how long a task with several inputs waits for records of an input that is at
            its end, before it processes those of others (Kafka Streams' ``max.task.idle.ms``);
            None processes what is there. See docs/time.md.
        buffered_records_per_partition: an input partition is paused while more of its records wait
            to be processed.
        aborts_max: how many transactions may fail within ten minutes for reasons other than broker
            errors (functions that outlast a transaction, damaged stores, another process
            with the same transactional id) before the worker fails. See docs/outages.md.
        standby_replicas: how many other instances keep a copy of each task's state, so that a task
            that moves there only replays the last second; or :class:`StandbySettings` with a limit
            of bandwidth and the lag at which an instance joins. See docs/standbys.md.

    Raises:
        ConfigError: with every problem of the configuration at once.
        StateDirectoryError: the directory is not writable, or another process uses it.
    """

    _thread: threading.Thread | None = None
    _has_begun = False
    #: the thread that the worker runs in, while it does
    _runner: int | None = None

    def __init__(
        self,
        topology: Topology | str | Callable[[], Topology | StreamsBuilder],
        *,
        application_id: str,
        bootstrap: str,
        state_dir: str | Path,
        guarantee: Guarantee = Settings.guarantee,
        commit_interval: timedelta = Settings.commit_interval,
        kafka: Mapping[str, Any] | None = Settings.kafka,
        consumer: Mapping[str, Any] | None = Settings.consumer,
        producer: Mapping[str, Any] | None = Settings.producer,
        admin: Mapping[str, Any] | None = Settings.admin,
        offset_reset: str | timedelta = Settings.offset_reset,
        topic_prefix: str = Settings.topic_prefix,
        replication_factor: int = Settings.replication_factor,
        topic_config: Mapping[str, str] | None = None,
        topics_interval: timedelta = Settings.topics_interval,
        checkpoint_interval: timedelta = Settings.checkpoint_interval,
        checkpoint_bytes: int = Settings.checkpoint_bytes,
        cache_bytes: int = Settings.cache_bytes,
        rocksdb: RocksDbConfig = Settings.rocksdb,
        state_cleanup_delay: timedelta | None = Settings.state_cleanup_delay,
        changelog_writes: ChangelogWrites = Settings.changelog_writes,
        group_protocol: GroupProtocol = Settings.group_protocol,
        static_membership: bool = Settings.static_membership,
        slot: int = Settings.slot,
        restore_listener: RestoreListener | None = Settings.restore_listener,
        error_handlers: ErrorHandlers | None = Settings.error_handlers,
        renamed: Mapping[str, str] | None = Settings.renamed,
        forget: Collection[str] = Settings.forget,
        start_timeout: timedelta | None = Settings.start_timeout,
        log_summary_interval: SummaryInterval = Settings.log_summary_interval,
        trace_ratio: float | None = Settings.trace_ratio,
        uncaught_exception_handler: UncaughtHandler = Settings.uncaught_exception_handler,
        workers: int = Settings.workers,
        serve: str | Serving | None = Settings.serve,
        standby_replicas: int | StandbySettings = Settings.standby_replicas,
        window_emit_interval: timedelta | None = Settings.window_emit_interval,
        outer_join_emit_interval: timedelta | None = Settings.outer_join_emit_interval,
        on_state_loss: OnStateLoss = Settings.on_state_loss,
        on_data_loss: OnDataLoss = Settings.on_data_loss,
        max_task_idle: timedelta | None = Settings.max_task_idle,
        buffered_records_per_partition: int = Settings.buffered_records_per_partition,
        aborts_max: int = Settings.aborts_max,
        cluster: Cluster | None = None,
        clock: Clock | None = None,
    ) -> None:
        given = locals()
        plan, target = resolved(topology)
        self._ended = threading.Event()
        self._cluster = cluster
        arguments = {each.name: given[each.name] for each in fields(Settings)}
        arguments["topology"] = plan
        arguments["topic_config"] = {} if topic_config is None else topic_config
        self._settings = settings = Settings(**arguments).checked().prefixed()
        self._workers = new_workers(
            settings, target, state_root(state_dir), cluster, clock, self._lifecycle
        )

    def __repr__(self) -> str:
        return (
            f"Application({self.application_id!r}, bootstrap={self.bootstrap!r},"
            f" kafka={redacted(self._settings.clients.all())!r})"
        )

    # ------------------------------------------------------------------ running

    def run(self, *, handle_signals: bool = True) -> None:
        """Run in this thread until ``stop`` or, with ``handle_signals``, SIGTERM or SIGINT.

        Everything processed is committed before it returns. A second signal does not wait for that:
        it has the effect that it has without ``run``. Raises what stopped the worker.
        """
        self._begin()
        with ExitStack() as held:
            if handle_signals:
                held.enter_context(signal_handlers(self.application_id, self._owner, self.stop))
            self._run_workers()
        self._raise_failure()

    def start(self, *, timeout: timedelta | None = None, waits: bool = True) -> Self:
        """Run in a separate thread; return when the group was joined and ``state`` shows that.

        While the brokers are unavailable it waits, as long as ``start_timeout`` allows; without
        ``waits`` it returns at once, and ``is_ready`` reports the progress. Raises the error that
        made the start fail: missing topics, wrong counts, refused credentials; or TimeoutError, and
        the application stops, if it takes longer than ``timeout``.
        """
        check(durations("start()", timeout=timeout, optional=True))
        self._begin()
        thread = threading.Thread(
            target=self._run_workers, name=f"logstate-{self.application_id}", daemon=True
        )
        try:
            thread.start()
        except RuntimeError as refusal:  # the system has no threads left
            self._run_workers(refusal)
            self._raise_failure()
        self._thread = thread
        if not waits:
            return self
        workers = self._workers
        with workers.changed:
            is_decided = workers.changed.wait_for(
                lambda: self._has_started() or workers.is_finished,
                None if timeout is None else wait_s(timeout),
            )
        if workers.is_finished:
            thread.join()
        self._raise_failure()
        if not is_decided:
            why = self.is_ready().reason
            self.stop()
            raise TimeoutError(f"the application did not start within {timeout} ({why}); it stops")
        return self

    def wait_until_running(self, timeout: timedelta = timedelta(seconds=60)) -> None:
        """Wait until at least one task runs and none is being restored.

        Raises TimeoutError, the error that stopped the worker meanwhile, or LogstateError if it has
        ended, or if the worker thread would wait for itself.
        """
        check(durations("wait_until_running()", timeout=timeout))
        self._check_thread("wait_until_running()")
        workers = self._workers
        with workers.changed:
            reached = workers.changed.wait_for(
                lambda: workers.is_finished or workers.are_tasks_running, wait_s(timeout)
            )
        self._raise_failure()
        if workers.is_finished:
            raise LogstateError(f"application {self.application_id!r} has ended; nothing runs")
        if not reached:
            stages = workers.tasks() or "not assigned"
            raise TimeoutError(f"not running after {timeout}: tasks are {stages}")

    def wait_until_caught_up(self, timeout: timedelta = timedelta(seconds=60)) -> None:
        """Wait until everything that the inputs contained at this call is processed and committed.

        That includes what follows from it in repartition topics: after the return ``store()`` shows
        the results, and exactly-once outputs can be read. Records of transactions that were open at
        the call, and later records, are not waited for. All partitions of the application count,
        also those of its other instances. Results that wait for time to pass (``suppress``,
        ``emit="close"``, schedules) come later, and global tables are not waited for.

        >>> from logstate import Application, StreamsBuilder
        >>> from logstate.testing import FakeCluster
        >>> cluster = FakeCluster({"clicks": 1})
        >>> _ = cluster.produce("clicks", b"ada", b"home", timestamp=1)
        >>> builder = StreamsBuilder()
        >>> _ = builder.stream("clicks", key=str, value=str).group_by_key().count(store="counts")
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as state, Application(
        ...     builder.build(), application_id="shop", bootstrap="fake:9092", state_dir=state,
        ...     cluster=cluster,
        ... ) as app:
        ...     app.wait_until_caught_up()
        ...     app.store("counts").get("ada").value
        1

        Raises TimeoutError, which names the partitions and their lag; the error that stopped the
        worker meanwhile; LogstateError if it has ended, or if the worker thread would wait for
        itself.
        """
        check(durations("wait_until_caught_up()", timeout=timeout))
        self._check_thread("wait_until_caught_up()")
        workers, end_s = self._workers, time.monotonic() + wait_s(timeout)
        cluster = self._cluster or self._settings.cluster()
        with closing(CatchUp(self.application_id, cluster, workers.task_reports)) as catch_up:
            while not self._has_caught_up(catch_up, end_s):
                self._raise_failure()
                if workers.is_finished:
                    raise LogstateError(
                        f"application {self.application_id!r} has ended; nothing runs"
                    )
                if time.monotonic() >= end_s:
                    raise TimeoutError(self._text_of_lag(timeout, catch_up))
                with workers.changed:
                    workers.changed.wait(_LOOK_S)

    def _has_caught_up(self, catch_up: CatchUp, end_s: float) -> bool:
        """Return whether all tasks here run, before and after a look that finds everything done."""
        facts = self._workers.facts
        left_s = end_s - time.monotonic()
        return facts().is_settled and catch_up.is_done(left_s) and facts().is_settled

    def _text_of_lag(self, timeout: timedelta, catch_up: CatchUp) -> str:
        is_settled = self._workers.facts().is_settled
        found = catch_up.text() if is_settled else self.is_ready().reason
        hint = (
            "It is paused: call resume()"
            if self.state is ApplicationState.PAUSED
            else "Wait longer, or look for the cause in the log and in app.lags()"
        )
        what = f"application {self.application_id!r} has not caught up after {timeout}"
        return f"{what}: {found}. {hint}"

    def stop(self, *, leave_group: bool = False) -> None:
        """Ask the worker to finish; safe in signal handlers and from any thread.

        ``is_ready`` is false at once. An instance whose ``/ready`` is requested by a load balancer
        continues to answer for the time ``drain`` of :class:`Serving` before it stops.
        ``leave_group``: as for ``close``.
        """
        self._request_drain(StopRequest(None, leave_group))

    def pause(self) -> None:
        """Stop processing records and punctuations until ``resume``; from any thread, at any time.

        Takes effect after the current records; then ``state`` is ``PAUSED``. The worker stays a
        member of the group and keeps its partitions: they are paused at the client, including newly
        assigned ones. Processed records are committed, restores and global tables continue, and
        stores can be read.
        """
        self._workers.pause(True)

    def resume(self) -> None:
        """Continue after ``pause``; a missed wall-clock punctuation is called once."""
        self._workers.pause(False)

    def add_worker(self) -> int:
        """Add one worker process; return the new number of workers.

        Can be called from any thread, while an instance with ``workers=2`` or more runs, else
        raises ConfigError. The group moves tasks to the new worker once it has joined. The Kafka
        Streams call is ``addStreamThread``.
        """
        return self._workers.scale(1)

    def remove_worker(self) -> int:
        """Remove one worker process: the newest commits, leaves the group and ends.

        Returns the new number of workers; raises ConfigError for the last one. The Kafka Streams
        call is ``removeStreamThread``.
        """
        return self._workers.scale(-1)

    def clean_up(self) -> None:
        """Delete the local state: the next start restores all of it from the changelogs.

        Call it before the start or after the end. Raises LogstateError while it runs,
        StateDirectoryError if another instance uses the directory.
        """
        if self._lifecycle.state is not ApplicationState.CREATED and not self.state.is_over:
            raise LogstateError(
                f"application {self.application_id!r} is {self.state.value}; its local state can"
                " be deleted before a start, and after close()"
            )
        self._workers.clean_up()

    def close(
        self, *, timeout: timedelta = timedelta(seconds=60), leave_group: bool = False
    ) -> None:
        """Stop, commit everything processed, leave the group, release the state directory.

        With ``static_membership`` the group waits for its return until the session ends; with
        ``leave_group`` it reassigns the partitions at once (KIP-812).
        Raises what stopped the worker, unless ``start`` or ``run`` raised it already; TimeoutError
        if it does not end in time. Worker processes that do not end are killed. If ``run`` runs in
        another thread, this waits for it, and that one raises what stopped the worker. In the
        worker's own thread (a function, a listener, a signal handler) waiting is impossible: it
        requests a stop, as ``stop`` does, and logs that. In a process that was forked from the one
        that created the application, it does nothing and logs that.
        """
        if not self._owner.is_here:
            self._owner.forget()
            return
        check(durations("close()", timeout=timeout))
        self._request_drain(StopRequest(timeout, leave_group))
        if self._is_own_thread():
            _LOGGER.warning(
                "close() of application %s was called in the thread that runs it, by a function, a"
                " listener or a signal handler: the application stops after that returns, as with"
                " stop(). To wait for the end, call close() in another thread",
                self.application_id,
            )
            return
        if not self._has_begun:
            self._has_begun = True  # too late for a start
            self._ended.set()
            self._lifecycle.move_to(ApplicationState.STOPPED)
        elif not self._ended.wait(wait_s(timeout) + _KILLED_S):
            raise TimeoutError(f"the worker did not end within {timeout}")
        self._workers.release()
        if self._thread is not None:
            self._thread.join()
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

    async def __aenter__(self) -> Self:
        try:
            return await asyncio.to_thread(self.start)
        except BaseException:
            self.stop()  # otherwise a cancelled start continues in its thread
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.__exit__, kind, exc, tb)

    # ------------------------------------------------------------------ pieces

    def _request_drain(self, request: StopRequest) -> None:
        if self._drain is None:
            self._workers.stop(request.within, leaves_group=request.leaves_group)
        else:
            self._drain.begin(request)

    def _has_started(self) -> bool:
        """Return True if the workers have started and the state shows it."""
        return self._workers.is_started and self.state is not ApplicationState.STARTING

    def _begin(self) -> None:
        self._owner.check()
        if self._has_begun:
            raise LogstateError(
                f"application {self.application_id!r} was started already; an Application runs"
                " once: create a new one"
            )
        if is_worker.is_set():
            raise LogstateError(
                f"application {self.application_id!r} was started while a worker process imported"
                " the module that starts it. Start it in a function, or below"
                ' `if __name__ == "__main__":`'
            )
        if self._presence is not None:
            self._presence.listen()
        self._has_begun = True
        if _LOGGER.isEnabledFor(logging.DEBUG):
            from logstate.kafka.extension import extension_state

            is_used, reason = extension_state()
            use = "in use" if is_used else "not in use"
            _LOGGER.debug("the extension module for records is %s: %s", use, reason)
        self._lifecycle.move_to(ApplicationState.STARTING)

    def _run_workers(self, refusal: BaseException | None = None) -> None:
        """Run the workers in this thread; or fail with ``refusal`` if their thread could not
        start.
        """
        presence = self._presence

        def first() -> None:
            if refusal is not None:
                raise refusal
            if presence is not None:
                presence.start(self.asgi)
                self._drain = Drain(self._workers.stop, presence.drain_s)
                self._drain.start(f"logstate-drain-{self.application_id}")

        def has_ended() -> None:
            self._runner = None
            if self._drain is not None:
                self._drain.end()
            self._ended.set()

        self._runner = threading.get_ident()
        with ExitStack() as ending:
            ending.callback(has_ended)
            if presence is not None:
                ending.callback(presence.stop)
            self._workers.run(first)

    def _check_thread(self, call: str) -> None:
        if self._is_own_thread():
            raise LogstateError(
                f"{call} of application {self.application_id!r} was called in the thread that runs"
                " it, by a function or a listener: processing cannot continue until that returns."
                " Wait in another thread"
            )

    def _is_own_thread(self) -> bool:
        return self._runner == threading.get_ident()

    def _raise_failure(self) -> None:
        """Raise what stopped the worker, once, after everything has ended."""
        failure, self._workers.failure = self._workers.failure, None
        if failure is not None:
            self._ended.wait()  # the caller may start a new application at once
            raise failure
