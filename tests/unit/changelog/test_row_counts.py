"""Commits say how many rows a key-value store has, whatever was written, undone or lost before."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from logstate.changelog import row_counts
from logstate.changelog.backend.memory import MemoryBackend
from logstate.changelog.state import TaskState
from logstate.contracts.stores import StoreSpec, ValueAndTimestamp
from logstate.serdes import int64, string
from tests.unit.changelog.store_bench import BenchContext, open_state
from tests.unit.changelog.store_kinds import KINDS

PLAIN = StoreSpec("store", "key_value", string, string)
TIMED = StoreSpec("store", "timestamped_key_value", string, int64)


class Counted:
    """A store that runs, and the rows that it should have."""

    def __init__(self, spec: StoreSpec, backend: MemoryBackend | None = None) -> None:
        self.spec = spec
        self.backend = backend or MemoryBackend()
        self.state: TaskState = open_state(spec, BenchContext(), self.backend, False)
        self.state.restored()
        self.rows: dict[str, int] = {}
        self.position = 0

    def put(self, key: str, value: int | None) -> None:
        store: Any = self.state.stores["store"]
        row: Any = value
        if value is not None:
            row = ValueAndTimestamp(value, 5) if self.spec is TIMED else str(value)
        store.put(key, row)
        self.rows.pop(key, None)
        if value is not None:
            self.rows[key] = value

    def commit(self) -> int | None:
        changes = self.state.freeze()
        self.position += 1
        self.state.committed(changes, {"store": self.position})
        return changes.clocks.get("rows:store")


@pytest.mark.parametrize("spec", [PLAIN, TIMED], ids=lambda spec: spec.kind)
@pytest.mark.parametrize("seed", range(30))
def test_the_number_follows_every_write_and_rollback(spec: StoreSpec, seed: int) -> None:
    rng = Random(seed)
    counted = Counted(spec)
    store: Any = counted.state.stores["store"]
    names = [f"k{n}" for n in range(rng.choice([2, 10, 40]))]
    for _ in range(150):
        name = rng.choice(names)
        what = rng.randrange(8)
        if what < 4:
            if rng.random() < 0.5:
                store.get(name)
            counted.put(name, rng.choice([None, 1, 2]))
        elif what == 4:
            before = dict(counted.rows)
            counted.state.begin_journal()
            for _ in range(3):
                counted.put(rng.choice(names), rng.choice([None, 3]))
            rolls_back = rng.random() < 0.5
            counted.state.end_journal(rollback=rolls_back)
            if rolls_back:
                counted.rows = before
        elif what == 5:
            assert counted.commit() == len(counted.rows)
        elif what == 6:
            counted.state.apply()
        else:
            counted.state.drop_caches()
    assert counted.commit() == len(counted.rows)


def test_what_is_discarded_is_not_counted() -> None:
    counted = Counted(PLAIN)
    counted.put("a", 1)
    assert counted.commit() == 1
    counted.put("b", 1)
    counted.put("a", None)
    counted.state.discard()

    assert counted.commit() == 1


def test_a_start_from_a_cut_without_the_number_counts_the_rows() -> None:
    first = Counted(PLAIN)
    for name in "abc":
        first.put(name, 1)
    first.commit()
    first.state.apply()

    assert Counted(PLAIN, first.backend).commit() == 3


def test_more_rows_than_are_counted_quickly_have_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    first = Counted(PLAIN)
    for name in "abc":
        first.put(name, 1)
    first.commit()
    first.state.apply()
    monkeypatch.setattr(row_counts, "_COUNTED_MAX", 2)

    again = Counted(PLAIN, first.backend)
    again.put("d", 1)
    assert again.commit() == -1, "commits leave out clocks below 0"


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name.replace(" ", "-"))
def test_only_stores_whose_rows_are_keys_of_their_changelog_are_counted(kind: Any) -> None:
    expected = kind.spec.kind in {
        *("key_value", "timestamped_key_value"),
        *("list", "map", "set", "counter"),
    }

    assert row_counts.is_counted(kind.spec) is expected
