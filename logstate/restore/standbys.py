"""Standbys: copies of the state of tasks owned by other members, updated from the changelogs.

A standby is a restore that does not end: the same code opens, checks and loads the rows, reading
committed records up to the end that the log had when it was requested, and again a second later. No
conversion is needed when its task is assigned here (``take``): the task is handed over unchanged
and goes through the stages of every assignment. The records that the standby has not read yet are
replayed then, up to the usual target: only the position of the rows matters, not which code wrote
them.

A standby never delays other work. While tasks run, no thread waits for its requests to the brokers.
It opens or writes one task per turn, or frees a part of one task's rows, and then pauses for longer
than that took. Databases are closed on a separate thread. It reads at a limited rate, and every
failure of a standby is logged and retried.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from logstate.changelog.cut import Cut
from logstate.contracts.clients import Admin, Background, Cluster, Pending, Step, Steps
from logstate.contracts.clock import Clock
from logstate.contracts.error_text import text_of
from logstate.contracts.errors import (
    DirectoryInUseError,
    ErrorCollector,
    LogstateError,
    RetriableError,
    StoreCorruptedError,
)
from logstate.contracts.records import TaskId, TopicPartition
from logstate.contracts.worker_config import WorkerConfig
from logstate.restore.async_request import AsyncRequest
from logstate.restore.missing_records import LogRange
from logstate.restore.rate_limiter import RateLimiter, Throttle
from logstate.restore.restore import Restorer
from logstate.restore.restore_plan import target_of
from logstate.restore.standby_logs import READ_MS, StandbyLogs
from logstate.restore.task_rows import TaskRows
from logstate.task.owned_task import OwnedTask, Stage
from logstate.task.task import Task
from logstate.topics.bound_plan import BoundPlan

_LOGGER = logging.getLogger(__name__)

#: delay before a retry; doubled each time, up to the maximum
_RETRY_MS = 1_000.0
_RETRY_LONGEST_MS = 60_000.0
#: rows of one task that are freed per turn: milliseconds of work
_FREED_ROWS = 10_000
#: epoch of tasks without an assignment
_NO_EPOCH = -1


class Standbys:
    """The standbys of one worker."""

    def __init__(
        self,
        plan: BoundPlan,
        config: WorkerConfig,
        cluster: Cluster,
        admin: Admin,
        clock: Clock,
        rows: TaskRows,
    ) -> None:
        self._plan = plan
        self._config = config
        self._admin = admin
        self._clock = clock
        self._rows = rows
        self._logs = StandbyLogs(plan, config.application_id, admin)
        self._follower = Restorer(
            config, cluster, None, clock.monotonic_ms, steps="standby", keeps_place=True
        )
        self._tasks: dict[TaskId, OwnedTask] = {}
        self._wanted: frozenset[TaskId] = frozenset()
        self._cluster = cluster
        self._background: Background | None = None
        self._openings = AsyncRequest(self._made_background)
        #: the task whose log ranges are requested in order to open it
        self._opening: OwnedTask | None = None
        self._ends = AsyncRequest(self._made_background)
        self._asked: list[OwnedTask] = []
        #: when the ends were last requested, monotonic and wall clock
        self._asked_ms, self._asked_wall_ms = float("-inf"), 0
        #: task -> when its current targets were requested, monotonic and wall clock
        self._ends_of: dict[TaskId, tuple[float, int]] = {}
        #: tasks that are being closed; they cannot be opened before that is done
        self._closings: dict[TaskId, Pending] = {}
        self._closer: Background | None = None
        #: tasks handed over by the worker with uncommitted writes
        self._undone: set[TaskId] = set()
        #: monotonic time of the last query of any standby; written by any thread
        self.read_ms = float("-inf")
        #: monotonic time of each task's last write
        self._written_ms: dict[TaskId, float] = {}
        #: task -> when it may be opened again, and the length of that wait
        self._waits: dict[TaskId, tuple[float, float]] = {}
        self._budget = RateLimiter(clock, config.standby_bytes_per_s)
        self._throttle = Throttle(clock)

    # ------------------------------------------------------------------ from the worker

    @property
    def has_more(self) -> bool:
        """True if there are records to read at once."""
        return not self._follower.is_idle and self._budget.may_read()

    @property
    def tasks(self) -> Mapping[TaskId, OwnedTask]:
        """The tasks that have a standby here."""
        return self._tasks

    def rest(self, ms: float) -> None:
        """Leave the worker to its own tasks for this long."""
        self._throttle.pause_at_least(ms)

    def want(self, tasks: Collection[TaskId]) -> None:
        """Keep standbys of these tasks, if they have changelogs, and of no others."""
        self._wanted = frozenset(task for task in tasks if self._plan.changelogs(task))

    def take(self, task_id: TaskId) -> Task | None:
        """Hand over the standby of a task that is now assigned here; None if there is none.

        Also returns None if its rows are damaged: they are discarded.
        """
        self._wait_until_closed(task_id)
        owned = self._unfollow(task_id)
        if owned is None:
            return None
        try:
            self._discard(owned)
            if owned.stage is Stage.STANDBY:
                owned.task.state.apply()
                _LOGGER.info("task %s: its standby is promoted at %s", task_id, _positions(owned))
        except LogstateError as exc:
            self._close_failed(owned, exc)
            if not isinstance(exc, StoreCorruptedError):
                raise
        return owned.task_or_none

    def keep(self, task_id: TaskId, task: Task) -> None:
        """Keep a revoked task as a standby in its last committed state, without reopening it.

        Freeing its rows and closing it take a while and the group waits for the revocation, so this
        is done later, one task per turn.
        """
        self._undone.add(task_id)
        owned = OwnedTask(task_id, self._plan.input_partitions(task_id), _NO_EPOCH)
        owned.task_or_none = task
        self._tasks[task_id] = owned

    def turn(self, timeout_s: float, *, busy: bool) -> Steps[None]:
        """Do one turn of work; wait at most ``timeout_s`` for records.

        ``busy``: running tasks wait for this turn. Opening and writing a database take
        milliseconds each, so a turn does only one of them, or frees a part of the rows, and then
        pauses.
        """
        self._end_closings()
        is_time = not busy or self._throttle.is_over
        unwanted = next((task_id for task_id in self._tasks if task_id not in self._wanted), None)
        if unwanted is not None and is_time:
            with self._throttle.piece():
                if not busy or not self._free_rows(self._tasks[unwanted]):
                    self._close_standby(unwanted, busy=busy)
            if busy:
                return
        if not self._wanted:
            yield from self._follower.rest()
            return
        try:
            if is_time and (yield from self._open_next(busy=busy)) and busy:
                return
            yield from self._ask_for_ends(busy=busy)
            if self._budget.may_read():
                before = self._follower.taken_bytes
                yield from self._follower.poll(timeout_s, busy=busy)
                self._budget.count_read(self._follower.taken_bytes - before)
        except RetriableError as exc:
            _LOGGER.debug("standbys wait: %s", text_of(exc))
            if not self._ends.is_under_way:
                self._asked_ms = self._clock.monotonic_ms()
        except LogstateError as exc:
            yield from self._all_failed(exc)
        for task_id, owned in list(self._tasks.items()) if is_time else ():
            with self._throttle.piece():
                is_written = self._write_if_current(task_id, owned)
            if is_written and busy:
                break

    def close(self) -> Steps[None]:
        """Write the rows of all standbys and close them."""
        closing = ErrorCollector()
        for task_id in list(self._tasks):
            closing.call(partial(self._close_standby, task_id, busy=False))
        for task_id in list(self._closings):
            closing.call(partial(self._wait_until_closed, task_id))
        if self._closer is not None:
            closing.call(self._closer.close)
        if self._background is not None:
            closing.call(self._background.close)
        yield from closing.steps(self._follower.close())
        closing.finish()

    # ------------------------------------------------------------------ pieces

    def _made_background(self) -> Background:
        if self._background is None:
            self._background = self._cluster.background()
        return self._background

    def _unfollow(self, task_id: TaskId) -> OwnedTask | None:
        """Stop following a task; None if it was not followed."""
        owned = self._tasks.pop(task_id, None)
        self._ends_of.pop(task_id, None)
        if self._opening is not None and self._opening.task_id == task_id:
            self._opening = None
            self._openings.abandon()
        if owned is not None:
            self._follower.remove(owned)
        return owned

    def _discard(self, owned: OwnedTask) -> None:
        """Discard all uncommitted writes of a task that the worker handed over."""
        if owned.task_id in self._undone:
            self._undone.remove(owned.task_id)
            owned.task.discard()

    def _free_rows(self, owned: OwnedTask) -> bool:
        """Free some rows of a task that will be dropped or restarted. False if it had none."""
        task = owned.task_or_none
        if task is not None and task.state.release(_FREED_ROWS):
            return True
        is_undone = owned.task_id in self._undone
        self._discard(owned)
        return is_undone

    def _close_standby(self, task_id: TaskId, *, busy: bool) -> None:
        owned = self._unfollow(task_id)
        task = None if owned is None else owned.task_or_none
        if owned is not None and task is not None:
            try:
                self._discard(owned)
                task.state.apply()
            except LogstateError as exc:
                _LOGGER.warning("task %s: its standby cannot be kept: %s", task_id, text_of(exc))
                self._close_failed(owned, exc)
            else:
                self._close(task_id, task, busy=busy)
        _LOGGER.info("task %s: no longer a standby here", task_id)

    def _close_failed(self, owned: OwnedTask, exc: LogstateError) -> None:
        """Close a failed standby and move its rows away if they are damaged."""
        self._undone.discard(owned.task_id)
        closing = ErrorCollector(exc)  # after a failure even closing may fail
        if isinstance(exc, StoreCorruptedError):
            closing.call(partial(self._rows.discard, owned, exc))
        elif owned.task_or_none is not None:
            closing.call(owned.task_or_none.close)

    def _close(self, task_id: TaskId, task: Task, *, busy: bool) -> None:
        if not busy:
            ErrorCollector().call(task.close)
            return
        if self._closer is None:  # separate from broker requests, which may block for a while
            self._closer = self._cluster.background()
        self._closings[task_id] = self._closer.start(task.close, ())

    def _end_closings(self) -> None:
        for task_id, pending in list(self._closings.items()):
            if pending.done():
                self._wait_until_closed(task_id)

    def _wait_until_closed(self, task_id: TaskId) -> None:
        pending = self._closings.pop(task_id, None)
        if pending is not None:
            # The next opening raises what is wrong with the files.
            ErrorCollector().call(pending.result)

    def _open_next(self, *, busy: bool) -> Steps[bool]:
        """Return True if a standby was opened or failed to open."""
        if self._opening is not None and self._opening.task_id not in self._wanted:
            self._opening = None
            self._openings.abandon()
        owned = self._opening = self._opening or self._next()
        if owned is None:
            return False
        with self._throttle.piece():
            if busy and self._free_rows(owned):
                return True
        try:
            ask = partial(self._logs.before_opening, owned)
            found = yield from self._openings.advance(ask, waits=not busy)
            if found is None:
                return False
            with self._throttle.piece():
                self._open(owned, *found)
        except LogstateError as exc:
            self._failed(owned, exc)
            return True
        self._opening = None
        self._waits.pop(owned.task_id, None)
        self._tasks[owned.task_id] = owned
        self._follower.add(owned)
        return True

    def _next(self) -> OwnedTask | None:
        """Return the first wanted standby that is not open and may be tried now."""
        now = self._clock.monotonic_ms()
        ready = [t for t in self._wanted if self._waits.get(t, (0.0, 0.0))[0] <= now]
        free = (t for t in ready if t not in self._closings and not self._is_followed(t))
        task_id = min(free, default=None)
        if task_id is None:
            return None
        kept = self._tasks.get(task_id)
        return kept or OwnedTask(task_id, self._plan.input_partitions(task_id), _NO_EPOCH)

    def _is_followed(self, task_id: TaskId) -> bool:
        owned = self._tasks.get(task_id)
        return owned is not None and owned.stage is Stage.STANDBY

    def _open(
        self,
        owned: OwnedTask,
        logs: Mapping[TopicPartition, LogRange],
        committed: dict[TopicPartition, int],
        cut: Cut | None,
    ) -> None:
        self._discard(owned)
        owned.start_positions = committed
        self._ends_of.pop(owned.task_id, None)
        self._rows.open(owned, self._plan.changelogs(owned.task_id), logs, cut)
        owned.move_to(Stage.STANDBY)

    def _ask_for_ends(self, *, busy: bool) -> Steps[None]:
        if not self._ends.is_under_way:
            now = self._clock.monotonic_ms()
            self._asked = [o for o in self._tasks.values() if o.stage is Stage.STANDBY]
            if not self._asked or now - self._asked_ms < self._config.standby_interval_ms:
                return
            self._asked_ms, self._asked_wall_ms = now, self._clock.wall_clock_ms()
        found = yield from self._ends.advance(self._new_ends, waits=not busy)
        if found is None:
            return
        ends, committed, inputs = found
        for owned in self._asked:
            if self._tasks.get(owned.task_id) is not owned or owned.stage is not Stage.STANDBY:
                continue  # it was promoted or restarted meanwhile
            shortened = [str(t.changelog) for t in owned.targets if ends[t.changelog] < t.target]
            if shortened:
                _LOGGER.warning("task %s: %s were truncated", owned.task_id, shortened)
                self._follower.remove(owned)
                owned.move_to(Stage.ASSIGNED)  # it is opened again and checked as at any start
                continue
            owned.start_positions = committed[owned.task_id]
            for target in owned.targets:
                log = LogRange(0, ends[target.changelog])
                end = target_of(log, owned.start_positions.get(target.changelog))
                target.target = max(target.target, end)
            self._ends_of[owned.task_id] = self._asked_ms, self._asked_wall_ms
            self._logs.look_at_inputs(owned, self._asked_ms, inputs)
            self._follower.add(owned)

    def _new_ends(self) -> Steps[tuple[Mapping[TopicPartition, int], Any, Any]]:
        inputs = yield from self._logs.inputs(self._asked, self._asked_ms - self.read_ms)
        changelogs = [target.changelog for owned in self._asked for target in owned.targets]
        ends = yield Step("end_offsets", self._admin.end_offsets, (changelogs,))
        committed = {}
        for owned in self._asked:
            committed[owned.task_id] = yield from self._logs.committed(owned)
        return ends, committed, inputs

    def _write_if_current(self, task_id: TaskId, owned: OwnedTask) -> bool:
        """Write an up-to-date standby, so that queries see its records. True if it was due."""
        if owned.stage is not Stage.STANDBY or not all(t.is_done for t in owned.targets):
            return False
        ends_of = self._ends_of.get(task_id)
        if ends_of is None:
            return False  # it was opened with ends that are older than any answer
        ends_ms, ends_of_ms = ends_of
        now = self._clock.monotonic_ms()
        if not self._is_due(owned, self._written_ms.get(task_id), now, ends_ms):
            return False
        try:
            self._rows.check_replays(owned)
            owned.task.state.apply(ends_of_ms)
            owned.task.state.followed()
        except LogstateError as exc:
            self._failed(owned, exc)
            return True
        self._written_ms[task_id] = now
        owned.current_ms = ends_ms
        owned.caught_up_ms = self._logs.caught_up.get(task_id, owned.caught_up_ms)
        for target in owned.targets:
            target.since_ms, target.is_whole = ends_of_ms, False
            target.shown = owned.task.state.positions.get(target.store, 0)
        return True

    def _is_due(
        self, owned: OwnedTask, written_ms: float | None, now: float, ends_ms: float
    ) -> bool:
        """Return True if the checkpoint interval is over or the standby was queried recently."""
        if written_ms is None or now - written_ms >= self._config.checkpoint_interval_ms:
            return True
        return now - self.read_ms < READ_MS and owned.current_ms != ends_ms

    def _failed(self, owned: OwnedTask, exc: LogstateError) -> None:
        """Close a failed standby and retry it later; other standbys and running tasks continue."""
        task_id, now = owned.task_id, self._clock.monotonic_ms()
        self._unfollow(task_id)
        self._follower.remove(owned)
        self._close_failed(owned, exc)
        _, waited = self._waits.get(task_id, (0.0, 0.0))
        wait_ms = min(max(_RETRY_MS, 2 * waited), _RETRY_LONGEST_MS)
        self._waits[task_id] = now + wait_ms, wait_ms
        is_usual = isinstance(exc, RetriableError | DirectoryInUseError)
        level = logging.DEBUG if is_usual else logging.WARNING
        _LOGGER.log(
            level, "standby of task %s failed, retry in %d ms: %s", task_id, wait_ms, text_of(exc)
        )

    def _all_failed(self, exc: LogstateError) -> Steps[None]:
        """Fail the standby whose rows are damaged, or all if it is unknown which."""
        path = exc.path if isinstance(exc, StoreCorruptedError) else None
        followed = list(self._tasks.values())
        blamed = [owned for owned in followed if path is not None and _path(owned) == path]
        for owned in blamed or followed:
            self._failed(owned, exc)
        yield from self._follower.close()


def _path(owned: OwnedTask) -> Path | None:
    return None if owned.task_or_none is None else owned.task_or_none.state.path


def _positions(owned: OwnedTask) -> dict[str, int]:
    return {str(t.changelog): owned.task.state.positions.get(t.store, 0) for t in owned.targets}
