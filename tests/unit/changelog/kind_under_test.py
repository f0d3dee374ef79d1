"""What crash tests know about a kind of store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from logstate import serdes
from logstate.contracts.indexes import IndexSpec
from logstate.contracts.stores import StoreSpec
from tests.unit.changelog.store_bench import BenchContext

TEXT, NUMBER = serdes.string, serdes.int64
KEYS = ("a", "aa", "b")
#: retention, history, grace and TTL of the stores that have one
RETENTION_MS = 100


class Input(NamedTuple):
    """What happens to a store at once; ``value`` None is a deletion."""

    key: str
    value: int | None
    time: int
    choice: int


@dataclass(frozen=True, repr=False)
class KindUnderTest:
    """A kind of store. ``rows`` leaves out of its rows what may differ after a replay."""

    name: str
    spec: StoreSpec
    process: Callable[[Any, Input, BenchContext], None]
    answers: Callable[[Any, int], Any]
    rows: Callable[[Any, list[tuple[bytes, bytes]]], Any] = lambda store, rows: rows

    def __repr__(self) -> str:
        return self.name


def spec_of(kind: Any, key: Any = TEXT, value: Any = NUMBER, **options: Any) -> StoreSpec:
    return StoreSpec("store", kind, key, value, **options)


def entries_of(store: Any, clock: int) -> Any:
    return [store.get(key) for key in KEYS], list(store.all()), list(store.reverse_range("a", "b"))


def _parity(number: int) -> int | None:
    return None if number == 3 else number % 2


#: of numbers: whether they are odd, but not of 3, and the numbers as texts and themselves
INDEXES = (
    IndexSpec("odd", _parity, serdes.ordered(int), "_parity"),
    IndexSpec("text", lambda number: (str(number), number), serdes.ordered(str, int), "text"),
)


def indexed_entries_of(store: Any, clock: int) -> Any:
    """All that can be read, and what is read by the indexes, which a scan of all rows finds too."""
    rows = list(store.all())
    number_of = {key: getattr(row, "value", row) for key, row in rows}
    for odd in (0, 1):
        assert list(store.by("odd", odd)) == [r for r in rows if _parity(number_of[r[0]]) == odd]
    in_order = sorted(rows, key=lambda row: (str(number_of[row[0]]), row[0].encode()))
    assert list(store.by_range("text")) == in_order
    assert list(store.by_range("text", reverse=True)) == in_order[::-1]
    assert list(store.by("text", ("2",))) == [r for r in rows if number_of[r[0]] == 2]
    assert list(store.by_range("odd", 1, 0)) == []
    return entries_of(store, clock), list(store.by_range("odd")), in_order


def without_index_times(store: Any, rows: list[tuple[bytes, bytes]]) -> Any:
    """Of rows with a TTL all but the first time, which depends on earlier writes."""
    return [(key, row[8:]) for key, row in rows]
