"""Bugs of replaying changelogs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from logstate.changelog.rows.writes import LoggedFields
from logstate.changelog.state import TaskState
from logstate.changelog.stored_meta import StoredMeta
from logstate.contracts.clients import Steps
from logstate.contracts.records import FetchedRecord, TopicPartition
from logstate.restore.committed_offsets import CutsReader
from logstate.restore.restore import Restorer
from logstate.restore.task_rows import TaskRows
from logstate.restore.task_starter import TaskStarter
from logstate.task.owned_task import OwnedTask, Stage
from logstate.testing.fake.admin import FakeAdmin
from logstate.testing.fake.consumers import FakeLogConsumer
from logstate.testing.fake.partition_log import PartitionLog
from tests.campaigns.simulation.planted.bug import Patch, bug, scenario_bug
from tests.campaigns.simulation.slow_replay import SlowReplay
from tests.campaigns.simulation.unanswered import Unanswered


@bug
def the_target_is_the_last_stable_offset(patch: Patch) -> None:
    """The end to restore to is read committed: what is being decided is left out."""

    def wrong(self: Any, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return {tp: self._cluster.log(tp).lso for tp in partitions}

    patch(FakeAdmin, "end_offsets", wrong)


@bug
def uncommitted_records_are_restored(patch: Patch) -> None:
    """The restore consumer reads uncommitted, aborted records included."""
    read = PartitionLog.read
    poll = FakeLogConsumer.poll

    def wrong(self: Any, max_records: int, timeout_s: float) -> Any:
        PartitionLog.read = (  # type: ignore[method-assign]
            lambda log, position, count, is_committed=False: read(
                log, position, count, is_committed=False
            )
        )
        try:
            return poll(self, max_records, timeout_s)
        finally:
            PartitionLog.read = read  # type: ignore[method-assign]

    patch(FakeLogConsumer, "poll", wrong)


@bug
def a_restore_ends_with_the_first_empty_poll(patch: Patch) -> None:
    """Nothing came, so nothing is missing."""
    advance = Restorer._advance

    def wrong(self: Restorer, owned: OwnedTask, target: Any, position: int | None) -> None:
        before = self._position(owned, target)
        advance(self, owned, target, position)
        if self._position(owned, target) == before:
            target.is_done = True

    patch(Restorer, "_advance", wrong)


@bug
def a_restore_waits_for_the_last_record(patch: Patch) -> None:
    """Done when a record with the last offset was seen; markers leave none."""
    from logstate.restore.restore import Restorer

    def wrong(self: Restorer, owned: OwnedTask, target: Any, position: int | None) -> None:
        target.is_done = self._position(owned, target) >= target.target

    patch(Restorer, "_advance", wrong)


@bug
def a_replay_takes_what_lies_beyond_its_target(patch: Patch) -> None:
    """What was fetched is taken as a whole, though a source topic goes on behind the target."""
    from logstate.restore import restore

    def wrong(
        records: Sequence[FetchedRecord], position: int, target: int
    ) -> Sequence[FetchedRecord]:
        return records if (records[-1].offset() or 0) >= position else ()

    patch(restore, "within", wrong)


@bug
def clocks_stay_what_a_replay_made_of_them(patch: Patch) -> None:
    """After a replay stores go on with what they learned of it, not with the cut's clocks."""
    restored = TaskState.restored

    def wrong(self: TaskState) -> None:
        committed, self._committed_clocks = self._committed_clocks, {}
        restored(self)
        self._committed_clocks = committed

    patch(TaskState, "restored", wrong)


@bug
def tasks_run_before_they_are_restored(patch: Patch) -> None:
    """A source is read on before its stores are at their targets."""
    prepare = TaskStarter.prepare

    def wrong(
        self: TaskStarter, tasks: Sequence[OwnedTask], *, running: Sequence[OwnedTask]
    ) -> Any:
        prepared = yield from prepare(self, tasks, running=running)
        for owned in prepared:
            for target in owned.targets:
                target.target = 0
        return prepared

    patch(TaskStarter, "prepare", wrong)


@bug
def tombstones_are_not_restored(patch: Patch) -> None:
    """A deletion in the changelog is skipped."""
    restore, load = TaskState.restore, TaskState.load

    def wrong(self: TaskState, store: str, records: Sequence[LoggedFields], position: int) -> None:
        restore(self, store, [r for r in records if r[1] is not None], position)

    def loads_wrong(
        self: TaskState, store: str, records: Sequence[FetchedRecord], position: int
    ) -> bool:
        return load(self, store, [r for r in records if r.value() is not None], position)

    patch(TaskState, "restore", wrong)
    patch(TaskState, "load", loads_wrong)


@bug
def a_load_writes_its_position_before_its_rows(patch: Patch) -> None:
    """The row that comes before the file of a load has the new positions already."""
    apply = TaskState.apply

    def wrong(self: TaskState, caught_up_at_ms: int | None = None) -> int:
        self.meta.positions = {
            name: at for name, at in self.positions.items() if not self.specs[name].in_memory
        }
        return apply(self, caught_up_at_ms)

    patch(TaskState, "apply", wrong)
    patch(StoredMeta, "mark", lambda self, stores: self.row())


@bug
def a_load_leaves_no_mark(patch: Patch) -> None:
    """What comes before the file of a load does not say that its rows may be too new."""
    patch(StoredMeta, "mark", lambda self, stores: self.row())


@bug
def a_replay_starts_one_too_late(patch: Patch) -> None:
    """The stored position is taken for the last record applied, not for the next one."""
    import logstate.restore.task_rows

    first_offset = logstate.restore.task_rows.first_offset

    def wrong(store: str, changelog: Any, position: int | None, log: Any, **rest: Any) -> int:
        first = first_offset(store, changelog, position, log, **rest)
        return first if position is None else min(first + 1, log.end)

    patch(logstate.restore.task_rows, "first_offset", wrong)


@bug
def the_target_counts_as_restored(patch: Patch) -> None:
    """A task that is closed while it restores keeps the target as its position."""
    close = TaskState.close
    remove = Restorer.remove

    def wrong(self: Restorer, owned: OwnedTask) -> None:
        if owned.stage is Stage.RESTORING and owned.task_or_none is not None:
            for target in owned.targets:
                owned.task.state.positions[target.store] = target.target
        remove(self, owned)

    patch(Restorer, "remove", wrong)
    patch(TaskState, "close", close)


@bug
def stores_share_one_position(patch: Patch) -> None:
    """The furthest position of a task is written for each of its stores."""
    apply = TaskState.apply

    def wrong(self: TaskState, caught_up_at_ms: int | None = None) -> int:
        kept = dict(self.positions)
        furthest = max(kept.values(), default=0)
        self.positions = dict.fromkeys(kept, furthest)
        try:
            return apply(self, caught_up_at_ms)
        finally:
            self.positions = kept

    patch(TaskState, "apply", wrong)


@scenario_bug(SlowReplay.of)
def a_slow_replay_counts_like_a_quick_one(patch: Patch) -> None:
    """Tombstones may be gone before they were read, and nobody asks how long the replay took."""
    patch(TaskRows, "check_replays", lambda self, owned: None)


@scenario_bug(Unanswered.of)
def a_reader_of_cuts_that_was_made_counts_as_assigned(patch: Patch) -> None:
    """Where asking for the start of its log failed, it reads from nowhere, for ever."""
    read_on = CutsReader._read_on

    def wrong(self: CutsReader, end: int) -> Steps[None]:
        self._is_assigned = self._consumer is not None
        yield from read_on(self, end)

    patch(CutsReader, "_read_on", wrong)
