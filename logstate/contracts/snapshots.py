"""Messages between the coordinator of a snapshot and the workers, as records of one topic.

A snapshot across repartitions (:mod:`logstate.changelog.cuts.snapshot_rounds`) is taken by a
coordinator that sends requests, and by workers that respond: which tasks they run, and what a task
has committed at its barrier. Each request is complete, so only the newest one counts. The messages
are not state: a worker that misses a request makes a snapshot fail, and has no other effect.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from logstate.contracts.errors import UNDECODABLE
from logstate.contracts.topic_names import PARTITIONS_MAX

#: the longest pause of tasks by a request: every client that can write to the topic can send one
HOLD_MAX_MS: Final = 10_000
LIFE_MAX_MS: Final = 60_000

Step = Annotated[int, msgspec.Meta(ge=0, le=2**31)]
Number = Annotated[int, msgspec.Meta(ge=0, le=PARTITIONS_MAX)]
Offset = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
TaskName = Annotated[str, msgspec.Meta(pattern=r"^\d{1,9}_\d{1,9}$")]


class SnapshotRequest(msgspec.Struct, frozen=True, tag="order"):
    """The current instructions for every worker of the application."""

    #: id of the attempt; another id is another snapshot
    id: str
    step: Step
    #: tasks with barriers: sub-topology -> repartition topic -> partition -> offset of the barrier,
    #: for other topics the current position
    marks: dict[Number, dict[str, dict[Number, Offset]]] = {}
    #: sub-topologies whose tasks pause after their barrier, until a request no longer names them
    holding: tuple[Number, ...] = ()
    #: ... but not longer than this
    hold_ms: Annotated[int, msgspec.Meta(ge=0, le=HOLD_MAX_MS)] = 800
    #: a request without successor expires after this time
    life_ms: Annotated[int, msgspec.Meta(ge=0, le=LIFE_MAX_MS)] = 15_000
    is_over: bool = False


class SubShape(msgspec.Struct, frozen=True):
    """How a sub-topology is connected with others."""

    tasks: Number
    #: repartition topics -> their partitions
    reads: dict[str, Number] = {}
    writes: dict[str, Number] = {}


class Present(msgspec.Struct, frozen=True, tag="present"):
    """A worker has received a request, and follows it from now on; it runs these tasks."""

    id: str
    step: Step
    tasks: tuple[TaskName, ...]
    shape: dict[Number, SubShape]


class SnapshotNote(msgspec.Struct, frozen=True, tag="note"):
    """What a task has committed at its barrier: input topic -> next offset and metadata."""

    id: str
    task: TaskName
    committed: dict[str, tuple[Offset, str]]
    #: its record of the cuts topic, if the metadata only refers to it
    cut_record: bytes | None = None


Message = SnapshotRequest | Present | SnapshotNote


def encode_message(message: Message) -> bytes:
    """Return the value of the record."""
    return msgspec.json.encode(message)


def decode_message(value: bytes) -> Message | None:
    """Return None for a message that this version does not understand, which is ignored."""
    try:
        return msgspec.json.decode(value, type=Message)  # type: ignore[no-any-return]
    except UNDECODABLE:
        return None
