"""Errors about one record: what happened to which record, where, and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from logstate.contracts.error_text import text_of
from logstate.contracts.errors import (
    BrokerError,
    DeserializationError,
    LogstateError,
    ProcessingError,
    ProductionError,
    RefusedError,
    RegistryError,
    StoreAccessError,
    StoreError,
    UnreadableBatchError,
    WrongThreadError,
)
from logstate.contracts.records import FetchedRecord, RecordMetadata, TaskId, TopicPartition
from logstate.topology.graph.blame import Blame, blame


def is_not_of_record(error: Exception) -> bool:
    """Return True if no record is at fault: a store failed, brokers or a registry are unavailable.

    An invalid request of a function to a store is that function's fault.
    """
    is_of_others = isinstance(error, RegistryError | StoreError | BrokerError)
    return is_of_others and not isinstance(error, StoreAccessError)


def what_ended(failure: BaseException) -> str:
    """Return the message about the end of a worker.

    The library's errors have a complete message. Exceptions that pass through every guard, such as
    SystemExit or a panic below Python, often have neither a place nor a text.
    """
    if isinstance(failure, LogstateError):
        return text_of(failure)
    found = blame(failure)
    place = (
        f", raised in {_describe_origin(found).rstrip(':')}" if found.node or found.function else ""
    )
    return f"{type(failure).__name__}: {text_of(failure)}{place}"


def undecodable(
    record: FetchedRecord, part: str, source: str, task_id: TaskId, cause: Exception
) -> DeserializationError:
    """Return the error for a record whose ``part`` ("key", "value" or "headers") does not
    decode.
    """
    topic, partition, offset = record.topic(), record.partition(), record.offset()
    what = f"the {part} of a record {'do' if part == 'headers' else 'does'} not decode"
    reason = "The bytes were probably written in another format, or the declared type does not fit"
    remedy = "correct the serde, or move the group's offset past the record"
    if isinstance(cause, UnreadableBatchError):
        what = "a batch of records cannot be read"
        reason = "It is damaged, or it expands to more than the client's receive.message.max.bytes"
        remedy = (
            "raise that setting if the batch is valid, let ErrorHandlers(deserialization=...) skip"
            " the batch, or move the group's offset past it"
        )
    elif part == "headers":
        reason = "The Kafka client cannot read them: their names are probably not UTF-8"
        remedy = (
            "let ErrorHandlers(deserialization=...) skip it, or move the group's offset past it"
        )
    elif isinstance(cause, UnicodeDecodeError):
        remedy += "; serdes.string_replacing reads text that is not UTF-8 as Kafka's String does"
    return DeserializationError(
        f"{what}: topic {topic!r}, partition {partition}, offset {offset}, task {task_id}, source"
        f" {source!r}: {text_of(cause)}. {reason}. This record and later ones were not committed;"
        f" {remedy}",
        **_position_fields(topic, partition, offset, task_id),
        node=source,
    )


def without_timestamp(record: FetchedRecord, task_id: TaskId) -> ProcessingError:
    """Return the error for a record of an external topic without timestamp and extractor."""
    topic, partition, offset = record.topic(), record.partition(), record.offset()
    return ProcessingError(
        f"a record has no timestamp: topic {topic!r}, partition {partition}, offset {offset}, task"
        f" {task_id}. It was probably written by a producer older than Kafka 0.10 or with"
        " timestamp -1. Give the source a timestamp_extractor; one that returns a negative time"
        " skips the record",
        **_position_fields(topic, partition, offset, task_id),
    )


def _position_fields(
    topic: str | None, partition: int | None, offset: int | None, task_id: TaskId
) -> dict[str, Any]:
    """Return the position of a record and its task as fields of an error."""
    return {"topic": topic, "partition": partition, "offset": offset, "task": str(task_id)}


def _describe_origin(found: Blame) -> str:
    """Describe the node and, if the traceback has one, the user's function."""
    return f"node {found.shown}" + (f", in {found.function}:" if found.function else ":")


def _made_by(maker: Blame) -> str:
    """Describe the node that produced a result, if known."""
    if maker.node is None:
        return ""
    by = f" ({maker.function})" if maker.function else ""
    return f", made by node {maker.shown}{by}"


def failed(
    partition: TopicPartition, offset: int, task_id: TaskId, found: Blame, cause: Exception
) -> ProcessingError:
    """Return the error for a user's function ``found`` that raised for a record."""
    return ProcessingError(
        f"processing a record failed: topic {partition.topic!r}, partition"
        f" {partition.partition}, offset {offset}, task {task_id}, {_describe_origin(found)}"
        f" {type(cause).__name__}: {text_of(cause)}. This record and later ones were not committed;"
        " correct the function and start again",
        **_position_fields(*partition, offset, task_id),
        node=found.node,
        function=found.function,
    )


