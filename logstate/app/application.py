"""The Application: what a service holds.

It validates the configuration, opens the state directory, runs one worker in a thread (``start``)
or in the caller's (``run``), and answers queries. It installs no signal handlers and configures no
logging unless ``run`` is told to.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from logstate.app.application_view import ApplicationView
from logstate.app.instance.restarts import UncaughtHandler
from logstate.app.instance.signal_handlers import signal_handlers
from logstate.app.instance.states import ApplicationState
from logstate.app.instance.this_process import is_worker
from logstate.app.presence import serving_of
from logstate.app.settings import AppSettings, FaultSettings, LocalRows, StateWrites
from logstate.app.workers import new_workers
from logstate.changelog.directory import state_root
from logstate.contracts.clients import Cluster
from logstate.contracts.clock import Clock, wait_s
from logstate.contracts.compatibility import MigrationOptions
from logstate.contracts.errors import LogstateError, check
from logstate.contracts.serving import Serving
from logstate.contracts.setting_rules import durations
from logstate.contracts.standby_settings import StandbySettings
from logstate.contracts.worker_config import (
    ABORTS_MAX,
    CACHE_BYTES,
    CHECKPOINT_BYTES,
    ChangelogWrites,
    Guarantee,
    OnDataLoss,
    OnStateLoss,
)
from logstate.kafka.client_settings import ClientSettings
from logstate.kafka.redaction import redacted
from logstate.restore.restore import RestoreListener
from logstate.task.error_handlers import FAIL_ALWAYS, ErrorHandlers
from logstate.topology.dsl.builder import StreamsBuilder
from logstate.topology.dsl.topology_target import resolved
from logstate.topology.plan.plan import Topology

_LOGGER = logging.getLogger(__name__)

#: from the kill of processes that took too long to their end
_KILLED_S = 5.0


class Application(ApplicationView):
    """One instance of a stream processing application.

    Instances with the same ``application_id`` share the work: each owns some partitions and keeps
    their state locally. Starting or stopping one moves partitions; state follows by replay.

    Args:
        topology: what ``StreamsBuilder.build()`` returned, a function that returns it, or where to
            find one of them, as ``"module:attribute"``.
        application_id: consumer group, and prefix of internal topics and transactional ids.
        bootstrap: ``host:port,...`` of the brokers.
        state_dir: directory for local state, one per instance; kept between runs it saves replays.
            ``~`` is the user's home; relative paths are those of the moment.
        guarantee: ``"exactly_once"`` (outputs become visible with the commit) or
            ``"at_least_once"`` (outputs visible at once, repeated after a crash). State is
            exactly-once in both.
        commit_interval: how often to commit, up to 10 minutes; the latency of exactly-once outputs.
        kafka: further librdkafka settings, for example ``security.protocol`` and ``sasl.*``.
            Each client is given those that it knows. Settings the library owns are refused. Secrets
            are never shown or logged.
        consumer, producer, admin: settings for one kind of client alone.
        offset_reset: where a source without an ``offset_reset`` of its own begins when nothing is
            committed: ``"earliest"``, ``"latest"``, ``"none"`` or a timedelta back from now.
        replication_factor: of internal topics; -1 is the brokers' default.
        topic_config: further configuration of internal topics.
        checkpoint_interval: how long committed rows may wait before RocksDB takes them over.
        checkpoint_bytes: how many bytes of committed rows (keys and values, every commit counted)
            may wait over all tasks of the instance. Both bound what a restart replays after a
            crash.
        cache_bytes: memory for rows that were read or written lately, over all tasks of the
            instance; 0 keeps none from one commit to the next. See docs/sizing.md.
        state_cleanup_delay: how long local rows of a task stay after it has moved to another
            instance (Kafka Streams' ``state.cleanup.delay.ms``); None keeps them. Rows of tasks
            with a persistent store that has no changelog are kept. See docs/workers.md.
        changelog_writes: ``"commit"`` logs a row once per commit, ``"update"`` every write.
        group_protocol: ``"consumer"`` (KIP-848) or ``"classic"`` for brokers before 4.0.
        static_membership: keep partitions over a restart within the session time-out (KIP-345).
        slot: tells instances apart that share one ``state_dir``.
        error_handlers: what to do with records that do not decode, cannot be processed, or whose
            results cannot be produced; by default the application stops before them.
        restore_listener: told about the progress of restores, in the worker's thread.
        renamed: stores that are stored under another name, as ``{"stored": "declared"}``. The rows
            and the changelog of the old name are the new one's from then on.
        forget: names of stores and repartition topics that are stored and not wanted any more.
        start_timeout: how long a start waits for brokers that are away; None waits for ever.
        uncaught_exception_handler: what follows when the worker fails: ``"stop_instance"``;
            ``"stop_application"``: all others stop too; or ``"replace_worker"``: another one begins
            where the last commit was, after a wait that grows, a dozen times within ten minutes. Or
            a function that is given the exception, in the worker's thread, and returns one of them.
        workers: 1 is a thread of this process; more are processes of their own, which share the
            ``state_dir`` with the slots from ``slot`` on. They import the modules of the topology
            again: what the main program has set in one does not exist there. See docs/workers.md.
        serve: ``"host:port"`` to answer queries at, over HTTP, or a :class:`Serving` with a token,
            TLS and limits. Instances that are given it know of each other. See docs/queries.md.
        window_emit_interval: least wall-clock time between two looks for closed windows, for
            ``emit="close"``; goes before what ``StreamsBuilder`` was given. Neither: a second.
        outer_join_emit_interval: the same for the unmatched rows of left and outer stream joins.
        on_state_loss: what happens where committed state is missing, because a changelog has lost
            records or the local rows of a store without a changelog are not there: ``"fail"``
            raises RestoreError; ``"continue"`` logs an ERROR and begins with what is left. See
            docs/state-loss.md.
        on_data_loss: what follows where records of an input are gone that were not processed: their
            offset is committed and the topic begins later, or ends before it. ``"fail"`` raises
            RestoreError; ``"continue"`` logs an ERROR, counts them
            (``input_records_lost_total``), and reads on at the first record that is there,
            whatever ``offset_reset`` says. See docs/missing-data.md.
        aborts_max: how many transactions may fail within ten minutes for other reasons than errors
            of the brokers (functions that outlast a transaction, damaged stores, another process
            with the same transactional id) before the worker fails. See docs/outages.md.
        standby_replicas: how many other instances keep a copy of each task's state, so that a task
            that moves there replays the last second only; or :class:`StandbySettings` with a limit
            of bandwidth and the lag at which an instance joins. See docs/standbys.md.

    Raises:
        ConfigError: with every problem of the configuration at once.
        StateDirectoryError: the directory is not writable, or another process uses it.
    """

    _thread: threading.Thread | None = None
    _has_begun = False
    #: the thread that the worker runs in, once it does
    _runner: int | None = None

    def __init__(
        self,
        topology: Topology | str | Callable[[], Topology | StreamsBuilder],
        *,
        application_id: str,
        bootstrap: str,
        state_dir: str | Path,
        guarantee: Guarantee = "exactly_once",
        commit_interval: timedelta = timedelta(milliseconds=100),
        kafka: Mapping[str, Any] | None = None,
        consumer: Mapping[str, Any] | None = None,
        producer: Mapping[str, Any] | None = None,
        admin: Mapping[str, Any] | None = None,
        offset_reset: str | timedelta = "earliest",
        replication_factor: int = -1,
        topic_config: Mapping[str, str] | None = None,
        checkpoint_interval: timedelta = timedelta(seconds=10),
        checkpoint_bytes: int = CHECKPOINT_BYTES,
        cache_bytes: int = CACHE_BYTES,
        state_cleanup_delay: timedelta | None = timedelta(minutes=10),
        changelog_writes: ChangelogWrites = "commit",
        group_protocol: Literal["consumer", "classic"] = "consumer",
        static_membership: bool = False,
        slot: int = 0,
        restore_listener: RestoreListener | None = None,
        error_handlers: ErrorHandlers | None = None,
        renamed: Mapping[str, str] | None = None,
        forget: Collection[str] = (),
        start_timeout: timedelta | None = None,
        uncaught_exception_handler: UncaughtHandler = "stop_instance",
        workers: int = 1,
        serve: str | Serving | None = None,
        standby_replicas: int | StandbySettings = 0,
        window_emit_interval: timedelta | None = None,
        outer_join_emit_interval: timedelta | None = None,
        on_state_loss: OnStateLoss = "fail",
        on_data_loss: OnDataLoss = "fail",
        aborts_max: int = ABORTS_MAX,
        cluster: Cluster | None = None,
        clock: Clock | None = None,
    ) -> None:
        plan, target = resolved(topology)
        self._ended = threading.Event()
        self._settings = settings = AppSettings(
            plan,
            application_id,
            bootstrap,
            guarantee,
            commit_interval,
            ClientSettings.of(kafka, consumer, producer, admin),
            offset_reset,
            replication_factor,
            {} if topic_config is None else topic_config,
            StateWrites(checkpoint_interval, checkpoint_bytes, changelog_writes),
            LocalRows(cache_bytes, state_cleanup_delay),
            group_protocol,
            static_membership,
            slot,
            FAIL_ALWAYS if error_handlers is None else error_handlers,
            MigrationOptions({} if renamed is None else renamed, forget),
            start_timeout,
            state_dir,
            uncaught_exception_handler,
            workers,
            serving_of(serve),
            StandbySettings.of(standby_replicas),
            restore_listener,
            window_emit_interval,
            outer_join_emit_interval,
            FaultSettings(on_data_loss, on_state_loss, aborts_max),
        ).checked()
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
        it does what it does without ``run``. Raises what stopped the worker.
        """
        self._begin()
        with ExitStack() as held:
            if handle_signals:
                held.enter_context(signal_handlers(self.application_id, self._owner, self.stop))
            self._run_workers()
        self._raise_failure()

    def start(self, *, timeout: timedelta | None = None, waits: bool = True) -> Self:
        """Run in a thread of its own; returns when the group was joined, and ``state`` says so.

        While the brokers are away it waits, as long as ``start_timeout`` allows; without ``waits``
        it returns at once, and ``is_ready`` tells the rest. Raises what made the start fail:
        missing topics, wrong counts, refused credentials; or TimeoutError, and the application
        stops, if it takes longer than ``timeout``.
        """
        check(durations("start()", timeout=timeout, optional=True))
        self._begin()
        thread = threading.Thread(
            target=self._run_workers, name=f"logstate-{self.application_id}", daemon=True
        )
        try:
            thread.start()
        except RuntimeError as refusal:  # the system has no thread left
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
            self.stop()
            why = self.is_ready().reason
            raise TimeoutError(f"the application did not start within {timeout} ({why}); it stops")
        return self

    def wait_until_running(self, timeout: timedelta = timedelta(seconds=60)) -> None:
        """Wait until at least one task runs and none is being restored.

        Raises TimeoutError, what stopped the worker meanwhile, or LogstateError where it ended, and
        where the worker's own thread would wait for itself.
        """
        check(durations("wait_until_running()", timeout=timeout))
        if self._is_own_thread():
            raise LogstateError(
                f"wait_until_running() of application {self.application_id!r} was called in the"
                " thread that runs it, by a function or a listener: nothing goes on until that"
                " returns. Wait in another thread"
            )
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

    def stop(self, *, leave_group: bool = False) -> None:
        """Ask the worker to finish; safe in signal handlers and from any thread.

        ``leave_group``: as for ``close``.
        """
        self._workers.stop(leaves_group=leave_group)

    def pause(self) -> None:
        """Process nothing and punctuate nothing, until ``resume``; from any thread, at any time.

        The worker follows after the records at hand; ``state`` is ``PAUSED`` then. It stays a
        member of the group and keeps its partitions: they are paused at the client, those that
        come by a rebalance too. What is done is committed, restores and global tables go on, and
        stores are read as ever.
        """
        self._workers.pause(True)

    def resume(self) -> None:
        """Go on after ``pause``; a wall-clock punctuation that was missed comes once."""
        self._workers.pause(False)

    def add_worker(self) -> int:
        """Have one worker process more; returns how many there are to be.

        From any thread, while it runs; of instances that were given ``workers=2`` or more, else
        ConfigError. The group moves tasks to it once it has joined; until then everything is as it
        was. The Kafka Streams call is ``addStreamThread``.
        """
        return self._workers.scale(1)

    def remove_worker(self) -> int:
        """Have one worker process less: the newest commits, leaves the group and ends.

        Returns how many there are to be; raises ConfigError for the last one. The Kafka Streams
        call is ``removeStreamThread``.
        """
        return self._workers.scale(-1)

    def clean_up(self) -> None:
        """Delete the local state: the next start restores all of it from the changelogs.

        Before the start or after the end. Raises LogstateError while it runs, StateDirectoryError
        where another instance uses the directory.
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

        With ``static_membership`` the group waits for its return until the session is over;
        ``leave_group`` has it give the partitions to others at once (KIP-812).
        Raises what stopped the worker, unless ``start`` or ``run`` raised it already; TimeoutError
        if it does not end in time. Worker processes that do not are killed. Where ``run`` runs in
        another thread, it waits for that one, which raises what stopped the worker. In the worker's
        own thread (a function, a listener, a signal handler) nobody can wait for it: it asks, as
        ``stop`` does, and logs that. In a process that was forked from the one that made it, it
        does nothing and logs that.
        """
        if not self._owner.is_here:
            self._owner.forget()
            return
        check(durations("close()", timeout=timeout))
        self._workers.stop(timeout, leaves_group=leave_group)
        if self._is_own_thread():
            _LOGGER.warning(
                "close() of application %s was called in the thread that runs it, by a function, a"
                " listener or a signal handler: it stops once that has returned, as by stop()."
                " Whoever has to wait for the end calls close() in another thread",
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
            self.stop()  # a start that was cancelled goes on in its thread otherwise
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.__exit__, kind, exc, tb)

    # ------------------------------------------------------------------ pieces

    def _has_started(self) -> bool:
        """The workers have, and whoever asks for the state is told so."""
        return self._workers.is_started and self.state is not ApplicationState.STARTING

    def _begin(self) -> None:
        self._owner.check()
        if self._has_begun:
            raise LogstateError(
                f"application {self.application_id!r} was started already; an Application runs"
                " once: make a new one"
            )
        if is_worker.is_set():
            raise LogstateError(
                f"application {self.application_id!r} was started while a worker process imported"
                " the module that does so. Start it in a function, or below"
                ' `if __name__ == "__main__":`'
            )
        if self._presence is not None:
            self._presence.listen()
        self._has_begun = True
        self._lifecycle.move_to(ApplicationState.STARTING)

    def _run_workers(self, refusal: BaseException | None = None) -> None:
        """In the thread that runs them; or, with the ``refusal`` of such a thread, to end so."""
        presence = self._presence

        def first() -> None:
            if refusal is not None:
                raise refusal
            if presence is not None:
                presence.start(self.asgi)

        def has_ended() -> None:
            self._runner = None
            self._ended.set()

        self._runner = threading.get_ident()
        with ExitStack() as ending:
            ending.callback(has_ended)
            if presence is not None:
                ending.callback(presence.stop)
            self._workers.run(first)

    def _is_own_thread(self) -> bool:
        return self._runner == threading.get_ident()

    def _raise_failure(self) -> None:
        """Raise what stopped the worker, once, and when nothing of it runs any more."""
        failure, self._workers.failure = self._workers.failure, None
        if failure is not None:
            self._ended.wait()  # whoever is told may start another one at once
            raise failure
