"""The commit as one list of steps. Everything that must happen in order happens here.

    0  check ownership: this member has owned every partition of the commit since the same epoch
    1  emit results buffered for the commit; take out outputs, writes, offsets, clocks: ONE cut
    2  produce the remaining outputs, and the changelog records of all changed rows; records
       processed from now on belong to the next commit: their outputs are buffered in memory
    3  flush: delivery reports give the changelog positions
    4  check ownership again; write the rows without a changelog next to the local rows of their
       task; add ALL input offsets of every task, each with its cut
    5  commit the transaction
    6  only now the rows become the committed view; RocksDB gets them later, in one write
    7  the buffered outputs begin the next transaction

Between 2 and 7 records may be processed (:mod:`logstate.commit.in_flight_commit`).
A crash between any two steps leaves either everything of the commit or nothing of it on the log:
before 5 the transaction is aborted (by the next owner of its id, or its timeout); after 5 the
changelogs have the rows that are missing locally, and a replay from the stored position restores
them.

State is exactly-once with either guarantee: changelogs, repartition records and offsets are always
in the transaction. ``at_least_once`` only sends OUTPUTS through a plain producer, visible at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from logstate.changelog.cut import Writer, cut_key, encode_task_cut
from logstate.commit.output_buffer import NO_TIMESTAMP, OutputBuffer
from logstate.commit.transaction import Transactions
from logstate.contracts.clients import GroupConsumer, PlainProducer, Step, Steps
from logstate.contracts.errors import AbortableError
from logstate.contracts.records import ProducedFields, ProducedRecord, TopicPartition
from logstate.contracts.topic_names import cuts_topic
from logstate.task.owned_task import OwnedTask, Stage
from logstate.task.task_commit import TaskCommit, processor_times
from logstate.topics.bound_plan import BoundPlan
from logstate.topics.reached_stores import feeding_sub_topologies

#: changelog records produced before other work gets a turn: half a millisecond
_RECORDS_AT_ONCE = 1_000
#: a step at which a commit may be interrupted; it makes no call
PAUSE = Step("pause_commit", lambda: None)


class CommitReport(NamedTuple):
    """The result of a commit, for metrics."""

    #: (task id, store) -> number of changelog records
    changelog_records: Mapping[tuple[str, str], int]
    offsets: Mapping[TopicPartition, int]
    #: the metadata committed with the offsets, and by task the cut records that did not fit there
    metadata: Mapping[TopicPartition, str] = {}
    cut_records: Mapping[str, bytes] = {}


class Committer:
    """Commits tasks of one worker."""

    def __init__(
        self,
        plan: BoundPlan,
        consumer: GroupConsumer,
        transactions: Transactions,
        outputs: PlainProducer | None,
    ) -> None:
        self._plan = plan
        self._consumer = consumer
        self._transactions = transactions
        self.output_buffer = OutputBuffer(plan, transactions, outputs)
        #: sub-topologies whose tasks record their inputs in the cuts topic
        self._feeding = feeding_sub_topologies(plan)
        self._member_id = ""

    def joined(self) -> None:
        """Remember the membership that the current assignment belongs to."""
        self._member_id = self._consumer.member_id()

    def commit(
        self, tasks: Sequence[OwnedTask], epoch_of: Mapping[TopicPartition, int]
    ) -> Steps[CommitReport]:
        """Commit everything these tasks have done since their last commit."""
        member_id = self._member_id
        self._check_ownership(tasks, epoch_of, member_id)  # 0
        commits = [owned.task.freeze() for owned in tasks]  # 1
        logged: dict[tuple[str, str], int] = {}
        for commit in commits:  # 2
            yield from self.output_buffer.send(commit.outputs)
        self.output_buffer.defer()
        yield from self._transactions.begin()
        for commit in commits:
            yield from self._produce_changelogs(commit, logged)
        yield from self.output_buffer.flush()
        delivered = yield from self._transactions.flush()  # 3
        positions = [self._positions(commit, delivered) for commit in commits]
        offsets, cut_records = yield from self._offsets(tasks, commits, positions)
        self._check_ownership(tasks, epoch_of, member_id)  # 4
        for owned, commit in zip(tasks, commits, strict=True):
            owned.task.state.prepare(commit.changes, self._member_id)
        metadata = yield Step("group_metadata", self._consumer.group_metadata)
        yield from self._transactions.commit(offsets, metadata)  # 5
        for owned, commit, position in zip(tasks, commits, positions, strict=True):  # 6
            owned.task.committed(commit, position)
            owned.is_recorded = True
        yield from self.output_buffer.release()  # 7
        metadata_of = {tp: text for tp, (_, text) in offsets.items()}
        return CommitReport(
            logged, {tp: o for tp, (o, _) in offsets.items()}, metadata_of, cut_records
        )

    # ------------------------------------------------------------------ pieces

    def _check_ownership(
        self,
        tasks: Sequence[OwnedTask],
        epoch_of: Mapping[TopicPartition, int],
        member_id: str,
    ) -> None:
        """Raise AbortableError if this member no longer owns the partitions.

        Group metadata fences members, not owners: the broker would accept offsets of partitions
        that this member no longer owns, so this check is necessary. ``member_id``: the member that
        the partitions were assigned to.
        """
        if self._consumer.member_id() != member_id:
            raise AbortableError(
                "this worker is no longer the group member that its tasks were assigned to"
            )
        for owned in tasks:
            assert owned.stage is not Stage.CLOSED, owned.task_id
            for partition in owned.partitions:
                if epoch_of.get(partition) != owned.epoch:
                    raise AbortableError(
                        f"task {owned.task_id} no longer owns {partition} since the assignment that"
                        " it was started for"
                    )

    def _produce_changelogs(
        self, commit: TaskCommit, logged: dict[tuple[str, str], int]
    ) -> Steps[None]:
        for store, records in self._changelog_records(commit).items():
            logged[str(commit.task_id), store] = len(records)
            for start in range(0, len(records), _RECORDS_AT_ONCE):
                yield PAUSE
                yield from self._transactions.produce(records[start : start + _RECORDS_AT_ONCE])

    def _changelog_records(self, commit: TaskCommit) -> dict[str, list[ProducedFields]]:
        by_store: dict[str, list[ProducedFields]] = {}
        partition = commit.task_id.partition
        for store, writes in commit.changes.writes.items():
            if not writes:
                continue
            spec = self._plan.topology.stores[store]
            topic = self._plan.changelog_topics[store]
            if topic is None or spec.source_topic is not None:
                continue
            by_store[store] = [
                (topic, partition, key, value, timestamp or _stored_timestamp(timestamp), headers)
                for key, value, timestamp, headers in writes
            ]
        return by_store

    def _positions(
        self, commit: TaskCommit, delivered: Mapping[TopicPartition, int]
    ) -> dict[str, int]:
        """Return the changelog positions of the stores that wrote in this commit."""
        positions = {}
        for store in commit.changes.writes:
            spec = self._plan.topology.stores[store]
            topic = self._plan.changelog_topics[store]
            if topic is None:
                continue
            partition = TopicPartition(topic, commit.task_id.partition)
            if spec.source_topic is not None:
                positions[store] = commit.offsets[partition]
            elif partition in delivered:
                positions[store] = delivered[partition]
        return positions

    def _offsets(
        self,
        tasks: Sequence[OwnedTask],
        commits: Sequence[TaskCommit],
        positions: Sequence[Mapping[str, int]],
    ) -> Steps[tuple[dict[TopicPartition, tuple[int, str]], dict[str, bytes]]]:
        offsets: dict[TopicPartition, tuple[int, str]] = {}
        overflow: list[ProducedFields] = []
        cut_records: dict[str, bytes] = {}
        writer = Writer(self._transactions.transactional_id, self._member_id)
        for owned, commit, position in zip(tasks, commits, positions, strict=True):
            cut = encode_task_cut(
                {
                    tp.topic: (offset, commit.partition_times.get(tp, -1))
                    for tp, offset in commit.offsets.items()
                },
                positions=self._by_name({**owned.task.state.positions, **position}),
                begins=self._first_needed_offsets(commit.changes.first_needed),
                local_rows=commit.changes.local_rows,
                clocks={name: time for name, time in commit.changes.clocks.items() if time >= 0},
                topic_ids={tp.topic: self._plan.topic_ids[tp.topic] for tp in owned.partitions},
                processor_times=processor_times(commit.changes.clocks, self._plan.logged_as),
                writer=writer,
                with_record=owned.task_id.sub_topology in self._feeding and not owned.is_recorded,
            )
            for tp, offset in commit.offsets.items():
                offsets[tp] = (offset, cut.metadata[tp.topic])
            if cut.record is not None:
                topic = cuts_topic(self._plan.application_id)
                key = cut_key(owned.task_id)
                cut_records[str(owned.task_id)] = cut.record
                overflow.append(ProducedRecord(topic, 0, key, cut.record, 0))
        if overflow:
            yield from self._transactions.produce(overflow)
            yield from self._transactions.flush()
        return offsets, cut_records

    def _by_name(self, positions: Mapping[str, int]) -> dict[str, int]:
        named = {}
        for store, position in positions.items():
            spec = self._plan.topology.stores[store]
            topic = self._plan.changelog_topics[store]
            if topic is not None and spec.source_topic is None:
                named[topic] = position
        return named

    def _first_needed_offsets(self, first_needed: Mapping[str, int]) -> dict[str, int]:
        topics = self._plan.changelog_topics
        return {
            topic: offset
            for store, offset in first_needed.items()
            if (topic := topics[store]) is not None
        }


def _stored_timestamp(timestamp: int | None) -> int:
    """Return a changelog record's timestamp; None means the current time, which the client sets for
    0.
    """
    return 0 if timestamp is None else NO_TIMESTAMP