def commit_buffered_failed(
    source: RecordMetadata | None, task_id: TaskId, found: Blame, cause: Exception
) -> ProcessingError:
    """Return the error for a user's function that raised below an operator that emits at
    commits.
    """
    at = (
        "a scheduled callback"
        if source is None
        else f"the record at topic {source.topic!r}, partition {source.partition}, offset"
        f" {source.offset}"
    )
    place = _position_fields(*source, task_id) if source is not None else {"task": str(task_id)}
    return ProcessingError(
        f"a result that was buffered for the commit failed: it was produced by {at}, task"
        f" {task_id}, {_describe_origin(found)} {type(cause).__name__}: {text_of(cause)}. This"
        " commit was"
        " discarded; correct the function and start again, or give ErrorHandlers(processing=...)",
        **place,
        node=found.node,
        function=found.function,
    )


def punctuation_failed(
    schedule: str, now_ms: int, task_id: TaskId, found: Blame, cause: Exception
) -> ProcessingError:
    """Return the error for a scheduled callback ``found`` that raised."""
    return ProcessingError(
        f"a scheduled callback failed: schedule {schedule!r}, called at {now_ms}, task {task_id},"
        f" {_describe_origin(found)} {type(cause).__name__}: {text_of(cause)}. Its effects are not"
        " committed; correct the function and start again",
        task=str(task_id),
        node=found.node,
        function=found.function,
    )


def not_encoded(
    part: str,
    sink: str,
    topic: str,
    task_id: TaskId,
    source: RecordMetadata | None,
    maker: Blame,
    cause: Exception,
) -> ProductionError:
    """Return the error for a result whose ``part`` ("key" or "value") its sink cannot encode."""
    of = "a scheduled callback" if source is None else f"the record at {source.topic!r}"
    at = "" if source is None else f", partition {source.partition}, offset {source.offset}"
    return ProductionError(
        f"the {part} of a result cannot be encoded for topic {topic!r} by sink {sink!r}:"
        f" {text_of(cause)}. It was produced by {of}{at}, task {task_id}{_made_by(maker)}. The"
        " declared type does not fit the results of the operators: correct one of them, or give"
        " ErrorHandlers(production=...)",
        topic=None if source is None else source.topic,
        partition=None if source is None else source.partition,
        offset=None if source is None else source.offset,
        task=str(task_id),
        node=sink,
        function=maker.function,
    )


def refused(
    source: RecordMetadata,
    task_id: TaskId,
    sent: Mapping[str, int],
    maker: Blame,
    cause: Exception,
) -> RefusedError:
    """Return the error for results of a record that brokers refuse and no handler skips.

    ``sent``: the topics of its results, with the bytes of the largest in each.
    """
    sizes = ", ".join(f"{size} bytes to {topic!r}" for topic, size in sent.items())
    results = (
        f"It sent {sizes}" if sent else "It sent no results: check its changelogs, and commits"
    )
    return RefusedError(
        f"the result of the record at {source.topic!r}, partition {source.partition}, offset"
        f" {source.offset}, task {task_id}{_made_by(maker)}, is refused: {text_of(cause)}."
        f" {results}. This record and later ones were not committed;"
        " correct the code that produces the result, or give ErrorHandlers(production=...)",
        **_position_fields(*source, task_id),
        node=maker.node,
        function=maker.function,
    )


def schedule_refused(schedule: str, task_id: TaskId, cause: Exception) -> ProductionError:
    """Return the error for a callback's result that brokers refuse and no handler skips."""
    return ProductionError(
        f"the result of a scheduled callback of task {task_id} is refused: schedule {schedule!r}:"
        f" {text_of(cause)}. Its effects were not committed; correct the callback, or return"
        " SKIP or DEAD_LETTER from the production handler",
        task=str(task_id),
    )


def misused(task_id: TaskId, cause: WrongThreadError) -> ProcessingError:
    """Return the error for a refused call of a processor's context by another thread."""
    return ProcessingError(
        f"a call from another thread was refused, so its effect is lost: {text_of(cause)}."
        " Nothing since the last commit is committed, and no handler is called: the call does not"
        " belong to a record",
        task=str(task_id),
        node=cause.node,
    )


def not_closed(task_id: TaskId, found: Blame, cause: Exception) -> ProcessingError:
    """Return the error for a user's ``close()`` that raised."""
    return ProcessingError(
        f"closing a processor failed: task {task_id}, {_describe_origin(found)}"
        f" {type(cause).__name__}:"
        f" {text_of(cause)}. Committed work stays committed; resources of the processor may still"
        " be open. Correct its close()",
        task=str(task_id),
        node=found.node,
        function=found.function,
    )
