"""Pane: one of several results of a window, with its place among them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Pane(Generic[V]):
    """A result of a window; see ``KTable.to_pane_stream``.

    >>> from logstate import Pane
    >>> first, second = Pane(2, None, "early", 0), Pane(5, 2, "on_time", 1)
    >>> second.value - second.old, second.number
    (3, 1)

    As JSON it is an object with these fields.
    """

    #: of the window and key so far; None: the row was deleted, such as a session that has grown
    value: V | None
    #: the value of the pane before it; None: there is none, or the row was deleted by it
    old: V | None
    #: before stream time has reached the end of the window, when it has, or after that
    timing: Literal["early", "on_time", "late"]
    #: 0 for the first pane of the window and key, and one more for each
    number: int
