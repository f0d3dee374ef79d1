"""Bring an assigned task to running: committed offsets, local state, targets, start.

    1  read the committed offsets of all tasks
    2  decode the metadata committed with them: partition times, the cut
    3  read the start and end offsets of inputs and changelogs; AFTER 1, so that targets cover
       the committed offsets
    4  determine the start position of each input
    5  read the cut if it is in the cuts topic
    6  open the stores, determine the start and target of each changelog replay; local rows that
       do not belong to the changelogs are discarded first. Rows and changelogs must have all
       records that the cut needs (:mod:`missing_records`); otherwise the start is refused and no
       row is discarded
    7  set the clocks; the task is RESTORING, and the restorer takes over
    8  when the targets are reached: apply the rows; the task is STARTING (`restored`)
    9  seek; the task is RUNNING (`start`)

No step waits. A task that is not ready stays in its stage until the worker's next turn, so running
tasks are not delayed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta

from logstate.changelog.cut import Cut
from logstate.contracts.clients import Admin, Cluster, Committed, GroupConsumer, Step, Steps
from logstate.contracts.clock import Clock
from logstate.contracts.error_text import text_of
from logstate.contracts.errors import (
    DirectoryInUseError,
    RestoreError,
    RetriableError,
    StoreCorruptedError,
)
from logstate.contracts.records import TopicPartition
from logstate.contracts.worker_config import WorkerConfig
from logstate.restore.committed_offsets import LONGEST_S, CutsReader, RequestPace
from logstate.restore.directory_locks import DirectoryLocks
from logstate.restore.missing_offsets import MissingOffsets
from logstate.restore.missing_records import LogRange
from logstate.restore.restore_plan import (
    check_topic_ids,
    clocks_under_new_names,
    counting_cuts,
    decoded,
    doubt_about,
    joined_cut,
    lost_records,
    start_position,
    was_read,
)
from logstate.restore.task_rows import TaskRows, log_ranges
from logstate.task.owned_task import OwnedTask, Stage
from logstate.task.task_commit import clocks_of_streams
from logstate.topics.bound_plan import BoundPlan

_LOGGER = logging.getLogger(__name__)


class TaskStarter:
    """Brings assigned tasks to the point where the restorer takes over.

    ``look_again`` is called once before the first task is prepared; if it returns False, the tasks
    are prepared later. ``on_lost_records`` is called with a topic and the number of offsets lost.
    """

    def __init__(
        self,
        plan: BoundPlan,
        config: WorkerConfig,
        cluster: Cluster,
        consumer: GroupConsumer,
        admin: Admin,
        clock: Clock,
        rows: TaskRows,
        look_again: Callable[[], Steps[bool]] | None = None,
        on_lost_records: Callable[[str, int], None] = lambda *_: None,
    ) -> None:
        self._on_lost_records = on_lost_records
        #: reported losses: the input, its committed offset, the offset where reading continues
        self._told_losses: set[tuple[TopicPartition, int, int]] = set()
        self._check_again = look_again
        self._plan = plan
        self._config = config
        self._consumer = consumer
        self._admin = admin
        self._clock = clock
        self._rows = rows
        self._pace = RequestPace(clock)
        self._held = DirectoryLocks(clock)
        self._cuts = CutsReader(plan.application_id, cluster, admin)
        self._missing = MissingOffsets(plan, admin, self._cuts)

    def close(self) -> Steps[None]:
        """Close the reader of the cuts topic."""
        yield from self._cuts.close()

    def prepare(
        self, tasks: Sequence[OwnedTask], *, running: Sequence[OwnedTask]
    ) -> Steps[list[OwnedTask]]:
        """Take assigned tasks to RESTORING and return those that got there.

        ``running`` are the running tasks. They are blocked while a request waits for its answer and
        while a database is opened, so only one task is prepared per turn then.
        """
        tasks = [owned for owned in tasks if self._held.may_try(owned)]
        if running:
            tasks = tasks[:1]
        if not tasks:
            return []
        if self._check_again is not None:
            if not (yield from self._check_again()):
                return []
            self._check_again = None
        found = yield from self._committed(tasks, blocks_tasks=bool(running))  # 1
        prepared = []
        for owned in tasks:
            if not all(tp in found for tp in owned.partitions):
                continue
            owned.metadata = {tp: decoded(found[tp]) for tp in owned.partitions}  # 2
            try:
                yield from self._prepare(owned, found)  # 3 to 7
            except RetriableError as exc:  # not a reason to disturb running tasks
                _LOGGER.debug("task %s cannot be prepared yet: %s", owned.task_id, text_of(exc))
                break  # the next request would wait as long, and polls must not be delayed
            except DirectoryInUseError as exc:
                self._held.wait(owned, exc)
                continue
            except RestoreError:
                if not (yield from self._has_moved_on(owned, found)):
                    raise
                continue  # another member owns it by now; the next poll will return the revocation
            self._held.opened(owned)
            prepared.append(owned)
        return prepared

    def _prepare(self, owned: OwnedTask, found: Mapping[TopicPartition, Committed]) -> Steps[None]:
        """Run steps 3 to 7 of the module's list."""
        changelogs = self._plan.changelogs(owned.task_id)
        logs = yield from log_ranges(self._admin, [*owned.partitions, *changelogs])  # 3
        has_state = any(
            logs[tp].end > 0 for tp, spec in changelogs.items() if not spec.source_topic
        )
        unlogged = self._rows.unlogged(owned)
        yield from self._missing.check(owned, found, logs, has_state=has_state, unlogged=unlogged)
        has_state = has_state or bool(unlogged)
        yield from self._set_start_positions(owned, found, logs, has_state=has_state)  # 4
        cut = yield from self._cut(owned, found)  # 5
        clocks = clocks_under_new_names(
            clocks_of_streams(owned.metadata.values(), self._plan.logged_as)
            if cut is None
            else cut.clocks,
            self._plan.formerly,
        )
        cut = None if cut is None else cut._replace(clocks=clocks)
        self._rows.open(owned, changelogs, logs, cut)  # 6
        owned.task.set_clocks(  # 7
            clocks, {tp: m.partition_time_ms for tp, m in owned.metadata.items()}
        )
        owned.task.state.expire()
        owned.move_to(Stage.RESTORING)

    def _committed(
        self, tasks: Sequence[OwnedTask], *, blocks_tasks: bool
    ) -> Steps[Mapping[TopicPartition, Committed]]:
        """Return the committed offsets of the tasks' partitions; empty if it is too early."""
        timeout_s = self._pace.timeout_s(blocks_tasks=blocks_tasks)
        if timeout_s is None:
            return {}
        partitions = [tp for owned in tasks for tp in owned.partitions]
        try:
            found: Mapping[TopicPartition, Committed] = yield Step(
                "committed", self._consumer.committed, (partitions, timeout_s)
            )
        except RetriableError as exc:
            _LOGGER.debug("committed offsets are not stable yet: %s", text_of(exc))
            self._pace.unanswered()
            return {}
        self._pace.answered()
        return found

    def _has_moved_on(
        self, owned: OwnedTask, found: Mapping[TopicPartition, Committed]
    ) -> Steps[bool]:
        """Return True if the offsets have changed since they were read, so later log ranges do not
        fit.

        This happens to a member that was silent for so long that it lost its partitions.
        """
        try:
            now = yield Step("committed", self._consumer.committed, (owned.partitions, LONGEST_S))
        except RetriableError:
            return True
        return any(now.get(tp) != found[tp] for tp in owned.partitions)

    def restored(self, owned: OwnedTask) -> None:
        """Take a task whose stores reached their targets to STARTING.

        If the replay was so slow that the rows may be wrong, discard them and return to ASSIGNED.
        """
        try:
            self._rows.check_replays(owned)
        except StoreCorruptedError as exc:
            self._rows.discard(owned, exc)
            owned.move_to(Stage.ASSIGNED)
            return
        task = owned.task
        for target in owned.targets:
            assert task.state.positions[target.store] == target.target, target
        task.state.apply(self._clock.wall_clock_ms())
        task.state.inputs = owned.start_positions
        task.state.restored()
        task.start_at(owned.start_positions)
        owned.move_to(Stage.STARTING)
        _LOGGER.log(
            logging.INFO if owned.restored_records else logging.DEBUG,
            "task %s: restored %d records, starts at %s",
            owned.task_id,
            owned.restored_records,
            {str(tp): offset for tp, offset in owned.start_positions.items()},
        )

    def start(self, owned: OwnedTask, heard_ms: float) -> Steps[None]:
        """Seek to the start positions and run the task; retried next turn if the client is not
        ready.

        ``heard_ms``: when this member's ownership of the task was last confirmed.
        """
        try:
            yield Step("start", self._consumer.start, (owned.start_positions,))
        except RetriableError as exc:
            _LOGGER.debug("task %s cannot seek yet: %s", owned.task_id, text_of(exc))
            return
        owned.paused.clear()
        owned.current_ms = heard_ms
        owned.move_to(Stage.RUNNING)

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
                back_ms = reset // timedelta(milliseconds=1)
                since = max(0, self._clock.wall_clock_ms() - back_ms)
                at = yield Step("offsets_at", self._admin.offsets_at, ([tp], since))
                at_reset = at[tp]
            position = start_position(
                tp,
                found[tp],
                logs[tp],
                reset=reset,
                offset_at_reset=at_reset,
                has_state=has_state and was_read(tp.topic, found[tp], owned.metadata.values()),
                doubt=doubt_about(self._plan.shared_changelogs),
                on_data_loss=self._config.on_data_loss,
            )
            self._tell_loss(owned, tp, found[tp], logs[tp])
            owned.start_positions[tp] = position
            owned.is_new |= position != found[tp].offset

    def _tell_loss(
        self, owned: OwnedTask, partition: TopicPartition, committed: Committed, log: LogRange
    ) -> None:
        """Log, once per loss, that a task continues although records are gone."""
        offset = committed.offset
        if offset is None or log.start <= offset <= log.end:
            return
        loss = (partition, offset, log.start)
        if loss in self._told_losses:
            return
        self._told_losses.add(loss)
        _LOGGER.error(
            "task %s: input %s: offset %d is committed, but the log holds %d to %d. %s The task"
            " continues at offset %d, because on_data_loss is 'continue'",
            owned.task_id,
            partition,
            offset,
            log.start,
            log.end,
            lost_records(offset, log),
            log.start,
        )
        self._on_lost_records(partition.topic, abs(offset - min(max(offset, log.start), log.end)))

    # ------------------------------------------------------------------ the cut

    def _cut(
        self, owned: OwnedTask, found: Mapping[TopicPartition, Committed]
    ) -> Steps[Cut | None]:
        cuts = counting_cuts(owned.metadata, found)
        if not cuts:
            _warn_of_strangers(owned, found)
        different: list[Cut] = []
        whole: list[Cut] = []
        for tp, cut in cuts.items():
            if cut._replace(offset=0) in different:
                continue  # all inputs carry the same cut, except for their offsets
            different.append(cut._replace(offset=0))
            if cut.is_in_cuts_topic:
                stored = yield from self._cuts.cut_of(owned.task_id, tp.topic, cut.offset)
                cut = stored._replace(writer=cut.writer)
            whole.append(cut)
        return joined_cut(whole)

    def _reset_of(self, partition: TopicPartition) -> str | timedelta:
        if partition.topic in self._plan.repartition_topics:
            return "earliest"
        for sub in self._plan.topology.sub_topologies:
            for source in sub.sources:
                if source.offset_reset and any(t.name == partition.topic for t in source.topics):
                    return source.offset_reset
        return self._config.offset_reset


def _warn_of_strangers(owned: OwnedTask, found: Mapping[TopicPartition, Committed]) -> None:
    """Log that some inputs carry a cut that cannot be used."""
    with_cut = [str(tp) for tp, one in owned.metadata.items() if one.cut is not None]
    others = {str(tp): found[tp].offset for tp, one in owned.metadata.items() if one.cut is None}
    if with_cut:
        _LOGGER.warning(
            "task %s: ignoring the clocks of its last commit: another program has since committed"
            " %s (Kafka Streams on the JVM, or a reset of some inputs), but not %s. The task"
            " continues with the times that Kafka Streams commits with offsets",
            owned.task_id,
            others,
            with_cut,
        )
