"""Bugs in the order and the extent of a commit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from logstate.commit.commit import Committer
from logstate.commit.maintenance import Maintenance
from logstate.commit.output_buffer import OutputBuffer
from logstate.commit.transaction import Transactions
from logstate.contracts.clients import Step, Steps
from logstate.contracts.errors import LogstateError
from logstate.contracts.records import TopicPartition
from logstate.task.owned_task import OwnedTask
from logstate.task.task import Task
from logstate.worker.commits import Commits
from tests.campaigns.simulation.planted.bug import Patch, bug, faults, rare_bug


@bug
def rows_are_written_before_the_commit(patch: Patch) -> None:
    """Rows of a commit reach the local store before its transaction is decided."""
    freeze = Task.freeze

    def wrong(self: Task) -> Any:
        taken = freeze(self)
        self.state.committed(taken.changes, {})
        self.state.apply()
        return taken

    patch(Task, "freeze", wrong)
    patch(Task, "committed", lambda self, _, positions: self.state._advance(positions))


@bug
def offsets_are_not_in_the_transaction(patch: Patch) -> None:
    """The transaction commits without the input offsets."""

    def wrong(self: Transactions, offsets: Any, metadata: Any) -> Steps[None]:
        yield from self._end_transaction()

    patch(Transactions, "commit", wrong)


@bug
def only_moved_partitions_are_committed(patch: Patch) -> None:
    """Input partitions without progress keep their old cut."""
    freeze = Task.freeze

    def wrong(self: Task) -> Any:
        taken = freeze(self)
        last: dict[TopicPartition, int] = self.__dict__.setdefault("last_offsets", {})
        moved = {tp: o for tp, o in taken.offsets.items() if last.get(tp) != o}
        last.update(moved)
        object.__setattr__(taken, "offsets", moved or taken.offsets)
        return taken

    patch(Task, "freeze", wrong)


@bug
def one_task_commits_alone(patch: Patch) -> None:
    """The outputs of all tasks are in the transaction, the offsets of one."""
    begin = Commits._begin
    patch(Commits, "_begin", lambda self, tasks: begin(self, tasks[:1]))


@rare_bug(
    lambda s: 2 * s.splits_assignments + (s.commit_interval_ms >= 30) + (s.faults[0].wait <= 3)
)
def new_tasks_commit_alone(patch: Patch) -> None:
    """The first commit of a new task takes the others' outputs along without their offsets."""
    commit = Commits.commit

    def wrong(self: Commits, tasks: list[OwnedTask]) -> Steps[None]:
        new = [owned for owned in tasks if owned.is_new]
        return commit(self, new or tasks)

    patch(Commits, "commit", wrong)


@bug
def the_first_start_is_not_committed(patch: Patch) -> None:
    """ "Nothing was committed" is decided again after every crash."""
    commit = Commits.commit

    def wrong(self: Commits, tasks: list[OwnedTask]) -> Steps[None]:
        if any(owned.is_new for owned in tasks):
            return
        yield from commit(self, tasks)

    patch(Commits, "commit", wrong)


@bug
def buffered_records_count_as_consumed(patch: Patch) -> None:
    """The committed offset is what was fetched, not what was processed."""
    freeze = Task.freeze

    def wrong(self: Task) -> Any:
        for queue in self.queues.values():
            self.consumed[queue.partition] = queue.position
        taken = freeze(self)
        for queue in self.queues.values():
            taken.offsets[queue.partition] = queue.position  # type: ignore[index]
        return taken

    patch(Task, "freeze", wrong)


@bug
def a_failed_commit_counts_as_committed(patch: Patch) -> None:
    """A commit with an unknown outcome is taken for a success."""
    end = Transactions._end_transaction

    def wrong(self: Transactions) -> Steps[None]:
        try:
            yield from end(self)
        except LogstateError:
            yield from self._replace()

    patch(Transactions, "_end_transaction", wrong)


