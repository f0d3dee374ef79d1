"""One way in which a topology changes, and what is expected of a start after it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from logstate.app.application import Application
from tests.campaigns.upgrades.topologies import Declare

#: asks a store for what it says about key "a", after two records of it and one more
Answer = Callable[[Application], Any]


def counts_of_a(app: Application) -> Any:
    """A row of a plain store."""
    row = app.store("counts").get("a")
    return None if row is None else row.value


@dataclass(frozen=True)
class Change:
    """``verdict``: same, compatible, decision or refused."""

    name: str
    before: Declare
    after: Declare
    verdict: str
    #: parts of what is said about it
    says: tuple[str, ...] = ()
    #: settings of the application that take the decision
    decides: Mapping[str, Any] = field(default_factory=dict)
    #: what holds once the start is accepted, and one more record of key "a" was processed
    answer: Answer = counts_of_a
    expected: Any = 3
    #: of StreamsBuilder.build() afterwards
    build: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name
