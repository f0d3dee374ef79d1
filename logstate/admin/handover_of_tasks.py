"""The cuts with which tasks go on: what each reads from where, by which clocks. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias

from logstate.admin.reset import At
from logstate.changelog.cut import UNKNOWN_TIME_MS, cut_key, decode_cut, encode_task_cut
from logstate.contracts.clients import Committed
from logstate.contracts.records import ProducedRecord, TaskId, TopicPartition
from logstate.contracts.topic_names import cuts_topic
from logstate.task.task_commit import processor_times
from logstate.topics.bound_plan import BoundPlan
from logstate.topology.graph.sub_topology import SubTopology

#: where inputs begin that were not read so far
Begin: TypeAlias = "Literal['earliest', 'latest'] | At | int"
#: of a partition for which nothing was committed
NOTHING: Final = Committed(None, "")


class TaskHandover(NamedTuple):
    """What is committed for one task."""

    offsets: Mapping[TopicPartition, tuple[int, str]]
    #: for the cuts topic, where the cut is too long for the offsets' metadata
    records: list[ProducedRecord]


@dataclass(frozen=True)
class Handover:
    """Makes the cuts; ``begins`` of inputs without an offset, ``ends`` of the new changelogs."""

    plan: BoundPlan
    begins: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]

    def task(
        self,
        sub_topology: SubTopology,
        partition: int,
        clocks: Mapping[str, int],
        committed: Mapping[TopicPartition, Committed],
    ) -> TaskHandover:
        """The offsets of one task, with its cut."""
        plan, task = self.plan, TaskId(sub_topology.id, partition)
        inputs = {
            tp.topic: position_of(tp, committed, self.begins) for tp in plan.input_partitions(task)
        }
        logs = plan.changelogs(task)
        positions = {tp.topic: self.ends[tp] for tp in logs if tp in self.ends}
        ids = {name: plan.topic_ids[name] for name in inputs if name in plan.topic_ids}
        return task_handover(
            plan.application_id,
            task,
            inputs,
            positions=positions,
            clocks=clocks,
            topic_ids=ids,
            begins=dict.fromkeys(positions, 0),  # the new changelogs have all their records
            logged_as=plan.logged_as,
        )


def position_of(
    partition: TopicPartition,
    committed: Mapping[TopicPartition, Committed],
    begins: Mapping[TopicPartition, int],
) -> tuple[int, int]:
    """Where an input is read on, and the largest event time that was seen in it."""
    found = committed.get(partition, NOTHING)
    if found.offset is None:
        return begins.get(partition, 0), UNKNOWN_TIME_MS
    told = decode_cut(found.metadata, committed_offset=found.offset)
    return found.offset, told.partition_time_ms


def task_handover(
    application_id: str,
    task: TaskId,
    inputs: Mapping[str, tuple[int, int]],
    *,
    positions: Mapping[str, int],
    clocks: Mapping[str, int],
    topic_ids: Mapping[str, str],
    begins: Mapping[str, int],
    logged_as: Mapping[str, str],
) -> TaskHandover:
    """The commit of a task; ``inputs`` is input topic to (next offset, partition time in ms),
    ``logged_as`` store to the name in its changelog's.
    """
    cut = encode_task_cut(
        inputs,
        positions=positions,
        clocks=clocks,
        topic_ids=topic_ids,
        begins=begins,
        processor_times=processor_times(clocks, logged_as),
    )
    offsets = {
        TopicPartition(name, task.partition): (inputs[name][0], metadata)
        for name, metadata in cut.metadata.items()
    }
    if cut.record is None:
        return TaskHandover(offsets, [])
    record = ProducedRecord(cuts_topic(application_id), 0, cut_key(task), cut.record, 0)
    return TaskHandover(offsets, [record])
