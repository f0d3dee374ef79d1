"""Work of a worker between commits that no result depends on: applying, freeing, purging."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence

from logstate.changelog.state import TaskState
from logstate.contracts.clients import Admin, Step, Steps
from logstate.contracts.clock import Clock
from logstate.contracts.error_text import text_of
from logstate.contracts.errors import BrokerError
from logstate.contracts.records import TaskId, TopicPartition
from logstate.contracts.worker_config import WorkerConfig
from logstate.task.owned_task import OwnedTask
from logstate.topics.bound_plan import BoundPlan

_LOGGER = logging.getLogger(__name__)

#: Rows are evicted down to the first share of the limit, and only if an exact count exceeds the
#: second: at least a quarter of the limit is added between two counts of all rows.
_EVICTED_TO, _EVICTED_FROM = 0.5, 0.75
#: a tenth of the default commit interval
_ENCODE_INTERVAL_MS = 100
_CHECK_INTERVAL_MS = 1_000


class Maintenance:
    """Decides when committed rows reach the local store and when internal records are deleted."""

    def __init__(
        self,
        config: WorkerConfig,
        clock: Clock,
        on_apply: Callable[[float], None] | None = None,
        check_state: Callable[[Iterable[TaskId]], None] = lambda _: None,
    ) -> None:
        self._check_state = check_state
        self._checked_ms = clock.monotonic_ms()
        self._config = config
        self._clock = clock
        self._on_apply = on_apply
        #: when the rows of a task must be applied
        self._due_ms: dict[TaskId, float] = {}
        self._last_purge_ms = clock.monotonic_ms()
        #: how far changelogs could have been trimmed at the last purge
        self._expired_then: dict[TopicPartition, int] = {}
        self._last_encoded_ms = float("-inf")
        #: an index is being built: the next step should not wait for records
        self.is_building = False

    def apply_if_due(self, tasks: Sequence[OwnedTask], now_ms: float) -> None:
        """Write committed rows to the local stores, rarely: the changelog is the durable copy.

        Call it right after a commit of the tasks: this proves that their rows are at the end of
        their changelogs now, which is stored even if there are no rows to write.
        """
        config = self._config
        wall_clock_ms = self._clock.wall_clock_ms()
        due_ms, self._due_ms = self._due_ms, {}
        waiting_rows = waiting_bytes = 0
        for place, owned in enumerate(tasks, 1):
            state = owned.task.state
            # Tasks that came together take turns: the records of all wait while one applies.
            first_due_ms = now_ms + config.checkpoint_interval_ms * place / len(tasks)
            due = due_ms.get(owned.task_id, first_due_ms)
            rows = state.unapplied_rows()
            waiting_rows += rows
            waiting_bytes += state.unapplied_bytes
            is_time = now_ms >= due
            # Below 0 after a clock was set back: the earlier value would count as recent for long.
            age_ms = wall_clock_ms - state.meta.caught_up_at_ms
            is_stale = not 0 <= age_ms < config.idle_commit_interval_ms
            applies = (
                (is_time and bool(rows))
                or rows >= config.checkpoint_rows_max
                or state.applies_always
                or is_stale
            )
            if applies:
                waiting_rows -= rows
                waiting_bytes -= state.unapplied_bytes
                self._write_rows(state, wall_clock_ms)
            if applies or is_time:
                due = now_ms + config.checkpoint_interval_ms
            self._due_ms[owned.task_id] = due
        states = [owned.task.state for owned in tasks]
        while waiting_bytes >= config.checkpoint_bytes or waiting_rows >= config.waiting_rows_max:
            largest = max(states, key=_size_key)
            waiting_rows -= largest.unapplied_rows()
            waiting_bytes -= largest.unapplied_bytes
            self._write_rows(largest, wall_clock_ms)
        self._bound_caches(states)

    def _write_rows(self, state: TaskState, wall_clock_ms: int) -> None:
        began_ms = self._clock.monotonic_ms()
        state.apply(wall_clock_ms)
        if self._on_apply is not None:
            self._on_apply(self._clock.monotonic_ms() - began_ms)

    def _bound_caches(self, states: Sequence[TaskState]) -> None:
        """Keep the clean rows of all tasks together within one limit."""
        bound = self._config.cache_bytes
        if sum(state.cached_bytes() for state in states) <= bound:
            return
        held = sum(state.recount_cached() for state in states)
        before = held + 1
        # Repeated if the newest rows are larger. Pending rows cannot be evicted.
        while bound * _EVICTED_FROM < held < before:
            for state in states:
                state.evict_cached(1 - bound * _EVICTED_TO / held)
            before, held = held, sum(state.cached_bytes() for state in states)

    def check_state(self, tasks: Sequence[OwnedTask]) -> None:
        """Check once a second whether the local state of running tasks still exists.

        Raises StateDirectoryError if it was deleted: the databases would notice that only with the
        next file that they open, many seconds later.
        """
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._checked_ms >= _CHECK_INTERVAL_MS:
            self._checked_ms = now_ms
            self._check_state([owned.task_id for owned in tasks])

    def encode_ahead(self, tasks: Sequence[OwnedTask]) -> None:
        """Encode rows while the worker is idle, which makes commits shorter.

        Not every time: a row that changes again is encoded again.
        """
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._last_encoded_ms >= _ENCODE_INTERVAL_MS:
            self._last_encoded_ms = now_ms
            for owned in tasks:
                owned.task.state.encode_pending()

    def turn(
        self, running: Sequence[OwnedTask], standbys: Iterable[OwnedTask], *, is_idle: bool
    ) -> None:
        """Take a step of building an index from rows that were there before it was declared.

        ``is_idle``: there are no records to process, so rows are encoded ahead.
        """
        if is_idle:
            self.encode_ahead(running)
        self.is_building = False
        for tasks, shows in ((running, True), (standbys, False)):
            for owned in tasks:
                task = owned.task_or_none
                if task is not None and task.state.index_builds.step(shows=shows):
                    self.is_building = True
                    return

    def purge(
        self, admin: Admin, plan: BoundPlan, tasks: Sequence[OwnedTask], now_ms: float
    ) -> Steps[None]:
        """Delete records that will not be read again; a failure is not fatal, only wasteful.

        Windows are deleted one interval after they have expired: readers of the stores at a recent
        cut still see them. It needs the DELETE permission on internal topics.
        """
        if now_ms - self._last_purge_ms < self._config.purge_interval_ms:
            return
        self._last_purge_ms = now_ms
        consumed = dict(
            each for owned in tasks for each in _consumed_repartition_offsets(plan, owned)
        )
        expired = dict(each for owned in tasks for each in _expired(plan, owned))
        then, self._expired_then = self._expired_then, expired
        # Of a task that started again, or a topic that was created again, less may have expired.
        trimmed = {log: min(then[log], offset) for log, offset in expired.items() if log in then}
        before = {log: offset for log, offset in (consumed | trimmed).items() if offset > 0}
        if before:
            try:
                yield Step("delete_records", admin.delete_records, (before,))
            except BrokerError as exc:
                _LOGGER.warning("internal records could not be purged: %s", text_of(exc))


def _size_key(state: TaskState) -> tuple[int, int]:
    """The task with the largest share of one limit is among the largest of the other."""
    return state.unapplied_bytes, state.unapplied_rows()


def _consumed_repartition_offsets(
    plan: BoundPlan, owned: OwnedTask
) -> list[tuple[TopicPartition, int]]:
    """Return the committed offsets of repartition topics."""
    offsets = owned.task.committed_offsets.items()
    return [(tp, offset) for tp, offset in offsets if tp.topic in plan.repartition_topics]


def _expired(plan: BoundPlan, owned: OwnedTask) -> list[tuple[TopicPartition, int]]:
    """Return the changelog offsets below which windows have expired."""
    state, partition = owned.task.state, owned.task_id.partition
    return [
        (TopicPartition(topic, partition), offset)
        for store, offset in state.trim_points().items()
        if (topic := plan.changelog_topics[store]) is not None
    ]
