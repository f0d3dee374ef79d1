"""What a local query costs, in steps.

The first query after a commit puts in order what the commit
brought, once for all queries; those counted here come after it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

import pytest

from logstate import serdes
from logstate.changelog.rows.layers import Layer
from logstate.changelog.state import TaskState
from logstate.contracts.partitioner import StorePlace
from logstate.contracts.records import TaskId, Windowed
from logstate.contracts.stores import StoreSpec, ValueAndTimestamp
from logstate.queries.reader import LocalStores
from logstate.task.owned_task import OwnedTask, Stage
from tests import patience
from tests.steps import STEPS, CountedKey
from tests.unit.changelog.store_bench import BenchContext
from tests.unit.logstate.instances import KEYS, cluster_with, instance

FEW, MANY = 200, 20_000
#: windows, sessions and versions of a key
EACH = 10
SIZE_MS = 1_000
HOUR_MS = 3_600_000
TASK = TaskId(0, 0)


class Pending:
    """A store of one task with rows that are committed and not applied."""

    def __init__(self, spec: StoreSpec, put: Callable[[Any, str, int], None]) -> None:
        self.spec = spec
        self._put = put
        self._keys = 0
        self._context: Any = BenchContext()
        self.state = TaskState([spec], self._context)
        self.state.cells = self._context.cells
        self.state.restored()
        owned = OwnedTask(TASK, (), 0, self._task(), Stage.RUNNING)
        places = {spec.name: StorePlace(spec, 0, False, spec.key.serializer("log", True))}
        self.query = LocalStores(places, "app", lambda: {TASK: owned}, lambda _: 1).named(spec.name)

    def _task(self) -> Any:
        return SimpleNamespace(state=self.state)

    def commit(self, keys: int) -> None:
        """One more commit, of new keys with ten rows each."""
        for number in range(self._keys, self._keys + keys):
            for place in range(EACH):
                # In no order, but for the first keys.
                mixed = number if number < FEW else number * 7_919 % 1_000_000
                self._put(self.state.stores["s"], f"k{mixed:06d}", place)
        self._keys += keys
        changes = self.state.freeze()
        layer: Layer = changes.layers["s"]
        layer.rows = {CountedKey(key): row for key, row in layer.rows.items()}
        self.state.committed(changes, {})

    def steps_of(self, read: Callable[[Any], Any]) -> int:
        """Of one query, after one that puts things in order."""
        answer = self.answer_of(read)
        with STEPS.counted():
            again = self.answer_of(read)
        assert again == answer
        return STEPS.total

    def answer_of(self, read: Callable[[Any], Any]) -> Any:
        """As a list, where it is rows."""
        answer = read(self.query)
        return list(answer) if isinstance(answer, Iterator) else answer


def put_row(store: Any, key: str, place: int) -> None:
    store.put(key, ValueAndTimestamp(place, place))


def put_value(store: Any, key: str, place: int) -> None:
    store.put(key, place)


def put_window(store: Any, key: str, place: int) -> None:
    store.put(key, place, place * SIZE_MS)


def put_session(store: Any, key: str, place: int) -> None:
    store.put(Windowed(key, place * SIZE_MS, place * SIZE_MS + 1), place)


def put_version(store: Any, key: str, place: int) -> None:
    store.put(key, place, place * SIZE_MS)


def spec_of(kind: Any, **options: Any) -> StoreSpec:
    return StoreSpec("s", kind, serdes.string, serdes.int64, **options)


KEY, LAST = "k000007", "k000008"
END_MS = EACH * SIZE_MS
WINDOWS = {"retention_ms": HOUR_MS, "window_size_ms": SIZE_MS}
#: store, put, read, rows of the answer (None: it is one)
READS: dict[str, tuple[StoreSpec, Any, Callable[[Any], Any], int | None]] = {
    "get": (spec_of("key_value"), put_value, lambda q: q.get(KEY), None),
    "get of a table": (spec_of("timestamped_key_value"), put_row, lambda q: q.get(KEY), None),
    "get of an LRU store": (
        spec_of("key_value_lru", in_memory=True, capacity=MANY),
        put_value,
        lambda q: q.get(KEY),
        None,
    ),
    "range": (spec_of("key_value"), put_value, lambda q: q.range(KEY, LAST), 2),
    "range of an LRU store": (
        spec_of("key_value_lru", in_memory=True, capacity=MANY),
        put_value,
        lambda q: q.range(KEY, LAST),
        2,
    ),
    "reverse range": (spec_of("key_value"), put_value, lambda q: q.reverse_range(KEY, LAST), 2),
    "prefix": (spec_of("key_value"), put_value, lambda q: q.prefix_scan(b"k00000"), 10),
    "window": (spec_of("window", **WINDOWS), put_window, lambda q: q.fetch(KEY, SIZE_MS), None),
    "windows": (
        spec_of("window", **WINDOWS),
        put_window,
        lambda q: q.fetch_range(KEY, 0, END_MS),
        EACH,
    ),
    "windows, reverse": (
        spec_of("window", **WINDOWS),
        put_window,
        lambda q: q.fetch_range(KEY, 0, END_MS, reverse=True),
        EACH,
    ),
    "windows in memory": (
        spec_of("window", in_memory=True, **WINDOWS),
        put_window,
        lambda q: q.fetch_range(KEY, 0, END_MS),
        EACH,
    ),
    "windows, by time first": (
        spec_of("window", keep_at_retention=True, **WINDOWS),
        put_window,
        lambda q: q.fetch_range(KEY, 0, END_MS),
        EACH,
    ),
    "sessions": (
        spec_of("session", retention_ms=HOUR_MS),
        put_session,
        lambda q: q.fetch(KEY),
        EACH,
    ),
    "sessions that overlap": (
        spec_of("session", retention_ms=HOUR_MS, with_headers=True),
        put_session,
        lambda q: q.find_sessions(KEY, 3 * SIZE_MS, 4 * SIZE_MS),
        2,
    ),
    "version": (
        spec_of("versioned", history_ms=HOUR_MS),
        put_version,
        lambda q: q.get(KEY, 2 * SIZE_MS),
        None,
    ),
    "versions": (
        spec_of("versioned", history_ms=HOUR_MS),
        put_version,
        lambda q: q.versions(KEY),
        EACH,
    ),
}


@pytest.mark.parametrize("read", READS)
def test_a_query_costs_the_same_however_many_rows_are_pending(read: str) -> None:
    spec, put, query, rows = READS[read]
    steps = {}
    for pending in (FEW, MANY):
        store = Pending(spec, put)
        store.commit(pending // EACH)
        answer = store.answer_of(query)
        assert answer is not None if rows is None else len(answer) == rows
        steps[pending] = store.steps_of(query)
    assert steps[MANY] <= 1.1 * steps[FEW]


@pytest.mark.parametrize("read", ["get", "windows", "sessions", "versions"])
def test_a_query_costs_little_more_where_what_is_pending_came_in_many_commits(read: str) -> None:
    spec, put, query, _ = READS[read]
    steps = {}
    for commits in (1, 100):
        store = Pending(spec, put)
        for _ in range(commits):
            store.commit(100 // commits)
        steps[commits] = store.steps_of(query)
    assert steps[100] <= 1.5 * steps[1], "a few runs, and not a hundred layers"


def test_commits_between_queries_do_not_sort_again_what_was_pending() -> None:
    spec, put, query, _ = READS["windows"]
    store = Pending(spec, put)
    store.commit(MANY // EACH)
    STEPS.compared = 0
    store.answer_of(query)
    sorted_once = STEPS.compared
    assert sorted_once > MANY, "all rows, whose order nobody had asked for"
    STEPS.compared = 0
    for _ in range(63):
        store.commit(1)
        store.answer_of(query)
    assert STEPS.compared < sorted_once


def test_who_commits_puts_nothing_in_order() -> None:
    spec, put, _, _ = READS["windows"]
    store = Pending(spec, put)
    store.commit(10)
    STEPS.compared = 0
    for _ in range(20):
        store.commit(1)
    assert STEPS.compared == 0


def test_a_first_row_is_found_without_looking_at_all_rows() -> None:
    spec, put, _, _ = READS["range"]
    steps = {}
    for pending in (FEW, MANY):
        store = Pending(spec, put)
        for _ in range(3):
            store.commit(pending // EACH)
        steps[pending] = store.steps_of(lambda q: next(q.all()))
    assert steps[MANY] <= 1.1 * steps[FEW]


def test_a_get_of_an_application_runs_code_of_few_modules(tmp_path: Path) -> None:
    """What a reader of the code opens: from ``app.store`` to the row and back."""
    run: set[str] = set()

    def note(frame: FrameType, event: str, _argument: object) -> None:
        module = frame.f_globals["__name__"]
        if event == "call" and module.startswith("logstate.") and "testing" not in module:
            run.add(module)

    cluster = cluster_with()
    with instance(cluster, tmp_path) as app:
        app.wait_until_running(timedelta(seconds=patience.PATIENCE_S))
        patience.until(lambda: len(list(app.store("counts").all())) == len(KEYS))
        sys.setprofile(note)
        try:
            row = app.store("counts").get("k3")
        finally:
            sys.setprofile(None)
    assert row.value == 4
    assert len(run) <= 12, sorted(run)
