"""The local rows of a task before it runs: open, check and, if they cannot be right, discard them.

Used for assigned tasks and for standbys.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence

from logstate.changelog.cut import Cut
from logstate.contracts.clients import Admin, Step, Steps
from logstate.contracts.clock import Clock
from logstate.contracts.error_text import text_of
from logstate.contracts.errors import ErrorCollector, RestoreError, StoreCorruptedError
from logstate.contracts.records import TaskId, TopicPartition
from logstate.contracts.stores import StoreSpec
from logstate.restore.missing_records import (
    LogRange,
    Needed,
    lost_beginning,
    lost_end,
    needed_records,
)
from logstate.restore.restore_plan import (
    TOMBSTONE_LIFETIME_MS,
    check_replay,
    first_offset,
    target_of,
)
from logstate.task.owned_task import DestroyState, OwnedTask, StoreTarget
from logstate.task.task import Task
from logstate.topics.bound_plan import BoundPlan

_LOGGER = logging.getLogger(__name__)

#: the user's options when committed state is missing
_RECOVERY_OPTIONS = (
    "Likely causes: the log was truncated, its records were deleted (kafka-delete-records, or a"
    " cleanup.policy with 'delete' for a while), or the topic was created again or restored from"
    " an old backup. Options: (1) start the instance whose state directory has the rows of this"
    " task, or copy that directory here; (2) restore the topic from a backup, with the same"
    " offsets; (3) start with the remaining rows: Application(on_state_loss='continue') for one"
    " start; (4) start from scratch: `logstate reset` deletes the state of all stores, and records"
    " that the inputs no longer hold cannot be recovered"
)


def log_ranges(
    admin: Admin, partitions: Sequence[TopicPartition]
) -> Steps[Mapping[TopicPartition, LogRange]]:
    """Return the start and end offsets of logs."""
    starts = yield Step("start_offsets", admin.start_offsets, (partitions,))
    ends = yield Step("end_offsets", admin.end_offsets, (partitions,))
    return {tp: LogRange(starts[tp], ends[tp]) for tp in partitions}


class TaskRows:
    """Opens and checks local rows. ``new_task`` opens a task's stores; ``destroy_state`` removes
    them.
    """

    def __init__(
        self,
        plan: BoundPlan,
        clock: Clock,
        new_task: Callable[[OwnedTask], Task],
        destroy_state: DestroyState,
        *,
        accepts_loss: bool = False,
    ) -> None:
        """``accepts_loss``: start with the remaining rows if committed state is missing."""
        self._plan = plan
        self._clock = clock
        self._new_task = new_task
        self._destroy_state = destroy_state
        self._accepts_loss = accepts_loss
        #: task -> where its rows were moved to, and why
        self._discarded: dict[TaskId, str] = {}

    def open(
        self,
        owned: OwnedTask,
        changelogs: Mapping[TopicPartition, StoreSpec],
        logs: Mapping[TopicPartition, LogRange],
        cut: Cut | None,
    ) -> None:
        """Open the task's stores, and rebuild rows that do not belong to the changelogs.

        ``cut`` has its clocks under the current store names. Raises RestoreError if rows and
        changelogs together lack records that committed state needs; no row is discarded then.
        """
        needed = {
            changelog: self._records_to_restore(owned, changelog, spec, logs[changelog], cut)
            for changelog, spec in changelogs.items()
        }
        try:
            if owned.task_or_none is None:
                owned.task_or_none = self._new_task(owned)
            self._check_local_rows(owned, cut)
            self._set_targets(owned, changelogs, logs, needed)
        except StoreCorruptedError as exc:
            if not self._accepts_loss:
                for changelog, spec in changelogs.items():
                    self._check_log(owned, spec, changelog, logs[changelog], needed, damage=exc)
                if owned.task_or_none is None and cut is not None and cut.local_rows:
                    what = text_of(exc)
                    raise RestoreError(_lost_local_rows(owned, cut.local_rows, what)) from exc
            self._rebuild(owned, exc, cut)
            self._set_targets(owned, changelogs, logs, needed)

    def _check_local_rows(self, owned: OwnedTask, cut: Cut | None) -> None:
        """Raise RestoreError if rows without a changelog are not those of the committed cut."""
        if cut is None or not cut.local_rows:
            return
        writer = "" if cut.writer is None else cut.writer.member_id
        state = owned.task.state
        lost = state.local.lost(cut.local_rows, writer)
        if not lost:
            return
        place = "" if state.path is None else f" in {state.path}"
        moved = self._discarded.get(owned.task_id)
        others = any(store in state.meta.local_rows for store in lost)
        if others:
            what = f"the rows{place} belong to another commit"
        else:
            what = f"there are none{place}" if moved is None else f"they were moved to {moved}"
        if not self._accepts_loss:
            raise RestoreError(_lost_local_rows(owned, lost, what))
        _LOGGER.error(
            "task %s: stores %s have no changelog, and their rows are missing: %s."
            " on_state_loss='continue': the stores are empty now",
            owned.task_id,
            sorted(lost),
            what,
        )
        if others:
            self._reopen_without(owned, lost)
        meta = owned.task.state.meta
        meta.local_rows.update(lost)
        meta.local_writer = writer

    def _rebuild(self, owned: OwnedTask, cause: StoreCorruptedError, cut: Cut | None) -> None:
        """Empty the stores that have a changelog, or all stores if the directory is damaged."""
        task = owned.task_or_none
        if task is None or cause.path is not None or not task.state.local.stores:
            self.discard(owned, cause)
            owned.task_or_none = self._new_task(owned)
            self._check_local_rows(owned, cut)
            return
        _LOGGER.warning("task %s: its local state is rebuilt: %s", owned.task_id, text_of(cause))
        self._reopen_without(owned, task.state.specs.keys() - task.state.local.stores)

    def _reopen_without(self, owned: OwnedTask, stores: Iterable[str]) -> None:
        owned.task.state.empty_at_next_opening(stores)
        owned.task.close()
        owned.task_or_none = None
        owned.task_or_none = self._new_task(owned)

    def unlogged(self, owned: OwnedTask) -> list[str]:
        """Return the stores without a changelog that have local rows; opens the task's stores."""
        specs = self._plan.sub_topology(owned.task_id).stores
        if all(spec.is_logged for spec in specs):
            return []
        try:
            if owned.task_or_none is None:
                owned.task_or_none = self._new_task(owned)
            return owned.task.state.unlogged_rows()
        except StoreCorruptedError:
            return []  # `open` finds the damage again and decides what to do with the rows

    def check_replays(self, owned: OwnedTask) -> None:
        """Check that no replay was too slow for the removal of tombstones; see `check_replay`."""
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
        """Discard the local state of the task if it is the damaged one."""
        task = owned.task_or_none
        if task is not None and damage.path is not None and task.state.path == damage.path:
            self.discard(owned, damage)

    def end(self, owned: OwnedTask, *, applies: bool) -> None:
        """Close a task, see `Task.end`. If it finds damage, discard the task's rows."""
        try:
            owned.task.end(applies=applies)
        except StoreCorruptedError as exc:
            self.discard(owned, exc)

    def discard(self, owned: OwnedTask, cause: StoreCorruptedError) -> None:
        """Close the task and move its rows to quarantine."""
        _LOGGER.warning("task %s: its local state is rebuilt: %s", owned.task_id, text_of(cause))
        owned.current_ms = None
        unlogged = [
            spec.name
            for spec in self._plan.sub_topology(owned.task_id).stores
            if spec.is_only_local
        ]
        if unlogged:
            _LOGGER.error(
                "task %s: stores %s have no changelog: they are empty now; their files are in the"
                " quarantine directory",
                owned.task_id,
                unlogged,
            )
        if owned.task_or_none is not None:
            closing = ErrorCollector(cause)  # with damage even closing may fail
            closing.call(owned.task_or_none.close)
            owned.task_or_none = None
        place = self._destroy_state(owned)
        if place is not None:
            self._discarded[owned.task_id] = f"{place}, because {text_of(cause)}"

    def _set_targets(
        self,
        owned: OwnedTask,
        changelogs: Mapping[TopicPartition, StoreSpec],
        logs: Mapping[TopicPartition, LogRange],
        needed: Mapping[TopicPartition, Needed],
    ) -> None:
        state = owned.task.state
        now = self._clock.wall_clock_ms()
        if not state.meta.caught_up_at_ms and not state.meta.positions:
            # New stores have missed no deletion yet. A restore that was interrupted and continues
            # after tombstones were removed must be distinguished from a new store.
            state.meta.caught_up_at_ms = now
        owned.targets = []
        for changelog, spec in changelogs.items():
            log = logs[changelog]
            topic_id = self._plan.topic_ids.get(changelog.topic)
            committed = owned.start_positions[changelog] if spec.source_topic else None
            known = state.positions.get(spec.name)
            if known is None:
                self._check_log(owned, spec, changelog, log, needed)
                state.meta.begins[spec.name] = log.start
            elif lost_end(log, needed[changelog]):
                self._check_log(owned, spec, changelog, log, needed)
            first = first_offset(
                spec.name,
                changelog,
                known,
                log,
                meta=state.meta,
                topic_id=topic_id,
                now_ms=now,
                needed=needed[changelog],
                committed=committed,
                tombstone_lifetime_ms=self._tombstone_lifetime_ms(changelog),
            )
            state.positions[spec.name] = first
            state.needed.start_at(spec.name, needed[changelog].first or 0)
            if topic_id is not None:
                state.meta.topic_ids[spec.name] = topic_id
            target = target_of(log, committed)
            found = StoreTarget(spec.name, changelog, target, is_whole=known is None)
            if first < target:
                end = needed[changelog].end
                is_current = known is None or (end is not None and known >= end)
                found.since_ms = now if is_current else state.meta.caught_up_at_ms or None
            owned.targets.append(found)

    # ------------------------------------------------------------------ lost records

    def _records_to_restore(
        self,
        owned: OwnedTask,
        changelog: TopicPartition,
        spec: StoreSpec,
        log: LogRange,
        cut: Cut | None,
    ) -> Needed:
        return needed_records(
            spec,
            changelog.topic,
            cut,
            log,
            committed=owned.start_positions[changelog] if spec.source_topic else None,
            retention_ms=self._plan.retentions_ms.get(changelog.topic),
            now_ms=self._clock.wall_clock_ms(),
        )

    def _check_log(
        self,
        owned: OwnedTask,
        spec: StoreSpec,
        changelog: TopicPartition,
        log: LogRange,
        needed: Mapping[TopicPartition, Needed],
        *,
        damage: StoreCorruptedError | None = None,
    ) -> None:
        """Check that the log alone has the needed records, unless the loss is accepted.

        ``damage``: why local rows cannot be used. Raises RestoreError.
        """
        lost = lost_end(log, needed[changelog]) or lost_beginning(log, needed[changelog])
        if lost is None:
            if needed[changelog].first is None and log.start > 0:
                _LOGGER.warning(
                    "task %s: changelog %s of store %r starts at offset %d. The last commit was"
                    " made by Kafka Streams or by an earlier version, and does not record which of"
                    " the changelog's records are needed: committed rows may be missing",
                    owned.task_id, changelog, spec.name, log.start,
                )  # fmt: skip
            return
        found = (
            f"task {owned.task_id}: changelog {changelog.topic!r} partition {changelog.partition}"
            f" of store {spec.name!r} cannot restore it: {lost}. Committed state is missing"
        )
        if self._accepts_loss:
            _LOGGER.error("%s. on_state_loss='continue': the store has the remaining rows", found)
            return
        rows = self._local_rows(owned, spec, damage)
        raise RestoreError(f"{found}. {rows}. {_RECOVERY_OPTIONS}")

    def _local_rows(
        self, owned: OwnedTask, spec: StoreSpec, damage: StoreCorruptedError | None
    ) -> str:
        """Describe the local rows of the store and whether they can be used."""
        task = owned.task_or_none
        path = None if task is None else task.state.path
        place = "" if path is None else f" in {path}"
        position = None if task is None else task.state.positions.get(spec.name)
        if position is None and damage is None:
            moved = self._discarded.get(owned.task_id)
            if moved is not None:
                return f"The local rows of the task were moved to {moved}"
            return f"There are no local rows of the store{place}"
        which = "" if position is None else f", up to offset {position} of the changelog,"
        why = "" if damage is None else f", but cannot be used: {text_of(damage)}"
        return f"The local rows{place}{which} were not changed{why}"


def _lost_local_rows(owned: OwnedTask, stores: Iterable[str], what: str) -> str:
    return (
        f"task {owned.task_id}: stores {sorted(stores)} have no changelog, and the rows that belong"
        f" to the committed offsets are missing: {what}. The stores would be empty, and results"
        " would continue from there. Likely causes: the state directory was deleted or replaced,"
        " or the task moved here from another instance. Options: (1) start the instance whose"
        " state directory has the rows, or copy the directory of the task here; (2)"
        " Application(on_state_loss='continue') starts with empty stores: for one start, or always"
        " if tasks may move without these rows; (3) declare the stores with a changelog, under"
        " other names; (4) start from scratch with `logstate reset`"
    )
