"""Find inputs that the application has read before but that have no committed offset anymore.

Offsets expire (``offsets.retention.minutes``) and tools delete them. An input without an offset
would be read from where its reset policy points, and the records that already contributed to
committed state would be counted again. This affects more than the stores of the task that reads the
input: the results of a task without stores may be counted behind a repartition topic.

An input without an offset may also be new: a first start, or an added topic or partition. The
offsets are missing, so the logs must show the difference:

- the task's own stores: their changelogs have records, or rows without a changelog are on the local
  disk, and the cuts of the task's other inputs do not exclude the topic (``was_read``);
- stores behind other topics: the task's record in the cuts topic names the input (it was written in
  the transaction that committed the input's offsets), and the topics in between have records.

One error lists all such inputs of the application. Advice about only one of them would lead to
duplicate results from the others.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from logstate.changelog.cut import cut_key, decode_cut, topics_of_record
from logstate.contracts.clients import Admin, Committed, Step, Steps
from logstate.contracts.errors import RestoreError
from logstate.contracts.records import TaskId, TopicPartition
from logstate.restore.committed_offsets import CutsReader
from logstate.restore.missing_records import LogRange
from logstate.restore.restore_plan import doubt_about, was_read
from logstate.restore.task_rows import log_ranges
from logstate.task.owned_task import OwnedTask
from logstate.topics.bound_plan import BoundPlan
from logstate.topics.reached_stores import Reached, feeding_sub_topologies, reached

_NOTHING = Committed(None, "")


class Found(NamedTuple):
    """What the brokers store for an application."""

    committed: Mapping[TopicPartition, Committed]
    #: of inputs, repartition topics and changelogs
    logs: Mapping[TopicPartition, LogRange]
    #: the records of the cuts topic
    records: Mapping[bytes, bytes]


class MissingOffsets:
    """Checks the inputs of a task for missing committed offsets before the task starts."""

    def __init__(self, plan: BoundPlan, admin: Admin, cuts: CutsReader) -> None:
        self._plan = plan
        self._admin = admin
        self._cuts = cuts
        self._feeding = feeding_sub_topologies(plan)

    def check(
        self,
        owned: OwnedTask,
        committed: Mapping[TopicPartition, Committed],
        logs: Mapping[TopicPartition, LogRange],
        *,
        has_state: bool,
        unlogged: Collection[str],
    ) -> Steps[None]:
        """Raise RestoreError if an input of the task was read before and has no committed offset.

        An offset beyond the end of the log counts as missing, because it leads to rereading as
        well. ``has_state``: the task's changelogs have records. ``unlogged``: stores without a
        changelog that have local rows. Raises RetriableError while this cannot be determined.
        """
        missing = [tp for tp in owned.partitions if _is_missing(committed[tp], logs[tp])]
        if not missing:
            return
        metadata = owned.metadata.values()
        is_kept = (has_state or unlogged) and any(
            committed[tp].offset is None and was_read(tp.topic, committed[tp], metadata)
            for tp in missing
        )
        if not is_kept and not (yield from self._may_be_beyond(owned.task_id, missing)):
            return
        records = yield from self._cuts.records()
        found = yield from self._found(committed, records)
        problems = problems_of(self._plan, found, {owned.task_id: unlogged})
        if not problems.keys().isdisjoint(missing):
            raise RestoreError(_message(self._plan, found, problems))

    def _may_be_beyond(self, task_id: TaskId, missing: list[TopicPartition]) -> Steps[bool]:
        """Return True if one of the inputs was read before and its results are stored elsewhere."""
        if task_id.sub_topology not in self._feeding:
            return False
        records = yield from self._cuts.records()
        return any(tp.topic in _topics_read_before(task_id, records) for tp in missing)

    def _found(
        self, known: Mapping[TopicPartition, Committed], records: Mapping[bytes, bytes]
    ) -> Steps[Found]:
        plan = self._plan
        inputs = [tp for task_id in plan.task_ids() for tp in plan.input_partitions(task_id)]
        changelogs = [tp for task_id in plan.task_ids() for tp in plan.changelogs(task_id)]
        committed = yield Step(
            "committed_so_far", self._admin.committed_so_far, (plan.application_id, inputs)
        )
        logs = yield from log_ranges(self._admin, list(dict.fromkeys([*inputs, *changelogs])))
        return Found({**committed, **known}, logs, records)


def problems_of(
    plan: BoundPlan, found: Found, unlogged: Mapping[TaskId, Collection[str]]
) -> dict[TopicPartition, str]:
    """Map each input that was read before and has no offset to where its results are stored.

    ``unlogged``: for each task, the stores without a changelog that are known to have rows.
    """
    rows_of = {task_id.sub_topology: stores for task_id, stores in unlogged.items() if stores}
    problems: dict[TopicPartition, str] = {}
    for task_id in plan.task_ids():
        inputs = plan.input_partitions(task_id)
        committed = {tp: found.committed.get(tp, _NOTHING) for tp in inputs}
        metadata = [
            decode_cut(one.metadata, committed_offset=one.offset)
            for one in committed.values()
            if one.offset is not None
        ]
        for tp, one in committed.items():
            if not _is_missing(one, found.logs[tp]):
                continue
            where = ""
            if one.offset is None and was_read(tp.topic, one, metadata):
                where = _in_own_stores(plan, found, task_id, rows_of.get(task_id.sub_topology, ()))
            if not where and tp.topic in _topics_read_before(task_id, found.records):
                where = _in_others(plan, found, task_id, tp.topic)
            if where:
                problems[tp] = where
    return problems


def _is_missing(committed: Committed, log: LogRange) -> bool:
    return committed.offset is None or committed.offset > log.end


def _topics_read_before(task_id: TaskId, records: Mapping[bytes, bytes]) -> frozenset[str]:
    """Return the topics that the task is known to have read."""
    record = records.get(cut_key(task_id))
    return topics_of_record(record) if record else frozenset()


def _in_own_stores(
    plan: BoundPlan, found: Found, task_id: TaskId, unlogged: Collection[str]
) -> str:
    changelogs = plan.changelogs(task_id).items()
    if any(found.logs[tp].end > 0 for tp, spec in changelogs if not spec.source_topic):
        return "the changelogs of its task hold state"
    if unlogged:
        names = ", ".join(map(repr, sorted(unlogged)))
        return f"stores without a changelog hold rows on the local disk: {names}"
    return ""


def _in_others(plan: BoundPlan, found: Found, task_id: TaskId, topic: str) -> str:
    def passes(written: str) -> bool:
        """Only the application itself writes to its repartition topics."""
        if written not in plan.repartition_topics:
            return True
        return any(log.end > 0 for _, log in _partitions(plan, found, written))

    sub = plan.sub_topology(task_id)
    for one in reached(plan, sub, topic, passes):
        if _holds(plan, found, one):
            stores = ", ".join(repr(spec.name) for spec in one.sub_topology.stores)
            through = ", ".join(map(repr, one.topics))
            return f"its results are in the state of {stores}, which they reach through {through}"
    return ""


def _holds(plan: BoundPlan, found: Found, one: Reached) -> bool:
    """Return True if the reached sub-topology has rows or unread records on the way to it."""
    reads = _partitions(plan, found, one.topics[-1])
    stores = [spec for spec in one.sub_topology.stores if not spec.is_logged]
    for task in range(plan.task_count(one.sub_topology)):
        changelogs = plan.changelogs(TaskId(one.sub_topology.id, task)).items()
        if any(found.logs[tp].end > 0 for tp, spec in changelogs if not spec.source_topic):
            return True
    if any(not spec.in_memory for spec in stores) and any(
        (found.committed.get(tp, _NOTHING).offset or 0) > 0
        or (log.end > 0 and one.topics[-1] in plan.repartition_topics)
        for tp, log in reads
    ):
        return True  # the rows may be on the disk of any instance
    own = [topic for topic in one.topics if topic in plan.repartition_topics]
    for tp, log in (each for topic in own for each in _partitions(plan, found, topic)):
        offset = found.committed.get(tp, _NOTHING).offset
        if (log.start if offset is None else offset) < log.end:
            return True
    return False


def _partitions(plan: BoundPlan, found: Found, topic: str) -> list[tuple[TopicPartition, LogRange]]:
    every = (TopicPartition(topic, number) for number in range(plan.partition_counts[topic]))
    return [(tp, found.logs[tp]) for tp in every if tp in found.logs]


def _committed(found: Found, partition: TopicPartition) -> str:
    offset = found.committed.get(partition, _NOTHING).offset
    return "nothing is committed" if offset is None else f"offset {offset} is committed"


def _message(plan: BoundPlan, found: Found, problems: Mapping[TopicPartition, str]) -> str:
    group = plan.application_id
    lines = "".join(
        f"\n  input {tp}: {_committed(found, tp)}, while {where}. The topic holds offsets"
        f" {found.logs[tp].start} to {found.logs[tp].end}; `kafka-consumer-groups --reset-offsets"
        f" --group {group} --topic {tp.topic}:{tp.partition} --to-offset N --execute`"
        for tp, where in problems.items()
    )
    one = len(problems) == 1
    found_what = (
        "an input was read before, and its committed offset is missing"
        if one
        else f"{len(problems)} inputs were read before, and their committed offsets are missing"
    )
    return (
        f"application {group!r}: {found_what} or outside the topic:{lines}\nThe offsets expired"
        " (offsets.retention.minutes of the brokers), or the offsets, the group or the topic were"
        " deleted. Reading"
        " these inputs from any other position would count records twice or not at all."
        f" {doubt_about(plan.shared_changelogs)}To keep the state, stop all instances and run the"
        " command of EVERY input in this list before the next start. N is the first offset that was"
        " not processed yet: the end of the topic if all its records were processed, its start"
        " if the topic was deleted and created again. A smaller N counts records twice, a larger"
        " one loses records. If N is unknown for one of them, start from scratch: run"
        " `logstate reset`, which deletes the state and sets the offsets of all inputs. Records"
        " that the inputs no longer hold cannot be recovered"
    )
