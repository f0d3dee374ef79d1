"""The errors about one record: what happened to which record, where, and what to do."""

from __future__ import annotations

from logstate.errors import DeserializationError, ProcessingError
from logstate.records import FetchedRecord, TaskId, TopicPartition
from logstate.topology.blame import blame


def undecodable(
    record: FetchedRecord, part: str, source: str, task_id: TaskId, cause: Exception
) -> DeserializationError:
    """``part`` ("key" or "value") of a record does not decode."""
    topic, partition, offset = record.topic(), record.partition(), record.offset()
    return DeserializationError(
        f"the {part} of a record does not decode: topic {topic!r}, partition {partition},"
        f" offset {offset}, task {task_id}, source {source!r}: {cause}. The bytes were probably"
        " written in another format, or the declared type does not fit. Nothing past this record"
        " was committed; correct the serde, or move the group's offset past the record",
        topic=topic,
        partition=partition,
        offset=offset,
        task=str(task_id),
        node=source,
    )


def without_timestamp(record: FetchedRecord, task_id: TaskId) -> ProcessingError:
    """A record of an external topic has no timestamp, and its source no extractor."""
    topic, partition, offset = record.topic(), record.partition(), record.offset()
    return ProcessingError(
        f"a record has no timestamp: topic {topic!r}, partition {partition}, offset {offset}, task"
        f" {task_id}. It was probably written by a producer older than Kafka 0.10 or with"
        " timestamp -1. Give the source a timestamp_extractor; one that returns a negative time"
        " skips the record",
        topic=topic,
        partition=partition,
        offset=offset,
        task=str(task_id),
    )


def failed(
    partition: TopicPartition, offset: int, task_id: TaskId, cause: Exception
) -> ProcessingError:
    """A user's function raised while a record was processed."""
    found = blame(cause)
    return ProcessingError(
        f"processing a record failed: topic {partition.topic!r}, partition"
        f" {partition.partition}, offset {offset}, task {task_id}, node {found.node!r}, in"
        f" {found.function}: {type(cause).__name__}: {cause}. Nothing past this record was"
        " committed; correct the function and start again",
        topic=partition.topic,
        partition=partition.partition,
        offset=offset,
        task=str(task_id),
        node=found.node,
        function=found.function,
    )