@rare_bug(lambda s: 2 * sum(f.kind == "repeated_end" and f.error == "" for f in s.faults))
def a_slow_commit_keeps_its_producer(patch: Patch) -> None:
    """The producer lives on after an end of a transaction that was sent twice."""
    from logstate.testing.fake.producers import FakeTransactionalProducer

    patch(FakeTransactionalProducer, "must_be_replaced", lambda self: False)


@rare_bug(lambda s: 2 * sum(f.kind == "repeated_end" and f.error != "" for f in s.faults))
def a_failed_transaction_keeps_its_producer(patch: Patch) -> None:
    """After an error the same producer begins the next transaction."""

    def wrong(self: Transactions) -> Steps[None]:
        if self.is_open:
            try:
                yield Step("abort", self._current_producer.abort)
            except LogstateError:
                yield from self._replace()
        self.is_open = False

    patch(Transactions, "abandon", wrong)


@rare_bug(lambda s: faults(s, "lost_reply", ("produce", "begin")))
def outputs_survive_an_abort(patch: Patch) -> None:
    """What could not be sent is sent with the next attempt, which makes it again."""
    send = OutputBuffer.send

    def wrong(self: OutputBuffer, records: Sequence[Any]) -> Steps[None]:
        kept = self.__dict__.pop("kept", [])
        try:
            yield from send(self, [*kept, *records])
        except LogstateError:
            self.__dict__["kept"] = [*kept, *records]
            raise

    patch(OutputBuffer, "send", wrong)


@bug
def internal_records_are_purged_before_the_commit(patch: Patch) -> None:
    """Repartition records are deleted up to what was fetched."""
    purge = Maintenance.purge

    def wrong(self: Any, admin: Any, plan: Any, tasks: Sequence[OwnedTask], now: float) -> Any:
        for owned in tasks:
            queues = owned.task.queues.values()
            beyond = {queue.partition: queue.position + 1 for queue in queues}
            owned.task.committed_offsets = beyond
        return purge(self, admin, plan, tasks, now)

    patch(Maintenance, "purge", wrong)


@bug
def event_time_zero_is_left_to_the_client(patch: Patch) -> None:
    """Event time 0 becomes the current time on its way through an internal topic."""
    patch(OutputBuffer, "_with_sent_timestamp", lambda self, record: record)


@bug
def changelog_time_zero_is_left_to_the_client(patch: Patch) -> None:
    """A row of event time 0 is logged with the current time."""
    import logstate.commit.commit

    patch(logstate.commit.commit, "NO_TIMESTAMP", 0)


@bug
def outputs_are_not_flushed(patch: Patch) -> None:
    """At-least-once outputs may still be in the producer when their inputs are committed."""

    def wrong(self: OutputBuffer) -> Steps[None]:
        held, self._deferred_plain = self._deferred_plain, None
        if held and self._plain is not None:
            yield Step("produce_plain", self._plain.produce, (held,))

    patch(OutputBuffer, "flush", wrong)


@bug
def internal_records_leave_the_transaction(patch: Patch) -> None:
    """With at-least-once, repartition records go through the plain producer too."""

    send = OutputBuffer._send_in_transaction

    def wrong(self: OutputBuffer, records: list[Any]) -> Steps[None]:
        if self._plain is None:
            yield from send(self, records)
        else:
            yield Step("produce_plain", self._plain.produce, (records,))

    patch(OutputBuffer, "_send_in_transaction", wrong)


@bug
def changelogs_leave_the_transaction(patch: Patch) -> None:
    """With at-least-once, changelog records go through the plain producer."""
    records_of = Committer._changelog_records

    def wrong(self: Committer, commit: Any) -> dict[str, list[Any]]:
        by_store = records_of(self, commit)
        plain = self.output_buffer._plain
        if plain is None:
            return by_store
        for records in by_store.values():
            plain.produce(records)
        return {}

    patch(Committer, "_changelog_records", wrong)
