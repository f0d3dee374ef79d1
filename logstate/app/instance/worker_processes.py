"""The workers of an instance, each in a separate process.

One thread, the one that calls :meth:`WorkerProcesses.run`, starts the processes, reads their
messages, and carries out the supervisor's decisions.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing.connection import wait
from typing import Any, cast

from logstate.app.instance.forwarded_logs import levels, log_again
from logstate.app.instance.reports import WorkerReport, WorkerStatus
from logstate.app.instance.restarts import response_to
from logstate.app.instance.states import ApplicationState, Lifecycle
from logstate.app.instance.supervisor import WorkerAction
from logstate.app.instance.worker_pool_status import Instance, WorkerPoolStatus
from logstate.app.instance.worker_process import Spawn, WorkerProcess
from logstate.contracts.clock import Clock
from logstate.contracts.error_text import text_of
from logstate.contracts.errors import ConfigError, LogstateError
from logstate.restore.restore import RestoreProgress, notify
from logstate.restore.standby_assignor import EMPTY_GROUP, GroupView
from logstate.worker.summary import Summary

_LOGGER = logging.getLogger(__name__)

#: how long workers may take to commit and leave the group; orchestrators kill after 30 s
DRAIN_MS = 25_000.0
_LOOK_S = 1.0
#: how long messages of one worker are read before it is the turn of the others
_SHARE_MS = 50.0


@dataclass(frozen=True)
class StartCommand:
    """The first message to a worker process."""

    number: int
    is_paused: bool
    log_levels: dict[str, int]
    #: the pickled program, as the module of the process expects it
    program: bytes


class WorkerProcesses(WorkerPoolStatus):
    """Runs worker processes. ``spawn`` starts the process of a number; ``program`` is its
    program.
    """

    def __init__(
        self, instance: Instance, program: bytes, spawn: Spawn, clock: Clock, lifecycle: Lifecycle
    ) -> None:
        super().__init__(instance, clock)
        self._summary = Summary(self.metrics, instance.summary_intervals)
        self._program = program
        self._spawn = spawn
        self._lifecycle = lifecycle
        self._is_paused = False
        self._group_view = EMPTY_GROUP
        #: why all instances of the application must stop; empty: they must not
        self.stops_all = ""
        #: the reason that another instance gave for stopping
        self._ordered: LogstateError | None = None
        self._ordering = threading.Lock()
        #: how long the workers may take to end; None: not requested
        self._drain_ms: float | None = None
        #: the requested number of workers, until the supervisor receives it
        self._scale: int | None = None
        #: static members leave the group for good
        self.leaves_group = False
        self._wakes, self._wake = os.pipe()
        os.set_blocking(self._wake, False)
        #: reentrant: a signal may interrupt a thread that holds it, and its handler calls `stop`
        self._waking = threading.RLock()

    # ------------------------------------------------------------------ running

    def run(self, first: Callable[[], object] = lambda: None) -> None:
        """Run until all workers have ended; sets ``failure`` if that was not requested.

        Exceptions of this thread are not seen elsewhere, so ``first``, which must run in it before
        anything else, is called here.
        """
        end = ApplicationState.STOPPED
        try:
            first()
            while not self._supervisor.is_over:
                self._supervise_once()
            if self._supervisor.given_up is not None:
                raise self._reason()
            if self._ordered is not None:
                raise self._ordered
        except BaseException as exc:  # noqa: BLE001  kept, and raised in the caller's thread
            end, self.failure, self._stopped_by = ApplicationState.ERROR, exc, str(exc)
            _LOGGER.error("application %s stopped: %s", self._instance.application_id, text_of(exc))
        finally:
            for one in list(self._processes.values()):
                one.process.kill()
                self._ended(one)
            self.is_finished = True
            self.release()
            self._lifecycle.move_to(end)
            self._notify()

    def stop(self, within: timedelta | None = None, *, leaves_group: bool = False) -> None:
        """Stop all workers, and kill them if they take longer; safe in signal handlers."""
        self.leaves_group = self.leaves_group or leaves_group
        self._drain_ms = DRAIN_MS if within is None else within.total_seconds() * 1000
        self._wake_thread()

    def scale(self, by: int) -> int:
        """Add or remove workers; returns the new number. Called from any thread."""
        with self._ordering:
            wanted = (self.count if self._scale is None else self._scale) + by
            if wanted < 1:
                raise ConfigError("the last worker cannot be removed: stop() ends the instance")
            self._scale = wanted
        self._wake_thread()
        return wanted

    def _wake_thread(self) -> None:
        # `release` must not close it meanwhile: its number may belong to another file afterwards.
        with self._waking, contextlib.suppress(OSError):
            os.write(self._wake, b"!")

    def stop_for(self, reason: LogstateError) -> None:
        """Stop all workers as ``stop`` does, then fail with the reason."""
        self._ordered = reason
        self.stop()

    def pause(self, is_paused: bool) -> None:
        """Pause or resume processing, also in workers that start later."""
        with self._ordering:  # a starting worker must receive its start command first
            self._is_paused = is_paused
            for one in list(self._processes.values()):
                one.channel.send("pause", is_paused)

    def update_group_view(self, group_view: GroupView) -> None:
        """Send the group's present and past members to all workers, including later ones."""
        with self._ordering:
            if group_view == self._group_view:
                return
            self._group_view = group_view
            for one in list(self._processes.values()):
                one.channel.send("group_view", group_view)

    def release(self) -> None:
        """Close the pipe that wakes the thread."""
        with self._waking:
            wakes, self._wakes, wake, self._wake = self._wakes, -1, self._wake, -1
            for fd in (wakes, wake):
                if fd >= 0:
                    os.close(fd)

    def clean_up(self) -> None:
        """Delete the local state; only while nothing runs."""
        self._instance.clean_up()

    def _supervise_once(self) -> None:
        supervisor, now = self._supervisor, self._clock.monotonic_ms()
        with self._ordering:
            if self._scale is not None:
                supervisor.scale(self._scale, now, DRAIN_MS)
                self._scale = None
        if self._drain_ms is not None:
            supervisor.stop(now, self._drain_ms)
        elif supervisor.given_up is not None:
            supervisor.stop(now, DRAIN_MS)
        for action in supervisor.actions(now):
            self._carry_out(action)
        self._lifecycle.follow(self.facts())
        self._notify()
        if self._summary.is_due(now):
            self._summary.log(now, self.lags().values())
        wait_ms = supervisor.wait_ms(now)
        self._wait_for_messages(_LOOK_S if wait_ms is None else min(_LOOK_S, wait_ms / 1000))

    def _carry_out(self, action: WorkerAction) -> None:
        number = action.worker
        if action.kind == "start":
            self._start(number)
        elif action.kind == "stop":
            is_for_good = self.leaves_group or not self._supervisor.is_stopping
            self._processes[number].channel.send("stop", is_for_good)
        else:
            _LOGGER.error(
                "worker %d did not end in time and is killed; its uncommitted records are"
                " processed again",
                number,
            )
            self._processes[number].process.kill()

    def _start(self, number: int) -> None:
        try:
            one = self._spawned(number)
        except Exception as exc:  # noqa: BLE001  out of processes, files or threads for a while
            self._has_ended(number, f"could not be started: {type(exc).__name__}: {exc}")
            return
        with self._ordering:
            self._processes[number] = one
            order = StartCommand(number, self._is_paused, levels(), self._program)
            one.channel.send("order", order)
            one.channel.send("group_view", self._group_view)

    def _spawned(self, number: int) -> WorkerProcess:
        process = self._spawn(number)
        try:
            return WorkerProcess(number, process)
        except BaseException:
            process.kill()
            process.close()
            process.connection.close()
            raise

    # ------------------------------------------------------------------ listening

    def _wait_for_messages(self, timeout_s: float) -> None:
        found = {cast("Any", one.process.connection): one for one in self._processes.values()}
        for ready in wait([self._wakes, *found], timeout_s):
            if ready in found:
                self._read_messages(found[ready])
            else:
                os.read(self._wakes, 64)
        for one in list(self._processes.values()):
            if one.process.how_it_ended() is not None and not one.channel.has_message(0):
                self._ended(one)

    def _read_messages(self, one: WorkerProcess) -> None:
        """Read messages of a worker for its share of the turn; the next turn continues at once.

        Without a limit, a worker with a steady flow of messages would block all others and the
        stop.
        """
        until_ms = self._clock.monotonic_ms() + _SHARE_MS
        try:
            while one.channel.has_message(0):
                self._handle(one, *one.channel.receive())
                if self._clock.monotonic_ms() >= until_ms:
                    return
        except (EOFError, OSError):
            self._ended(one)

    def _handle(self, one: WorkerProcess, kind: str, content: Any) -> None:
        if kind == "report":
            self._reported(one.number, content)
        elif kind == "metrics":
            self.metrics.update(one.number, content)
        elif kind == "log":
            log_again(one.number, content)
        elif kind == "answer":
            one.answered(*content)
        elif kind == "restore":
            self._restored(content)
        elif kind == "ended":
            one.failure = content

    def _restored(self, progress: RestoreProgress) -> None:
        listener = self._instance.restore_listener
        if listener is not None:
            notify(listener, progress)

    def _send_siblings(self) -> None:
        """Send each worker its started siblings: the group may notify it much later."""
        started = {
            number: len(status.report.tasks)
            for number, status in self._statuses.items()
            if status.report.facts.is_started
        }
        for number, one in self._processes.items():
            siblings = {other: tasks for other, tasks in started.items() if other != number}
            if one.siblings != siblings:
                one.siblings = siblings
                one.channel.send("siblings", siblings)

    def _reported(self, number: int, report: WorkerReport) -> None:
        self._statuses = {
            **self._statuses,
            number: WorkerStatus(self._clock.monotonic_ms(), report),
        }
        self._send_siblings()
        if report.facts.is_started:
            self._supervisor.joined(number)
        self.readiness()  # it depends on whether the instance was ready before

    def _ended(self, one: WorkerProcess) -> None:
        if self._processes.get(one.number) is not one:
            return
        del self._processes[one.number]
        status = self._statuses.get(one.number)
        if status is not None and status.report.member is not None and status.report.member[1]:
            self._away = {**self._away, one.number: status.report.member}
        self._statuses = {
            number: status for number, status in self._statuses.items() if number != one.number
        }
        self._send_siblings()
        self.metrics.ended(one.number)
        how = one.close("ended")
        self._has_ended(one.number, how, one.failure)

    def _has_ended(self, number: int, why: str, failure: Exception | None = None) -> None:
        is_ending, is_replaced = self._supervisor.is_ending(number), True
        if failure is not None:
            why = f"failed: {failure}"
        if failure is not None and not is_ending:  # otherwise the response was decided before
            response = response_to(self._instance.uncaught, failure)
            is_replaced = response == "replace_worker"
            if response == "stop_application":
                self.stops_all = str(failure)
        level = logging.INFO if is_ending and failure is None else logging.ERROR
        _LOGGER.log(level, "worker %d %s", number, why)
        now = self._clock.monotonic_ms()
        self._supervisor.ended(number, now, why, is_replaced=is_replaced)
        if failure is not None and self._supervisor.given_up is not None:
            self.failure = self.failure or failure

    def _reason(self) -> BaseException:
        given_up = self._supervisor.given_up
        if self.failure is None:
            return LogstateError(
                f"{given_up}. Check the last log lines of the worker, and whether the system killed"
                " it because of its memory use"
            )
        self.failure.add_note(f"the instance ends: {given_up}")
        return self.failure

    def _notify(self) -> None:
        with self.changed:
            self.changed.notify_all()
