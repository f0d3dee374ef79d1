"""The workers of an instance, each in a process of its own.

One thread, the one that calls :meth:`WorkerProcesses.run`, starts the processes, reads what they
tell, and does what the supervisor decides.
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
from logstate.app.instance.supervisor import Action
from logstate.app.instance.worker_pool_status import Instance, WorkerPoolStatus
from logstate.app.instance.worker_process import Spawn, WorkerProcess
from logstate.contracts.clock import Clock
from logstate.contracts.error_text import text_of
from logstate.contracts.errors import ConfigError, LogstateError
from logstate.restore.restore import RestoreProgress, tell
from logstate.restore.standby_assignor import EMPTY_GROUP, GroupView

_LOGGER = logging.getLogger(__name__)

#: how long workers may take to commit and leave the group; orchestrators kill after 30 s
DRAIN_MS = 25_000.0
_LOOK_S = 1.0
#: how long one worker is listened to before it is the others' turn, and that of what was decided
_SHARE_MS = 50.0


@dataclass(frozen=True)
class StartCommand:
    """What a worker process is told first."""

    number: int
    is_paused: bool
    log_levels: dict[str, int]
    #: what it runs, as the module of the process understands it
    program: bytes


class WorkerProcesses(WorkerPoolStatus):
    """See the module. ``spawn`` starts the process of a number; ``program`` is what it runs."""

    def __init__(
        self, instance: Instance, program: bytes, spawn: Spawn, clock: Clock, lifecycle: Lifecycle
    ) -> None:
        super().__init__(instance, clock)
        self._program = program
        self._spawn = spawn
        self._lifecycle = lifecycle
        self._is_paused = False
        self._group_view = EMPTY_GROUP
        #: why all instances of the application are to stop; empty: they are not
        self.stops_all = ""
        #: by another instance
        self._ordered: LogstateError | None = None
        self._ordering = threading.Lock()
        #: how long the workers may take to end; None: nobody has asked for it
        self._drain_ms: float | None = None
        #: how many workers were asked for, as the supervisor does not know yet
        self._scale: int | None = None
        #: static members end for good
        self.leaves_group = False
        self._wakes, self._wake = os.pipe()
        os.set_blocking(self._wake, False)
        #: taken once more by a thread that a signal interrupts, whose handler calls `stop`
        self._waking = threading.RLock()

    # ------------------------------------------------------------------ running

    def run(self, first: Callable[[], object] = lambda: None) -> None:
        """Until all have ended; ``failure`` has the reason where that was not asked for.

        Nobody else hears of what is raised in this thread, so what has to be done in it before all
        else, ``first``, is done here.
        """
        end = ApplicationState.STOPPED
        try:
            first()
            while not self._supervisor.is_over:
                self._turn()
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
        """Have all end, and killed if they take longer; safe in signal handlers."""
        self.leaves_group = self.leaves_group or leaves_group
        self._drain_ms = DRAIN_MS if within is None else within.total_seconds() * 1000
        self._stir()

    def scale(self, by: int) -> int:
        """Have so many more, or fewer; returns how many there are to be. From any thread."""
        with self._ordering:
            wanted = (self.count if self._scale is None else self._scale) + by
            if wanted < 1:
                raise ConfigError("the last worker cannot be removed: stop() ends the instance")
            self._scale = wanted
        self._stir()
        return wanted

    def _stir(self) -> None:
        # Not while `release` closes it: its number may be another file's afterwards.
        with self._waking, contextlib.suppress(OSError):
            os.write(self._wake, b"!")

    def stop_for(self, reason: LogstateError) -> None:
        """Have all end as by ``stop``, and fail with the reason then."""
        self._ordered = reason
        self.stop()

    def pause(self, is_paused: bool) -> None:
        """Process nothing, or go on; workers that start later too."""
        with self._ordering:  # the order of a worker that starts comes first
            self._is_paused = is_paused
            for one in list(self._processes.values()):
                one.channel.send("pause", is_paused)

    def know(self, group_view: GroupView) -> None:
        """Tell all who is in the group, and who was; workers that start later too."""
        with self._ordering:
            if group_view == self._group_view:
                return
            self._group_view = group_view
            for one in list(self._processes.values()):
                one.channel.send("group_view", group_view)

    def release(self) -> None:
        """Let go of what it takes to be told to stop."""
        with self._waking:
            wakes, self._wakes, wake, self._wake = self._wakes, -1, self._wake, -1
            for fd in (wakes, wake):
                if fd >= 0:
                    os.close(fd)

    def clean_up(self) -> None:
        """Delete the local state; nothing runs."""
        self._instance.clean_up()

    def _turn(self) -> None:
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
        wait_ms = supervisor.wait_ms(now)
        self._listen(_LOOK_S if wait_ms is None else min(_LOOK_S, wait_ms / 1000))

    def _carry_out(self, action: Action) -> None:
        number = action.worker
        if action.kind == "start":
            self._start(number)
        elif action.kind == "stop":
            is_for_good = self.leaves_group or not self._supervisor.is_stopping
            self._processes[number].channel.send("stop", is_for_good)
        else:
            _LOGGER.error(
                "worker %d did not end in time and is killed; what it had not committed is"
                " processed again",
                number,
            )
            self._processes[number].process.kill()

    def _start(self, number: int) -> None:
        try:
            one = self._spawned(number)
        except Exception as exc:  # noqa: BLE001  no process, file or thread left: it is over soon
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

    def _listen(self, timeout_s: float) -> None:
        found = {cast("Any", one.process.connection): one for one in self._processes.values()}
        for ready in wait([self._wakes, *found], timeout_s):
            if ready in found:
                self._hear(found[ready])
            else:
                os.read(self._wakes, 64)
        for one in list(self._processes.values()):
            if one.process.how_it_ended() is not None and not one.channel.has_message(0):
                self._ended(one)

    def _hear(self, one: WorkerProcess) -> None:
        """What one says within its share of the turn; the next turn goes on with the rest at once.

        One that always has more to say would keep the instance from all others, and from its end.
        """
        until_ms = self._clock.monotonic_ms() + _SHARE_MS
        try:
            while one.channel.has_message(0):
                self._told_by(one, *one.channel.receive())
                if self._clock.monotonic_ms() >= until_ms:
                    return
        except (EOFError, OSError):
            self._ended(one)

    def _told_by(self, one: WorkerProcess, kind: str, content: Any) -> None:
        if kind == "report":
            self._reported(one.number, content)
        elif kind == "metrics":
            self.metrics.told(one.number, content)
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
            tell(listener, progress)

    def _introduce(self) -> None:
        """Tell each worker which others have joined: the group tells it with its next heartbeat."""
        joined = {number for number, told in self._told.items() if told.report.facts.is_started}
        for number, one in self._processes.items():
            company = frozenset(joined - {number})
            if one.company != company:
                one.company = company
                one.channel.send("company", company)

    def _reported(self, number: int, report: WorkerReport) -> None:
        self._told = {**self._told, number: WorkerStatus(self._clock.monotonic_ms(), report)}
        self._introduce()
        if report.facts.is_started:
            self._supervisor.joined(number)

    def _ended(self, one: WorkerProcess) -> None:
        if self._processes.get(one.number) is not one:
            return
        del self._processes[one.number]
        told = self._told.get(one.number)
        if told is not None and told.report.member is not None and told.report.member[1]:
            self._away = {**self._away, one.number: told.report.member}
        self._told = {number: told for number, told in self._told.items() if number != one.number}
        self._introduce()
        self.metrics.ended(one.number)
        how = one.close("ended")
        self._has_ended(one.number, how, one.failure)

    def _has_ended(self, number: int, why: str, failure: Exception | None = None) -> None:
        is_ending, is_replaced = self._supervisor.is_ending(number), True
        if failure is not None:
            why = f"failed: {failure}"
        if failure is not None and not is_ending:  # what follows was decided before, else
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
                f"{given_up}. Look at what the worker logged last, and whether the system killed it"
                " for its memory"
            )
        self.failure.add_note(f"the instance ends: {given_up}")
        return self.failure

    def _notify(self) -> None:
        with self.changed:
            self.changed.notify_all()
