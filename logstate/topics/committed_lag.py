"""The lag of an application according to the brokers: committed offsets and ends of logs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

from logstate.contracts.clients import Admin, Committed, Step, Steps
from logstate.contracts.errors import TopicError
from logstate.contracts.records import TopicPartition
from logstate.contracts.topic_names import cuts_topic
from logstate.topics.manifest_changes import Manifest


class CommittedLag(NamedTuple):
    """The lag of one partition that an application reads."""

    topic: str
    partition: int
    #: the next offset it reads; None if nothing is committed yet
    committed: int | None
    end: int
    #: offsets from there, or from the start of the log, to its end; transaction markers count
    lag: int


#: returns what a group has committed for partitions
AskCommitted: TypeAlias = "Callable[[list[TopicPartition]], Mapping[TopicPartition, Committed]]"


def committed_lags(
    admin: Admin, committed_for: AskCommitted, application_id: str, stored: Manifest | None
) -> Steps[list[CommittedLag]]:
    """Return every partition of inputs and repartition topics, sorted.

    Raises TopicError if the application never ran, or an input does not exist any more.
    """
    if stored is None:
        raise TopicError(
            f"application {application_id!r} has no manifest in {cuts_topic(application_id)!r}: it"
            " never ran on these brokers, or was reset. Is the application id right?"
        )
    names = sorted({*stored.get("inputs", ()), *stored.get("topics", {})})
    described = yield Step("describe_topics", admin.describe_topics, (names,))
    gone = sorted(set(names) - described.keys())
    if gone:
        raise TopicError(
            f"application {application_id!r} reads {', '.join(map(repr, gone))}, which does not"
            " exist any more"
        )
    partitions = [TopicPartition(t, p) for t in names for p in range(described[t].partitions)]
    committed = yield Step("committed_offsets", committed_for, (partitions,))
    starts = yield Step("start_offsets", admin.start_offsets, (partitions,))
    ends = yield Step("end_offsets", admin.end_offsets, (partitions,))
    found = []
    for partition in partitions:
        known = committed.get(partition)
        offset = None if known is None else known.offset
        position = starts[partition] if offset is None else offset
        lag = max(0, ends[partition] - position)
        found.append(CommittedLag(*partition, offset, ends[partition], lag))
    return found
