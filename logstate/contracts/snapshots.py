"""What whoever takes a snapshot and the workers say to each other, as records of one topic.

A snapshot across repartitions (:mod:`logstate.changelog.cuts.snapshot_rounds`) is taken by somebody
who gives orders, and by workers that answer: which tasks run where, and what a task has committed
at its mark. Each order says all that holds from then on, so only the newest counts. Nothing here is
state: a worker that has missed an order makes a snapshot fail, and nothing else.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from logstate.contracts.errors import UNDECODABLE
from logstate.contracts.topic_names import PARTITIONS_MAX

#: the longest that tasks stand still by an order: anybody who can write to the topic can give one
HOLD_MAX_MS: Final = 10_000
LIFE_MAX_MS: Final = 60_000

Step = Annotated[int, msgspec.Meta(ge=0, le=2**31)]
Number = Annotated[int, msgspec.Meta(ge=0, le=PARTITIONS_MAX)]
Offset = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
TaskName = Annotated[str, msgspec.Meta(pattern=r"^\d{1,9}_\d{1,9}$")]


class SnapshotRequest(msgspec.Struct, frozen=True, tag="order"):
    """What holds from now on, for every worker of the application."""

    #: of the attempt; another one is another snapshot
    id: str
    step: Step
    #: whose tasks cut: sub-topology -> repartition topic -> partition -> at this offset, and
    #: elsewhere wherever they are
    marks: dict[Number, dict[str, dict[Number, Offset]]] = {}
    #: whose tasks stand still after their cut, until an order no longer names them
    holding: tuple[Number, ...] = ()
    #: ... but not longer than this
    hold_ms: Annotated[int, msgspec.Meta(ge=0, le=HOLD_MAX_MS)] = 800
    #: without a younger one it is forgotten
    life_ms: Annotated[int, msgspec.Meta(ge=0, le=LIFE_MAX_MS)] = 15_000
    is_over: bool = False


class SubShape(msgspec.Struct, frozen=True):
    """How a sub-topology is connected with others."""

    tasks: Number
    #: repartition topics -> their partitions
    reads: dict[str, Number] = {}
    writes: dict[str, Number] = {}


class Present(msgspec.Struct, frozen=True, tag="present"):
    """A worker has an order, and obeys from now on; these tasks run on it."""

    id: str
    step: Step
    tasks: tuple[TaskName, ...]
    shape: dict[Number, SubShape]


class SnapshotNote(msgspec.Struct, frozen=True, tag="note"):
    """What a task has committed at its mark: input topic -> next offset and metadata."""

    id: str
    task: TaskName
    committed: dict[str, tuple[Offset, str]]
    #: its record of the cuts topic, where the metadata only points to it
    cut_record: bytes | None = None


Message = SnapshotRequest | Present | SnapshotNote


def encode_message(message: Message) -> bytes:
    """The value of the record."""
    return msgspec.json.encode(message)


def decode_message(value: bytes) -> Message | None:
    """None for what this version does not understand: an order of another one is not obeyed."""
    try:
        return msgspec.json.decode(value, type=Message)  # type: ignore[no-any-return]
    except UNDECODABLE:
        return None
