"""The local rows of a task before it runs: opened, judged, given up where they cannot be right.

The same for a task that is assigned and for one that is followed in case it will be.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

from logstate.contracts.clock import Clock
from logstate.contracts.closing import Closing
from logstate.contracts.error_text import text_of
from logstate.contracts.errors import StoreCorruptedError
from logstate.contracts.records import TopicPartition
from logstate.contracts.seams import Admin, Step, Steps
from logstate.contracts.stores import StoreSpec
from logstate.restore.restore_plan import (
    TOMBSTONE_LIFETIME_MS,
    LogRange,
    check_replay,
    first_offset,
    target_of,
)
from logstate.task.owned_task import OwnedTask, StoreTarget
from logstate.task.task import Task
from logstate.topics.bound_plan import BoundPlan

_LOGGER = logging.getLogger(__name__)


def log_ranges(
    admin: Admin, partitions: Sequence[TopicPartition]
) -> Steps[Mapping[TopicPartition, LogRange]]:
    """Where logs begin and end now."""
    starts = yield Step("start_offsets", admin.start_offsets, (partitions,))
    ends = yield Step("end_offsets", admin.end_offsets, (partitions,))
    return {tp: LogRange(starts[tp], ends[tp]) for tp in partitions}


class TaskRows:
    """See the module. ``new_task`` opens the stores of a task; ``destroy_state`` removes them."""

    def __init__(
        self,
        plan: BoundPlan,
        clock: Clock,
        new_task: Callable[[OwnedTask], Task],
        destroy_state: Callable[[OwnedTask], None],
    ) -> None:
        self._plan = plan
        self._clock = clock
        self._new_task = new_task
        self._destroy_state = destroy_state

    def open(
        self,
        owned: OwnedTask,
        changelogs: Mapping[TopicPartition, StoreSpec],
        logs: Mapping[TopicPartition, LogRange],
    ) -> None:
        """Open the task's stores, rebuilding the directory where its identity does not hold."""
        try:
            if owned.task_or_none is None:
                owned.task_or_none = self._new_task(owned)
            self._set_targets(owned, changelogs, logs)
        except StoreCorruptedError as exc:
            self.give_up(owned, exc)
            owned.task_or_none = self._new_task(owned)
            self._set_targets(owned, changelogs, logs)

    def unlogged(self, owned: OwnedTask) -> list[str]:
        """The stores without a changelog that hold rows here; opens the task's stores for it."""
        specs = self._plan.sub_topology(owned.task_id).stores
        if all(spec.is_logged for spec in specs):
            return []
        try:
            if owned.task_or_none is None:
                owned.task_or_none = self._new_task(owned)
            return owned.task.state.unlogged_rows()
        except StoreCorruptedError as exc:
            self.give_up(owned, exc)
            return []

    def check_replays(self, owned: OwnedTask) -> None:
        """What was replayed must not have been overtaken; raises as ``check_replay`` does."""
        now = self._clock.wall_clock_ms()
        for target in owned.targets:
            if target.since_ms is not None:
                check_replay(
                    target.store,
                    target.changelog,
                    since_ms=target.since_ms,
                    now_ms=now,
                    is_whole=target.is_whole,
                    tombstone_lifetime_ms=self._tombstone_lifetime_ms(target.changelog),
                )

    def _tombstone_lifetime_ms(self, changelog: TopicPartition) -> int:
        known = self._plan.tombstone_lifetimes_ms
        return known.get(changelog.topic, TOMBSTONE_LIFETIME_MS)

    def rebuild(self, owned: OwnedTask, damage: StoreCorruptedError) -> None:
        """Give up the local state of a task if it is the one that was found damaged."""
        task = owned.task_or_none
        if task is not None and damage.path is not None and task.state.path == damage.path:
            self.give_up(owned, damage)

    def end(self, owned: OwnedTask, *, applies: bool) -> None:
        """Close a task, see `Task.end`. Where that meets damage, its rows are given up."""
        try:
            owned.task.end(applies=applies)
        except StoreCorruptedError as exc:
            self.give_up(owned, exc)

    def give_up(self, owned: OwnedTask, cause: StoreCorruptedError) -> None:
        """Close the task and move its rows out of the way."""
        _LOGGER.warning("task %s: its local state is rebuilt: %s", owned.task_id, text_of(cause))
        owned.current_ms = None
        unlogged = [
            spec.name
            for spec in self._plan.sub_topology(owned.task_id).stores
            if not spec.is_logged and not spec.in_memory
        ]
        if unlogged:
            _LOGGER.error(
                "task %s: stores %s have no changelog: they are empty now; their files are in the"
                " quarantine directory",
                owned.task_id,
                unlogged,
            )
        if owned.task_or_none is not None:
            closing = Closing(cause)  # what is damaged may not even close
            closing.call(owned.task_or_none.close)
            owned.task_or_none = None
        self._destroy_state(owned)

    def _set_targets(
        self,
        owned: OwnedTask,
        changelogs: Mapping[TopicPartition, StoreSpec],
        logs: Mapping[TopicPartition, LogRange],
    ) -> None:
        state = owned.task.state
        now = self._clock.wall_clock_ms()
        if not state.meta.caught_up_at_ms and not state.meta.positions:
            # New stores miss no deletion so far. One that is restored in parts has to be told apart
            # from one that stopped half way and comes back when tombstones are gone.
            state.meta.caught_up_at_ms = now
        owned.targets = []
        for changelog, spec in changelogs.items():
            log = logs[changelog]
            topic_id = self._plan.topic_ids.get(changelog.topic)
            committed = owned.start_positions[changelog] if spec.source_topic else None
            known = state.positions.get(spec.name)
            first = first_offset(
                spec.name,
                changelog,
                known,
                log,
                meta=state.meta,
                topic_id=topic_id,
                now_ms=now,
                committed=committed,
                is_trimmed=spec.traits.is_segmented,
                tombstone_lifetime_ms=self._tombstone_lifetime_ms(changelog),
            )
            state.positions[spec.name] = first
            if topic_id is not None:
                state.meta.topic_ids[spec.name] = topic_id
            target = target_of(log, committed)
            found = StoreTarget(spec.name, changelog, target, is_whole=known is None)
            if first < target:
                found.since_ms = now if known is None else state.meta.caught_up_at_ms or None
            owned.targets.append(found)
