"""Move the state of a stopped application to another number of partitions.

    1  check that the group has no members; fence an earlier attempt and delete its topics
    2  plan the moves, and refuse stores that cannot be moved (`moves`)
    3  check that nothing is in flight: repartition topics are empty, and the inputs' records beyond
       the committed offsets are in the partitions where they belong now
    4  mark the manifest with the time of the move; the application does not start while marked
    5  create the topics of a new generation; copy every row, in several transactions
    6  in ONE transaction: write the manifest that names the new topics, and the offsets of all
       tasks with their cuts. Before it the old state is valid, after it the new one
    7  delete the old topics, and remove them from the manifest

A crash before 6 leaves the old state unchanged, with the mark; the next run starts again, or
``abandon`` removes the mark. A crash after 6 leaves unused topics; the next run deletes them. One
fenced producer writes everything, so an attempt that was suspended can no longer write.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from logstate.admin.handover_of_tasks import NOTHING, Begin, Handover
from logstate.admin.in_flight import check_inputs, check_is_drained, check_was_read
from logstate.admin.row_copies import RowCopies
from logstate.admin.stopped_application import (
    StoppedApplication,
    commits_of_tasks,
    names_of_logs,
)
from logstate.admin.successor_topics import moved_away, successors
from logstate.changelog.commit_of_task import CommitOfTask
from logstate.contracts.clients import Committed, TopicDescription, TransactionalProducer, run_steps
from logstate.contracts.errors import ConfigError, MembersLiveError, UpgradeError
from logstate.contracts.records import ProducedFields, ProducedRecord, TaskId, TopicPartition
from logstate.topics.bound_plan import BoundPlan
from logstate.topics.internal_topics import check_topics_of_others
from logstate.topics.manifest import manifest
from logstate.topics.manifest_changes import MOVED_AWAY, Manifest
from logstate.topics.merged_clocks import merged_clocks
from logstate.topics.store_moves import Moves, planned, without_mark
from logstate.topology.plan.plan import Topology

_SINCE, _TOPICS = "resharding_since", "resharding_topics"
_ROWS_OF_A_TRANSACTION = 20_000


@dataclass(frozen=True)
class Resharded:
    """The result of a reshard."""

    #: store -> partitions before and after; empty if nothing had to be moved
    partitions: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    #: store -> changelog records that were copied
    records: Mapping[str, int] = field(default_factory=dict)
    #: store -> rows that were final results, already sent, which the new tasks do not get
    left_behind: Mapping[str, int] = field(default_factory=dict)
    #: topics that were deleted
    deleted: tuple[str, ...] = ()


def reshard(
    topology: Topology,
    *,
    application_id: str,
    bootstrap: str,
    partitions: int,
    begin: Begin = "earliest",
    config: Mapping[str, Any] | None = None,
    replication_factor: int = -1,
    topic_config: Mapping[str, str] | None = None,
    keep_old: bool = False,
    on_step: Callable[[str], None] = lambda _: None,
) -> Resharded:
    """Move the state of a stopped application to the current partition count of its inputs.

    After an interruption at any point, run it again; it does nothing if nothing is left to do.
    Afterwards the application continues with the same topology.

    Args:
        topology: the topology that runs afterwards. Its inputs have ``partitions`` partitions: the
            same topics, extended, or other topics that replace them.
        application_id: the application's id.
        bootstrap: brokers, as ``host:port``.
        partitions: the count expected for the stores that move; another count is refused.
        begin: where inputs begin that have no committed offset: ``"earliest"``,
            ``"latest"``, an offset or an ``At`` (a time in ms).
        config: settings of the Kafka clients, as for ``Application``.
        replication_factor: of the topics that are created; -1 is the brokers' default.
        topic_config: settings of these topics; they override those of the old changelogs.
        keep_old: keep the old topics. They are unused, and ``logstate reset`` deletes them.
        on_step: called with a description of each step before it begins.

    Raises MembersLiveError while an instance is running, UpgradeError if rows cannot be moved,
    records are in flight, or the topology does not fit the stored state; TopicError for inputs
    that do not exist; ConfigError for a count that the inputs do not have. In each case nothing
    was changed.
    """
    with StoppedApplication.on_brokers(application_id, bootstrap, config) as application:
        return Resharding(
            application, topology, begin, replication_factor, topic_config or {}, on_step
        ).run(partitions, keep_old=keep_old)


def abandon(
    *, application_id: str, bootstrap: str, config: Mapping[str, Any] | None = None
) -> tuple[str, ...]:
    """Abandon an interrupted move: remove its mark, so that the application can start unchanged.

    Delete the topics that the move had created, and return their names. Does nothing if there is
    no mark. Raises as :func:`reshard` does.
    """
    with StoppedApplication.on_brokers(application_id, bootstrap, config) as application:
        return without_move(application)


def without_move(application: StoppedApplication) -> tuple[str, ...]:
    """Abandon a move as :func:`abandon` does, for an application that the caller has opened."""
    stored, _ = application.stored()
    topics = tuple(stored.get(_TOPICS, ()))
    application.admin.delete_topics(topics)
    if _SINCE in stored:
        application.write_manifest(without_mark(stored))
    return topics


@dataclass(frozen=True)
class Resharding:
    """A move that is carried out by :meth:`run`; the arguments are those of :func:`reshard`."""

    application: StoppedApplication
    topology: Topology
    begin: Begin
    replication_factor: int
    topic_config: Mapping[str, str]
    on_step: Callable[[str], None]

    def run(self, partitions: int, *, keep_old: bool = False) -> Resharded:
        """Move the rows and offsets; see :func:`reshard`."""
        application, admin = self.application, self.application.admin
        marked, cut_records = application.stored()
        _check_is_not_reset(marked)
        self._delete_unfinished(marked)
        stored = without_mark(marked)
        found = admin.describe_topics((), f"{application.application_id}-")
        bound = run_steps(check_topics_of_others(admin, self.topology, application.application_id))
        moves = planned(bound, stored, found)
        if not moves.stores and not moves.drained:
            if _SINCE in marked:
                application.write_manifest(stored)
            return Resharded(deleted=self._clean_up(stored, keep_old=keep_old))
        _check_counts(moves, partitions)
        done = self._reshard(moves, stored, cut_records, found)
        now, _ = application.stored()
        return replace(done, deleted=self._clean_up(now, keep_old=keep_old))

    def _delete_unfinished(self, marked: Manifest) -> None:
        topics = marked.get(_TOPICS, ())
        if topics:
            self.on_step("delete the topics of an earlier attempt")
            self.application.admin.delete_topics(topics)

    def _reshard(
        self,
        moves: Moves,
        stored: Manifest,
        cut_records: Mapping[bytes, bytes],
        found: Mapping[str, TopicDescription],
    ) -> Resharded:
        """Mark, stage and switch; an UpgradeError on the way removes the mark again."""
        committed = self._check_nothing_is_in_flight(moves)
        logs = names_of_logs(stored)
        commits = {
            move.sub_topology.id: commits_of_tasks(
                move.number_before, move.sources_before, move.before, committed, cut_records, logs
            )
            for move in moves.tasks
        }
        self._mark_manifest(stored, moves, committed)
        try:
            records, left_behind = self._copy_rows(moves, commits, found)
            self._switch_topics(moves, commits, committed, found)
        except UpgradeError:  # about the state; after an error of a broker the mark has to stay
            self.application.admin.delete_topics(sorted(moves.targets))
            self.application.write_manifest(stored)
            raise
        return Resharded(moves.counts, records, left_behind)

    def _check_nothing_is_in_flight(self, moves: Moves) -> dict[TopicPartition, Committed]:
        """Return the last commits of all inputs of the moving tasks, and of the old inputs."""
        self.on_step("wait for open transactions")
        for move in moves.stores:
            for partition in range(move.before):
                self.application.wait_until_decided(TopicPartition(move.source, partition))
        of = {
            topic: [TopicPartition(topic, partition) for partition in range(one.partitions)]
            for topic, one in self._described_before(moves).items()
        }
        committed = self.application.committed(
            tp for partitions in of.values() for tp in partitions
        )
        self.on_step("look for records in flight")
        logs = self.application.logs
        for name in moves.drained:
            check_is_drained(logs, of.get(name, []), committed)
        for name in moves.left:
            check_was_read(logs, of.get(name, []), committed)
        for task in moves.tasks:
            sources = set(moves.plan.source_topics(task.sub_topology))
            for name in sorted(sources - moves.plan.repartition_topics):
                check_inputs(logs, of[name], committed, task.after)
        return committed

    def _described_before(self, moves: Moves) -> dict[str, TopicDescription]:
        """Return the current topics that moving tasks read before or will read."""
        names = {topic for move in moves.tasks for topic in move.sources_before}
        names |= {t for move in moves.tasks for t in moves.plan.source_topics(move.sub_topology)}
        names |= {*moves.drained, *moves.left, *_read_without_state(moves.plan)}
        return self.application.admin.describe_topics(sorted(names))

    def _mark_manifest(
        self, stored: Manifest, moves: Moves, committed: Mapping[TopicPartition, Committed]
    ) -> None:
        self.on_step("mark the application as being moved")
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        mark = {**stored, _SINCE: now, _TOPICS: sorted(moves.targets)}
        application = self.application
        application.write_manifest(mark)
        application.check_group_is_empty()
        if application.committed(committed) != committed:
            application.write_manifest(stored)
            raise UpgradeError(
                f"an instance of application {application.application_id!r} has run while its"
                " state was being checked. Stop every instance, and try again; nothing was changed"
            )

    def _copy_rows(
        self,
        moves: Moves,
        commits: Mapping[int, Mapping[TaskId, CommitOfTask]],
        found: Mapping[str, TopicDescription],
    ) -> tuple[dict[str, int], dict[str, int]]:
        """Create the new topics and copy every row; return store -> records, and rows left out."""
        self._make_topics(moves, found)
        records, left_behind = {}, {}
        tasks = {spec.name: move for move in moves.tasks for spec in move.sub_topology.stores}
        for move in moves.stores:
            of_tasks = commits[tasks[move.spec.name].sub_topology.id]
            clocks = {task.partition: commit.clocks for task, commit in of_tasks.items()}
            copies = RowCopies(move, clocks, merged_clocks(clocks.values()))
            records[move.spec.name] = self._copy(copies, move.before)
            if copies.left_behind:
                left_behind[move.spec.name] = copies.left_behind
        return records, left_behind

    def _make_topics(self, moves: Moves, found: Mapping[str, TopicDescription]) -> None:
        self.on_step("make the topics")
        wanted = successors(
            moves, found, self.application.admin, self.replication_factor, self.topic_config
        )
        self.application.admin.create_topics(wanted)
        described = self.application.admin.describe_topics(sorted(moves.targets))
        moves.plan.topic_ids.update({name: one.topic_id for name, one in described.items()})

    def _copy(self, copies: RowCopies, partitions: int) -> int:
        """Copy the rows of a store, in transactions of some size; return the number of records."""
        logs = self.application.logs
        if copies.is_merged:
            return self._append(copies.source, copies.of_all_partitions(logs))
        return sum(
            self._append(f"{copies.source}-{one}", copies.of_partition(logs, one))
            for one in range(partitions)
        )

    def _append(self, source: str, batches: Iterable[list[ProducedFields]]) -> int:
        self.on_step(f"copy {source}")
        count = 0
        for chunk in _chunks(batches):
            self.application.append(chunk)
            count += len(chunk)
            self.on_step(f"{count} records of {source}")
        return count

    def _switch_topics(
        self,
        moves: Moves,
        commits: Mapping[int, Mapping[TaskId, CommitOfTask]],
        committed: Mapping[TopicPartition, Committed],
        found: Mapping[str, TopicDescription],
    ) -> None:
        self.on_step("hand over")
        application = self.application
        offsets, records = self._cuts(moves, commits, committed)
        then = manifest(moves.plan)
        then["forgotten"] = {**moves.stored.get("forgotten", {}), **moved_away(moves, found)}

        def write(producer: TransactionalProducer) -> None:
            producer.produce([*records, application.manifest_record(then)])
            producer.flush()
            self.on_step("send the offsets")
            application.send_offsets(offsets)
            self.on_step("commit the handover")

        application.in_transaction(write)
        self.on_step("handed over")

    def _cuts(
        self,
        moves: Moves,
        commits: Mapping[int, Mapping[TaskId, CommitOfTask]],
        committed: Mapping[TopicPartition, Committed],
    ) -> tuple[dict[TopicPartition, tuple[int, str]], list[ProducedRecord]]:
        """Return the offsets of all new tasks, and records of the cuts topic."""
        handover = self._handover(moves, committed)
        offsets: dict[TopicPartition, tuple[int, str]] = {}
        records: list[ProducedRecord] = []
        for move in moves.tasks:
            of_tasks = commits[move.sub_topology.id]
            merged = merged_clocks(commit.clocks for commit in of_tasks.values())
            for partition in range(move.after):
                task = handover.task(move.sub_topology, partition, merged, committed)
                offsets.update(task.offsets)
                records += task.records
        # Tasks without state do not move, and begin without a cut.
        for tp, offset in handover.begins.items():
            offsets.setdefault(tp, (offset, ""))
        return offsets, records

    def _handover(self, moves: Moves, committed: Mapping[TopicPartition, Committed]) -> Handover:
        application, own = self.application, moves.plan.repartition_topics
        read = {
            TopicPartition(name, partition)
            for move in moves.tasks
            for name in moves.plan.source_topics(move.sub_topology)
            if name not in own  # those are new, and begin at 0
            for partition in range(move.after)
        }
        read |= {
            TopicPartition(name, partition)
            for name in _read_without_state(moves.plan)
            for partition in range(moves.plan.partition_counts[name])
        }
        unread = sorted(tp for tp in read if committed.get(tp, NOTHING).offset is None)
        targets = [
            TopicPartition(move.target, partition)
            for move in moves.stores
            for partition in range(move.after)
        ]
        begins = application.input_begins(unread, self.begin)
        return Handover(moves.plan, begins, application.ends(targets))

    def _clean_up(self, stored: Manifest, *, keep_old: bool) -> tuple[str, ...]:
        """Delete the topics that are unused since a move, and remove them from the manifest."""
        forgotten = stored.get("forgotten", {})
        old = {name: entry for name, entry in forgotten.items() if entry.get(MOVED_AWAY)}
        if not old or keep_old:
            return ()
        self.on_step("delete the old topics")
        topics = tuple(sorted(e["changelog_topic"] for e in old.values() if e["changelog_topic"]))
        self.application.admin.delete_topics(topics)
        left = {name: entry for name, entry in forgotten.items() if name not in old}
        self.on_step("forget the old topics")
        with suppress(MembersLiveError):  # an instance runs already; the next run forgets them
            self.application.write_manifest({**stored, "forgotten": left})
        return topics


def _read_without_state(plan: BoundPlan) -> set[str]:
    """Return the external inputs that only tasks without stores read."""
    subs = plan.topology.sub_topologies
    stateless = {t for sub in subs if not sub.stores for t in plan.source_topics(sub)}
    stateful = {t for sub in subs if sub.stores for t in plan.source_topics(sub)}
    return stateless - stateful - plan.repartition_topics


def _chunks(batches: Iterable[list[ProducedFields]]) -> Iterator[list[ProducedFields]]:
    chunk: list[ProducedFields] = []
    for batch in batches:
        chunk += batch
        if len(chunk) >= _ROWS_OF_A_TRANSACTION:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def _check_is_not_reset(stored: Manifest) -> None:
    if "reset_since" in stored:
        raise UpgradeError(
            f"application {stored['application_id']!r} is being reset since"
            f" {stored['reset_since']}: it has no state to move. Run `logstate reset"
            f" --application-id {stored['application_id']}` again to finish the reset"
        )


def _check_counts(moves: Moves, partitions: int) -> None:
    others = {
        name: after
        for name, (before, after) in moves.counts.items()
        if after not in (partitions, before)
    }
    if others:
        raise ConfigError(
            f"--partitions is {partitions}, but the inputs give {others}: a store has as many"
            " partitions as the inputs of its sub-topology, or as repartition(partitions=...)"
            " says. Extend the inputs, or name inputs with that count in the topology; nothing was"
            " changed"
        )
