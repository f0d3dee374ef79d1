"""The classes that describe a change of what an application stores, and its verdict."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, NamedTuple

from logstate.contracts.setting_rules import shown


class Verdict(IntEnum):
    """What a change means for stored rows; the larger, the worse."""

    SAME = 0
    #: old rows keep their meaning; no action is needed
    COMPATIBLE = 1
    #: only the user knows the intention: ``renamed=`` or ``forget=``
    DECISION = 2
    #: old rows would be read as something else
    REFUSED = 3

    def __str__(self) -> str:
        return self.name.lower()


class SpecChange(NamedTuple):
    """One difference between the stored and the declared application."""

    verdict: Verdict
    #: what changed: "store 'counts'", "topic 'app-a-repartition'"
    subject: str
    #: the part that changed: "kind", "window_size_ms", "value.price"
    part: str
    stored: Any
    declared: Any
    #: what it means for stored rows, and what to do
    meaning: str

    def __str__(self) -> str:
        sides = f"stored {_side_text(self.stored)}, declared {_side_text(self.declared)}"
        return f"{self.subject}: {self.part}: {sides}. {self.meaning}"


@dataclass(frozen=True)
class MigrationOptions:
    """The user's decisions about stored things that the topology does not name."""

    #: stored name -> declared name
    renamed: Mapping[str, str] = field(default_factory=dict)
    forget: Collection[str] = frozenset()

    def problems(self) -> Iterator[str]:
        """Yield what is invalid; the types of the arguments are not enforced."""
        renamed: object = self.renamed
        if not isinstance(renamed, Mapping) or not all(
            isinstance(name, str) for name in (*renamed, *renamed.values())
        ):
            yield f"renamed must be {{'stored name': 'declared name'}}; got {shown(renamed)}"
        forget: object = self.forget
        if (
            isinstance(forget, str)
            or not isinstance(forget, Collection)
            or not all(isinstance(name, str) for name in forget)
        ):
            yield f"forget must be a set of names, such as {{'counts'}}; got {shown(forget)}"


NOTHING_DECIDED = MigrationOptions()


def worst(changes: Iterable[SpecChange]) -> Verdict:
    """Return the worst verdict of the changes."""
    return max((change.verdict for change in changes), default=Verdict.SAME)


def _side_text(side: Any) -> str:
    return "nothing" if side is None else str(side)
