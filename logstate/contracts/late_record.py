"""LateRecord: what an operator emits for a record that came after its window had closed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from logstate.contracts.drops import DropReason
from logstate.contracts.records import Windowed

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class LateRecord(Generic[K, V]):
    """A record that was too late for a window, or for a store; see ``StreamsBuilder.late``.

    >>> from logstate import LateRecord, Windowed
    >>> from logstate.contracts.drops import DropReason
    >>> window = Windowed("ada", 0, 10)
    >>> late = LateRecord("ada", "tea", None, 9, window, 6, DropReason.LATE, "count")
    >>> late.window.start_ms, late.by_ms, late.reason == "late"
    (0, 6, True)

    As JSON it is an object with these fields; ``window`` is an array of key, start and end, and
    header values are base64.
    """

    #: of the record, and of the late stream
    key: K
    value: V
    headers: list[tuple[str, bytes | None]] | None
    #: event time of the record in ms
    timestamp: int
    #: the window that it missed: of a join the span in which partners would match; None for an
    #: operator without windows
    window: Windowed[K] | None
    #: by how many ms a longer grace, or retention, would have accepted it
    by_ms: int
    #: "late": the window had closed; "expired": older than what the store keeps
    reason: DropReason
    #: name of the operator that did not accept it
    node: str
