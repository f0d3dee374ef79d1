"""Where a task begins to read: its committed offsets, or the reset policy of each source. Pure.

"No committed offset" is a decision, not an accident: it is only allowed where no state exists yet.
Offsets that expired, or that point outside a topic, while the changelogs hold state would silently
count everything again, so the application stops and names ``logstate reset``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import NamedTuple

from logstate.changelog.cut import OffsetMetadata
from logstate.contracts.errors import RestoreError
from logstate.contracts.records import TopicPartition
from logstate.contracts.seams import Committed


class InputRange(NamedTuple):
    """What can be read of an input partition now."""

    start: int
    end: int


def start_position(
    partition: TopicPartition,
    committed: Committed,
    log: InputRange,
    *,
    reset: str | timedelta | None,
    offset_at_reset: int | None,
    has_state: bool,
) -> int:
    """The offset to begin at; raises RestoreError where no answer would be right.

    ``reset`` is "earliest", "latest", "none" or a duration back from now (KIP-1106), for which
    ``offset_at_reset`` is the first offset of that time.
    """
    offset = committed.offset
    if offset is not None and log.start <= offset <= log.end:
        return offset
    if offset is None:
        problem = "nothing is committed"
        cause = "the offsets expired, or the group was deleted"
    else:
        problem = f"offset {offset} is committed, but the log holds {log.start} to {log.end}"
        cause = "retention overtook a stopped application, or the topic was recreated"
    if has_state:
        raise RestoreError(
            f"input {partition}: {problem}, while the changelogs of its task hold state; {cause}."
            " Reading from anywhere else would count records twice or not at all: run"
            " `logstate reset` to start from nothing, or commit the right offset"
        )
    if reset == "none":
        raise RestoreError(
            f"input {partition}: {problem} and its source says offset_reset='none'; commit an"
            " offset, or choose 'earliest' or 'latest'"
        )
    if reset == "latest":
        return log.end
    if isinstance(reset, timedelta):
        return log.end if offset_at_reset is None else offset_at_reset
    return log.start


def was_read(topic: str, metadata: Iterable[OffsetMetadata]) -> bool:
    """Whether the task's last commit knew the topic; True where no cut tells.

    A topic that a pattern matches, or that was added to a stream, since then has no committed
    offset and belongs to no state yet.
    """
    known = [one.cut.topic_ids for one in metadata if one.cut is not None]
    return not any(known) or any(topic in topic_ids for topic_ids in known)


def check_topic_ids(metadata: OffsetMetadata, topic_ids: Mapping[str, str]) -> None:
    """The inputs must be the topics the cut was written for; raises RestoreError."""
    if metadata.cut is None:
        return
    for topic, known in metadata.cut.topic_ids.items():
        now = topic_ids.get(topic)
        if now is not None and now != known:
            raise RestoreError(
                f"topic {topic!r} was deleted and created again (topic id {known}, now {now}):"
                " committed offsets and state belong to the old one. Run `logstate reset` to start"
                " from nothing"
            )
