"""What whoever takes a snapshot and the workers say to each other, as records of one topic.

A snapshot across repartitions (:mod:`logstate.changelog.cuts.snapshot_rounds`) is taken by somebody
who gives orders, and by workers that answer: which tasks run where, and what a task has committed
at its mark. Each order says all that holds from then on, so only the newest counts. Nothing here is
state: a worker that has missed an order makes a snapshot fail, and nothing else.
"""

from __future__ import annotations

import msgspec

from logstate.contracts.errors import UNDECODABLE


class Order(msgspec.Struct, frozen=True, tag="order"):
    """What holds from now on, for every worker of the application."""

    #: of the attempt; another one is another snapshot
    id: str
    step: int
    #: whose tasks cut: sub-topology -> repartition topic -> partition -> at this offset, and
    #: elsewhere wherever they are
    marks: dict[int, dict[str, dict[int, int]]] = {}
    #: whose tasks stand still after their cut, until an order no longer names them
    holding: tuple[int, ...] = ()
    #: ... but not longer than this
    hold_ms: int = 800
    #: without a younger one it is forgotten
    life_ms: int = 15_000
    is_over: bool = False


class SubShape(msgspec.Struct, frozen=True):
    """How a sub-topology is connected with others."""

    tasks: int
    #: repartition topics -> their partitions
    reads: dict[str, int] = {}
    writes: dict[str, int] = {}


class Present(msgspec.Struct, frozen=True, tag="present"):
    """A worker has an order, and obeys from now on; these tasks run on it."""

    id: str
    step: int
    tasks: tuple[str, ...]
    shape: dict[int, SubShape]


class Note(msgspec.Struct, frozen=True, tag="note"):
    """What a task has committed at its mark: input topic -> next offset and metadata."""

    id: str
    task: str
    committed: dict[str, tuple[int, str]]
    #: its record of the cuts topic, where the metadata only points to it
    cut_record: bytes | None = None


Message = Order | Present | Note


def encode_message(message: Message) -> bytes:
    """The value of the record."""
    return msgspec.json.encode(message)


def decode_message(value: bytes) -> Message | None:
    """None for what this version does not understand: an order of another one is not obeyed."""
    try:
        return msgspec.json.decode(value, type=Message)  # type: ignore[no-any-return]
    except UNDECODABLE:
        return None
