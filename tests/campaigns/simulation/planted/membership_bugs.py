"""Bugs around who owns what.

Not planted: a task that goes on after one of its input partitions was revoked, alone. Nobody else
can run it before the last partition has moved, and that one is committed and stops it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from logstate.commit.commit import Committer
from logstate.contracts.clients import Rebalance, Steps
from logstate.contracts.errors import AbortableError, FencedError, LogstateError, RetriableError
from logstate.contracts.records import TopicPartition
from logstate.restore.task_starter import TaskStarter
from logstate.task.owned_task import OwnedTask
from logstate.testing.fake.group import Group
from logstate.worker.assignment import Assignment
from logstate.worker.worker import Worker
from tests.campaigns.simulation.planted.bug import Patch, bug, faults, rare_bug


@bug
def members_are_not_fenced(patch: Patch) -> None:
    """Offsets go without the group's credentials, so anybody's are accepted."""
    patch(Group, "check_member", lambda self, member_id, epoch: None)


@bug
def lost_partitions_are_kept(patch: Patch) -> None:
    """A member that lost its partitions works on, and nothing checks what it owns."""
    answer = Worker._answer

    def wrong(self: Worker, rebalance: Rebalance) -> Steps[None]:
        if rebalance.kind == "lost":
            return
        yield from answer(self, rebalance)

    patch(Worker, "_answer", wrong)
    patch(Committer, "_check_ownership", lambda self, tasks, epochs, member: None)


@bug
def a_lost_transaction_goes_on(patch: Patch) -> None:
    """What was produced for lost partitions stays in the open transaction."""

    def wrong(self: Worker, rebalance: Rebalance) -> Steps[None]:
        if rebalance.kind == "assigned":
            self._assigned(rebalance.partitions)
            return
        if rebalance.kind == "revoked":
            try:
                yield from self._commits.commit_all()
            except (AbortableError, FencedError, RetriableError) as exc:
                yield from self._recover(exc)
        stopped = self._live.assignment.lose(rebalance.partitions)
        self._tasks.revoke(rebalance.partitions)
        for task_id in stopped:
            self._close_task(task_id, applies=False)
        self._observer.tasks_changed(self._tasks.all())

    patch(Worker, "_answer", wrong)


@bug
def revoked_partitions_are_dropped_uncommitted(patch: Patch) -> None:
    """A revoked task is closed while its records are in the open transaction."""
    answer = Worker._answer

    def wrong(self: Worker, rebalance: Rebalance) -> Steps[None]:
        if rebalance.kind != "revoked":
            yield from answer(self, rebalance)
            return
        stopped = self._live.assignment.lose(rebalance.partitions)
        self._tasks.revoke(rebalance.partitions)
        for task_id in stopped:
            self._close_task(task_id, applies=True)
        self._observer.tasks_changed(self._tasks.all())

    patch(Worker, "_answer", wrong)


@rare_bug(lambda s: sum(f.is_of_handover for f in s.faults))
def a_failed_last_commit_is_ignored(patch: Patch) -> None:
    """The commit before a revocation fails, and its transaction goes on without the task."""
    answer = Worker._answer

    def quiet(self: Worker, commit_all: Callable[[], Steps[None]]) -> Steps[None]:
        try:
            yield from commit_all()
        except LogstateError:
            self._transactions.is_open = True

    def wrong(self: Worker, rebalance: Rebalance) -> Steps[None]:
        commits = self._commits
        if rebalance.kind == "revoked":
            commit_all = commits.commit_all
            commits.commit_all = lambda: quiet(self, commit_all)  # type: ignore[method-assign]
        try:
            yield from answer(self, rebalance)
        finally:
            commits.__dict__.pop("commit_all", None)

    patch(Worker, "_answer", wrong)


@bug
def half_a_task_runs(patch: Patch) -> None:
    """A task runs with those of its input partitions that have come so far."""
    inputs = Assignment.inputs
    patch(Assignment, "is_complete", lambda self, task_id: True)
    patch(
        Assignment,
        "inputs",
        lambda self, task_id: tuple(tp for tp in inputs(self, task_id) if tp in self.owned),
    )


@bug
def a_task_goes_on_with_what_is_left(patch: Patch) -> None:
    """A revocation stops a task only with its last input partition, and another owner has begun."""
    half_a_task_runs(patch)
    lose = Assignment.lose

    def wrong(self: Assignment, partitions: Iterable[TopicPartition]) -> Any:
        stopped = lose(self, partitions)
        return [t for t in stopped if not any(tp in self.owned for tp in self._inputs[t])]

    patch(Assignment, "lose", wrong)
    patch(Committer, "_check_ownership", lambda self, tasks, epochs, member: None)


@bug
def nothing_is_sought_after_an_abort(patch: Patch) -> None:
    """After an abort reading goes on where it was, not where the commit was."""
    from logstate.testing.fake.consumers import FakeGroupConsumer
    from logstate.testing.fake.fetcher import Fetcher

    def wrong(self: Any, positions: dict[TopicPartition, int]) -> None:
        for partition, position in positions.items():
            if self._fetcher.position(partition) is None:
                self._fetcher.seek(partition, position)
        Fetcher.resume(self._fetcher, positions)

    patch(FakeGroupConsumer, "start", wrong)


@bug
def records_read_again_after_an_abort_are_dropped(patch: Patch) -> None:
    """A queue that was at a later record before an abort takes those before it for repetitions."""
    from logstate.task.task import Task

    start_at = Task.start_at

    def wrong(self: Task, positions: dict[TopicPartition, int]) -> None:
        seen = {partition: queue.position for partition, queue in self.queues.items()}
        start_at(self, positions)
        for partition, queue in self.queues.items():
            queue.position = max(queue.position, seen[partition])

    patch(Task, "start_at", wrong)


@bug
def committed_offsets_are_remembered(patch: Patch) -> None:
    """After an abort a task goes on from the offsets it read when it started."""
    prepare = TaskStarter.prepare

    def wrong(
        self: TaskStarter, tasks: list[OwnedTask], *, running: list[OwnedTask]
    ) -> Steps[list[OwnedTask]]:
        known = self.__dict__.setdefault("known_offsets", {})
        steps = prepare(self, tasks, running=running)
        result = None
        try:
            step = next(steps)
            while True:
                try:
                    result = yield step
                except Exception as exc:  # noqa: BLE001  passed on
                    step = steps.throw(exc)
                    continue
                if step.name == "committed":
                    result = {tp: known.setdefault(tp, found) for tp, found in result.items()}
                step = steps.send(result)
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]

    patch(TaskStarter, "prepare", wrong)


@bug
def unstable_offsets_are_read(patch: Patch) -> None:
    """Committed offsets are read while a transaction that changes them is being decided."""
    from logstate.contracts.clients import Committed
    from logstate.testing.fake.group_offsets import GroupOffsets

    def wrong(self: GroupOffsets, partitions: Iterable[TopicPartition]) -> Any:
        return {tp: self.committed.get(tp, Committed(None, "")) for tp in partitions}

    patch(GroupOffsets, "fetch", wrong)


@rare_bug(
    lambda s: (
        2 * faults(s, "zombie", ("start_offsets", "end_offsets")) + 3 * (s.purge_interval_ms < 100)
    )
)
def a_silent_member_trusts_its_old_offsets(patch: Patch) -> None:
    """A member that was silent too long takes its successor's state for a contradiction."""

    def wrong(self: TaskStarter, owned: OwnedTask, found: Any) -> Steps[bool]:
        return False
        yield

    patch(TaskStarter, "_has_moved_on", wrong)
