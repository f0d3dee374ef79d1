"""The backend is not asked for windows that it cannot have, and asked for those it may have."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from logstate.changelog.backend.backend import StoreBackend
from logstate.contracts.stores import StoreSpec, ValueAndTimestamp
from logstate.serdes import int64, string
from tests.unit.changelog.counting_backend import CountingBackend
from tests.unit.changelog.store_bench import StoreBench

SPEC = StoreSpec(
    "windows",
    "timestamped_window",
    string,
    int64,
    window_size_ms=10,
    retention_ms=1_000_000,
)


class Bench(StoreBench):
    def __init__(self, directory: Path) -> None:
        self.backend: CountingBackend
        super().__init__(SPEC, directory, watch=self._counted)

    def _counted(self, backend: StoreBackend) -> StoreBackend:
        self.backend = CountingBackend(backend)
        return self.backend

    def count(self, key: str, start_ms: int) -> int:
        """One more record of a window, as an aggregation writes it."""
        row = self.store.fetch(key, start_ms)
        count = 1 if row is None else row.value + 1
        self.store.put(key, (count, start_ms, None), start_ms)
        return count

    def asked(self, key: str, start_ms: int) -> int:
        before = self.backend.work
        self.count(key, start_ms)
        return self.backend.work - before


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path / "db")
    yield made
    made.close()


def test_a_new_window_is_not_looked_for_in_the_backend(bench: Bench) -> None:
    assert bench.asked("a", 10) == 0
    bench.commit()
    assert bench.asked("a", 20) == 0
    assert bench.asked("b", 20) == 0


def test_a_window_that_may_have_been_applied_is_looked_for(bench: Bench) -> None:
    bench.count("a", 20)
    bench.commit()
    assert bench.asked("b", 20) == 1
    assert bench.asked("b", 10) == 1


def test_counts_go_on_where_they_stood_whatever_came_between(bench: Bench) -> None:
    bench.count("a", 10)
    bench.commit(applies=False)
    bench.state.drop_caches()
    assert bench.count("a", 10) == 2
    bench.commit()
    bench.state.drop_caches()
    assert bench.count("a", 10) == 3
    bench.discard()
    assert bench.count("a", 10) == 3
    bench.commit(applies=False)
    bench.count("a", 990_000)  # the clock goes ahead, and back with the abort
    bench.discard()
    assert bench.count("a", 10) == 4
    bench.commit()
    bench.reopen()
    assert bench.count("a", 10) == 5


def test_what_is_applied_after_an_abort_is_found(bench: Bench) -> None:
    bench.count("a", 500)
    bench.commit(applies=False)
    bench.count("a", 900)
    bench.discard()
    bench.state.apply()
    bench.state.drop_caches()

    assert bench.store.fetch("a", 500) == ValueAndTimestamp(1, 500)
    assert bench.store.fetch("a", 900) is None


def test_a_reopened_store_looks_for_what_lies_on_disk(bench: Bench) -> None:
    bench.count("a", 500)
    bench.commit()
    bench.reopen()

    assert bench.store.fetch("a", 500) == ValueAndTimestamp(1, 500)
