"""The model of a store: a dict of rows and a clock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from logstate.contracts.stores import StoreSpec
from tests.unit.changelog.store_kinds import KEYS, RETENTION_MS, Input


@dataclass
class Model:
    """Rows by what tells them apart, the store's clock, and how many puts were numbered."""

    spec: StoreSpec
    rows: dict[Any, Any] = field(default_factory=dict)
    clock: int = -1
    number: int = 0

    def state(self) -> Any:
        return dict(self.rows), self.clock, self.number

    def go_back(self, state: Any) -> None:
        rows, self.clock, self.number = state
        self.rows = dict(rows)

    def set(self, place: Any, value: Any) -> None:
        """None deletes."""
        self.rows.pop(place, None)
        if value is not None:
            self.rows[place] = value

    def see(self, time: int) -> None:
        self.clock = max(self.clock, time)

    def visible(self) -> dict[Any, Any]:
        """Of rows by (key, time, more), those within the retention."""
        keeps_edge = self.spec.keep_at_retention and self.spec.kind != "session"
        oldest = self.clock - RETENTION_MS + (0 if keeps_edge else 1)
        return {place: row for place, row in self.rows.items() if place[1] >= oldest}


class Play(NamedTuple):
    """A kind of store: what a record does to the model, and what both have to show alike.

    ``process`` says no to a record that the model cannot follow; the store does not get it either.
    """

    process: Callable[[Model, Input], bool | None]
    expected: Callable[[Model], Any]
    shown: Callable[[Any, Model], Any]


def entries_of(model: Model) -> Any:
    return sorted(model.rows.items())


def gets_of(model: Model) -> Any:
    return [model.rows.get(key) for key in KEYS], entries_of(model)


def get_shown(store: Any, _: Model) -> Any:
    return [store.get(key) for key in KEYS], list(store.all())
