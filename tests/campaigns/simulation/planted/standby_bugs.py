"""Bugs of standbys."""

from __future__ import annotations

from typing import Any

from logstate.contracts.records import TaskId
from logstate.restore.restore import Restorer
from logstate.restore.standbys import Standbys
from logstate.task.owned_task import OwnedTask, Stage
from logstate.task.task import Task
from logstate.testing.fake.partition_log import PartitionLog
from logstate.worker.worker import Worker
from tests.campaigns.simulation import damaged_blocks, stale_copies, standbys
from tests.campaigns.simulation.planted.bug import Patch, scenario_bug
from tests.campaigns.simulation.planted.edit import edit


@scenario_bug(standbys.Standbys.of)
def a_standby_is_promoted_at_the_wrong_position(patch: Patch) -> None:
    """What was heard of the end of a changelog is taken for what the standby has."""
    take = Standbys.take

    def wrong(self: Standbys, task_id: TaskId) -> Task | None:
        owned = self.tasks.get(task_id)
        if owned is not None and owned.stage is Stage.STANDBY:
            for target in owned.targets:
                owned.task.state.positions[target.store] = target.target
        return take(self, task_id)

    patch(Standbys, "take", wrong)


@scenario_bug(standbys.Standbys.of)
def a_standby_takes_what_was_aborted(patch: Patch) -> None:
    """It reads uncommitted, in order to be ahead."""
    poll, read = Restorer.poll, PartitionLog.read

    def uncommitted(log: Any, position: int, count: int, is_committed: bool = False) -> Any:
        del is_committed
        return read(log, position, count, is_committed=False)

    def wrong(self: Restorer, *arguments: Any, busy: bool = False) -> Any:
        steps = poll(self, *arguments, busy=busy)
        is_standby = self._steps["poll"] == "standby_poll"
        result = None
        while True:
            try:
                step = steps.send(result)
            except StopIteration:
                return
            if is_standby and step.name == "standby_poll":
                call = step.call

                def poll_all(*arguments: Any, call: Any = call) -> Any:
                    PartitionLog.read = uncommitted  # type: ignore[method-assign]
                    try:
                        return call(*arguments)
                    finally:
                        PartitionLog.read = read  # type: ignore[method-assign]

                step = step._replace(call=poll_all)
            result = yield step

    patch(Restorer, "poll", wrong)


@scenario_bug(standbys.Standbys.of)
def a_standby_counts_as_owned(patch: Patch) -> None:
    """A task that is expected here is started before the group has given its partitions."""
    start_tasks = Worker._start_tasks

    def wrong(self: Worker) -> Any:
        live = self._live
        for task_id, followed in list(self.followed.tasks.items()):
            if followed.stage is Stage.STANDBY:
                owned = OwnedTask(task_id, followed.partitions, live.assignment.epoch)
                owned.task_or_none = self.followed.take(task_id)
                self._tasks.add(owned)
        yield from start_tasks(self)

    patch(Worker, "_start_tasks", wrong)


@scenario_bug(standbys.Standbys.of)
def a_standby_begins_again_in_the_middle_of_what_it_has_fetched(patch: Patch) -> None:
    """When it is told of a new end, it goes on where the client is and not where its rows are."""
    add = Restorer.add

    def wrong(self: Restorer, owned: OwnedTask) -> None:
        if owned.stage is Stage.STANDBY:
            for target in owned.targets:
                state = owned.task.state
                at = state.positions.get(target.store, 0)
                if 0 < at < target.target:
                    state.positions[target.store] = at + 1
        add(self, owned)

    patch(Restorer, "add", wrong)


@scenario_bug(damaged_blocks.DamagedBlocks.of)
def a_standby_that_cannot_be_promoted_takes_its_task_along(patch: Patch) -> None:
    """Where its rows cannot be written, the task that was given is in nobody's table."""
    assigned = Worker._assigned

    def wrong(self: Worker, partitions: Any) -> None:
        standbys = {t for t, o in self.followed.tasks.items() if o.stage is Stage.STANDBY}
        assigned(self, partitions)
        for task_id in standbys - self.followed.tasks.keys():
            if self._tasks.all()[task_id].task_or_none is None:
                self._tasks.remove(task_id)

    patch(Worker, "_assigned", wrong)


@scenario_bug(stale_copies.StaleCopies.of)
def a_copy_is_noted_as_complete_while_it_reads(patch: Patch) -> None:
    """A standby is written before it has reached the ends that it was told."""
    old = " or not all(t.is_done for t in owned.targets)"
    edit(patch, Standbys, "_write_if_current", old, "")


@scenario_bug(stale_copies.StaleCopies.of)
def a_copy_is_noted_with_the_time_of_its_write(patch: Patch) -> None:
    """The time of a standby is that of its write, not of the question for the ends."""
    edit(
        patch,
        Standbys,
        "_write_if_current",
        "apply(ends_of_ms)",
        "apply(self._clock.wall_clock_ms())",
    )


@scenario_bug(stale_copies.StaleCopies.of)
def a_copy_opened_late_is_noted_with_the_ends_of_others(patch: Patch) -> None:
    """A standby that was opened behind a question for ends has the time of that question."""
    old = "self._ends_of.get(task_id)"
    edit(patch, Standbys, "_write_if_current", old, "max(self._ends_of.values(), default=None)")


@scenario_bug(stale_copies.StaleCopies.of)
def a_copy_that_could_not_be_written_counts_as_written(patch: Patch) -> None:
    """Where the write of a standby fails, its rows in memory are kept and its time is new."""
    old = "self._failed(owned, exc)\n        return True"
    edit(patch, Standbys, "_write_if_current", old, "pass")
