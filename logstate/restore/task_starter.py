"""From an assigned task to a running one: committed offsets, local state, targets, start.

    1  ask for the committed offsets of all tasks
    2  decode what was committed with them: partition times, the cut
    3  ask where inputs and changelogs begin and end; AFTER 1, so that targets cover what the
       offsets cover
    4  decide where each input is read on
    5  open the stores, decide where each changelog is read on, and its target; local rows whose
       identity does not hold are given up first
    6  read the cut, where it lies in the cuts topic; the changelogs must reach what it says
    7  set the clocks; the task is RESTORING, and the restorer takes over
    8  the targets are reached: apply the rows; the task is STARTING (`restored`)
    9  seek; the task is RUNNING (`start`)

Each step goes as far as it can without waiting. A task that is not ready stays in its stage until
the worker's next turn, so nothing here holds up the tasks that run.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta

from logstate.changelog.cut import Cut, OffsetMetadata, decode_cut
from logstate.contracts.clock import Clock
from logstate.contracts.closing import Closing
from logstate.contracts.errors import RestoreError, RetriableError, StoreCorruptedError
from logstate.contracts.records import TopicPartition
from logstate.contracts.seams import Admin, Cluster, Committed, GroupConsumer, Step, Steps
from logstate.contracts.stores import StoreSpec
from logstate.contracts.worker_config import WorkerConfig
from logstate.restore.committed_offsets import LONGEST_S, CutsReader, InquiryPace
from logstate.restore.restore_plan import (
    TOMBSTONE_LIFETIME_MS,
    LogRange,
    check_cut,
    check_replay,
    check_topic_ids,
    first_offset,
    start_position,
    was_read,
)
from logstate.task.owned_task import OwnedTask, Stage, StoreTarget
from logstate.task.task import Task
from logstate.task.task_commit import clocks_of_streams
from logstate.topics.bound_plan import BoundPlan

_LOGGER = logging.getLogger(__name__)


class TaskStarter:
    """Brings assigned tasks to the point where the restorer takes over."""

    def __init__(
        self,
        plan: BoundPlan,
        config: WorkerConfig,
        cluster: Cluster,
        consumer: GroupConsumer,
        admin: Admin,
        clock: Clock,
        new_task: Callable[[OwnedTask], Task],
        destroy_state: Callable[[OwnedTask], None],
    ) -> None:
        self._plan = plan
        self._config = config
        self._consumer = consumer
        self._admin = admin
        self._clock = clock
        self._new_task = new_task
        self._destroy_state = destroy_state
        self._pace = InquiryPace(clock)
        self._cuts = CutsReader(plan.application_id, cluster, admin)

    def close(self) -> Steps[None]:
        """Release what it read with."""
        yield from self._cuts.close()

    def prepare(
        self, tasks: Sequence[OwnedTask], *, beside: Sequence[OwnedTask]
    ) -> Steps[list[OwnedTask]]:
        """Take assigned tasks to RESTORING; returns those that got there.

        ``beside`` are the tasks that run, and stand still while a question waits for its answer.
        """
        found = yield from self._committed(tasks, blocks_tasks=bool(beside))  # 1
        prepared = []
        for owned in tasks:
            if not all(tp in found for tp in owned.partitions):
                continue
            owned.metadata = {tp: _decoded(found[tp]) for tp in owned.partitions}  # 2
            try:
                yield from self._prepare(owned, found)  # 3 to 7
            except RetriableError as exc:  # no reason to disturb the tasks that run
                _LOGGER.debug("task %s cannot be prepared yet: %s", owned.task_id, exc)
                break  # the next question would wait as long, and polls must not
            except RestoreError:
                if not (yield from self._has_moved_on(owned, found)):
                    raise
                continue  # another member owns it by now; the next poll will say so
            prepared.append(owned)
        return prepared

    def _prepare(self, owned: OwnedTask, found: Mapping[TopicPartition, Committed]) -> Steps[None]:
        """Steps 3 to 7 of the module's list."""
        changelogs = self._plan.changelogs(owned.task_id)
        logs = yield from self._logs([*owned.partitions, *changelogs])  # 3
        has_state = any(
            logs[tp].end > 0 for tp, spec in changelogs.items() if not spec.source_topic
        )
        yield from self._set_start_positions(owned, found, logs, has_state=has_state)  # 4
        self._open(owned, changelogs, logs)  # 5
        cut = yield from self._cut(owned)  # 6
        if cut is not None:
            ends = {tp.topic: logs[tp].end for tp in changelogs}
            check_cut(str(owned.task_id), cut.positions, ends)
        owned.task.set_clocks(  # 7
            cut.clocks if cut is not None else clocks_of_streams(owned.metadata.values()),
            {tp: m.partition_time_ms for tp, m in owned.metadata.items()},
        )
        owned.task.state.expire()
        owned.move_to(Stage.RESTORING)

    def _committed(
        self, tasks: Sequence[OwnedTask], *, blocks_tasks: bool
    ) -> Steps[Mapping[TopicPartition, Committed]]:
        """The committed offsets of the tasks' partitions; nothing where it is too early to ask."""
        timeout_s = self._pace.timeout_s(blocks_tasks=blocks_tasks)
        if timeout_s is None:
            return {}
        partitions = [tp for owned in tasks for tp in owned.partitions]
        try:
            found: Mapping[TopicPartition, Committed] = yield Step(
                "committed", self._consumer.committed, (partitions, timeout_s)
            )
        except RetriableError as exc:
            _LOGGER.debug("committed offsets are not stable yet: %s", exc)
            self._pace.unanswered()
            return {}
        self._pace.answered()
        return found

    def _has_moved_on(
        self, owned: OwnedTask, found: Mapping[TopicPartition, Committed]
    ) -> Steps[bool]:
        """Whether the offsets changed since they were read, so that logs seen later do not fit.

        This happens to a member that was silent for so long that it lost its partitions.
        """
        try:
            now = yield Step("committed", self._consumer.committed, (owned.partitions, LONGEST_S))
        except RetriableError:
            return True
        return any(now.get(tp) != found[tp] for tp in owned.partitions)

    def restored(self, owned: OwnedTask) -> None:
        """A task's stores reached their targets: take it to STARTING.

        Or back to ASSIGNED, without its rows, where that took so long that they may be wrong.
        """
        try:
            self._check_replays(owned)
        except StoreCorruptedError as exc:
            self._give_up(owned, exc)
            owned.move_to(Stage.ASSIGNED)
            return
        task = owned.task
        task.state.apply(self._clock.wall_clock_ms())
        task.state.restored()
        task.start_at(owned.start_positions)
        owned.move_to(Stage.STARTING)
        _LOGGER.info(
            "task %s: restored %d records, starts at %s",
            owned.task_id,
            owned.restored_records,
            {str(tp): offset for tp, offset in owned.start_positions.items()},
        )

    def start(self, owned: OwnedTask) -> Steps[None]:
        """Seek and read on; a client that is not ready to seek is asked again next turn."""
        try:
            yield Step("start", self._consumer.start, (owned.start_positions,))
        except RetriableError as exc:
            _LOGGER.debug("task %s cannot seek yet: %s", owned.task_id, exc)
            return
        owned.paused.clear()
        owned.move_to(Stage.RUNNING)

    def _logs(
        self, partitions: Sequence[TopicPartition]
    ) -> Steps[Mapping[TopicPartition, LogRange]]:
        starts = yield Step("start_offsets", self._admin.start_offsets, (partitions,))
        ends = yield Step("end_offsets", self._admin.end_offsets, (partitions,))
        return {tp: LogRange(starts[tp], ends[tp]) for tp in partitions}

    def _set_start_positions(
        self,
        owned: OwnedTask,
        found: Mapping[TopicPartition, Committed],
        logs: Mapping[TopicPartition, LogRange],
        *,
        has_state: bool,
    ) -> Steps[None]:
        owned.start_positions = {}
        owned.is_new = False
        for tp in owned.partitions:
            check_topic_ids(owned.metadata[tp], self._plan.topic_ids)
            reset = self._reset_of(tp)
            at_reset = None
            if isinstance(reset, timedelta):
                since = self._clock.wall_clock_ms() - reset // timedelta(milliseconds=1)
                at = yield Step("offsets_at", self._admin.offsets_at, ([tp], since))
                at_reset = at[tp]
            position = start_position(
                tp,
                found[tp],
                logs[tp],
                reset=reset,
                offset_at_reset=at_reset,
                has_state=has_state and was_read(tp.topic, owned.metadata.values()),
            )
            owned.start_positions[tp] = position
            owned.is_new |= position != found[tp].offset

    # ------------------------------------------------------------------ local state

    def _open(
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
            self._give_up(owned, exc)
            owned.task_or_none = self._new_task(owned)
            self._set_targets(owned, changelogs, logs)

    def _check_replays(self, owned: OwnedTask) -> None:
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
            self._give_up(owned, damage)

    def _give_up(self, owned: OwnedTask, cause: StoreCorruptedError) -> None:
        _LOGGER.warning("task %s: its local state is rebuilt: %s", owned.task_id, cause)
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
            known = state.positions.get(spec.name)
            first = first_offset(
                spec.name,
                changelog,
                known,
                log,
                meta=state.meta,
                topic_id=topic_id,
                now_ms=now,
                is_trimmed=spec.traits.is_segmented,
                tombstone_lifetime_ms=self._tombstone_lifetime_ms(changelog),
            )
            state.positions[spec.name] = first
            if topic_id is not None:
                state.meta.topic_ids[spec.name] = topic_id
            target = log.end
            if spec.source_topic is not None:
                target = min(log.end, max(first, owned.start_positions[changelog]))
            found = StoreTarget(spec.name, changelog, target, is_whole=known is None)
            if first < target:
                found.since_ms = now if known is None else state.meta.caught_up_at_ms or None
            owned.targets.append(found)

    # ------------------------------------------------------------------ the cut

    def _cut(self, owned: OwnedTask) -> Steps[Cut | None]:
        cuts = {tp: m.cut for tp, m in owned.metadata.items() if m.cut is not None}
        for tp, cut in cuts.items():
            if not cut.is_in_cuts_topic:
                return cut
            return (yield from self._cuts.cut_of(owned.task_id, tp.topic, cut.offset))
        return None

    def _reset_of(self, partition: TopicPartition) -> str | timedelta:
        if partition.topic in self._plan.repartition_topics:
            return "earliest"
        for sub in self._plan.topology.sub_topologies:
            for source in sub.sources:
                if source.offset_reset and any(t.name == partition.topic for t in source.topics):
                    return source.offset_reset
        return self._config.offset_reset


def _decoded(committed: Committed) -> OffsetMetadata:
    if committed.offset is None:
        return OffsetMetadata()
    return decode_cut(committed.metadata, committed_offset=committed.offset)
