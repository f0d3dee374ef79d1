"""What a local query costs with few rows that are committed and not in RocksDB, and with many.

    python -m tests.performance.local_queries --pending 200 200000 --commits 1 100

One task in one process without a broker, asked as ``app.store`` asks. Every read is timed in turns
over all states, and of each the best round counts: what another program does meanwhile falls out.
A key is read that is pending, and one that is in RocksDB. The last line is JSON. The aim: ``get``
at most 20 us, a window ``fetch`` of ten rows at most 120 us, and both within a tenth of it in every
state.
"""

from __future__ import annotations

import gc
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from logstate import serdes
from logstate.changelog.task_state import open_task_state
from logstate.contracts.partitioner import StorePlace
from logstate.contracts.records import TaskId
from logstate.contracts.stores import StoreSpec, ValueAndTimestamp
from logstate.queries.reader import LocalStores
from logstate.task.owned_task import OwnedTask, Stage
from tests.performance.parser import parser_of
from tests.unit.changelog.store_bench import BenchContext

_PARTITIONS = 8
_WINDOWS = 10
_SIZE_MS = 10_000
_STORED_KEYS = 1_000
_CALLS = 200
_TABLE = StoreSpec("totals", "timestamped_key_value", serdes.string, serdes.int64)
_WINDOWED = StoreSpec(
    "spend",
    "timestamped_window",
    serdes.string,
    serdes.int64,
    retention_ms=3_600_000,
    window_size_ms=_SIZE_MS,
)


class State(NamedTuple):
    """Where queries are asked."""

    pending: int
    commits: int

    def __str__(self) -> str:
        return f"{self.pending:,} pending rows of {self.commits} commits"


class Cost(NamedTuple):
    """Of one read in one state."""

    read: str
    state: State
    us: float


@contextmanager
def reads_in(state: State) -> Iterator[dict[str, Callable[[], Any]]]:
    """The reads that are timed, over stores in this state."""
    context: Any = BenchContext()
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "state"
        made = open_task_state([_TABLE, _WINDOWED], context, state_dir=path)
        made.cells = context.cells

        def put(keys: range) -> None:
            table: Any = made.stores[_TABLE.name]
            windowed: Any = made.stores[_WINDOWED.name]
            for key in keys:
                # In no order, as keys are.
                name = f"{key * 7_919 % 1_000_003:07d}"
                table.put(name, ValueAndTimestamp(key, key))
                for window in range(_WINDOWS):
                    windowed.put(name, ValueAndTimestamp(key, key), window * _SIZE_MS)
            made.committed(made.freeze(), {})

        put(range(_STORED_KEYS))
        made.apply()
        made.restored()
        keys = state.pending // (_WINDOWS + 1)
        for number in range(state.commits):
            first, end = (keys * n // state.commits for n in (number, number + 1))
            put(range(_STORED_KEYS + first, _STORED_KEYS + end))
        yield _reads(made)
        made.close()


def _reads(state: Any) -> dict[str, Callable[[], Any]]:
    task: Any = SimpleNamespace(state=state)
    # Whatever the partition: all keys are in each.
    tasks = {
        TaskId(0, number): OwnedTask(TaskId(0, number), (), 0, task, Stage.RUNNING)
        for number in range(_PARTITIONS)
    }
    places = {
        spec.name: StorePlace(spec, 0, False, spec.key.serializer("log", True))
        for spec in (_TABLE, _WINDOWED)
    }
    stores = LocalStores(places, "bench", lambda: tasks, lambda _: _PARTITIONS)
    table, windowed = (stores.named(name) for name in places)
    until = _WINDOWS * _SIZE_MS
    # The first key, and the first behind those that are stored.
    stored, pending = "0000000", f"{_STORED_KEYS * 7_919 % 1_000_003:07d}"
    return {
        "get, pending": lambda: table.get(pending),
        "get, stored": lambda: table.get(stored),
        "fetch of one window, stored": lambda: windowed.fetch(stored, 0),
        "fetch of ten rows, pending": lambda: list(windowed.fetch_range(pending, 0, until)),
        "fetch of ten rows, stored": lambda: list(windowed.fetch_range(stored, 0, until)),
    }


def measure(states: list[State], rounds: int) -> list[Cost]:
    """The cost of each read in each state."""
    best: dict[tuple[str, State], float] = {}
    with ExitStack() as open_states:
        reads = {state: open_states.enter_context(reads_in(state)) for state in states}
        for _ in range(rounds):
            for name in reads[states[0]]:
                for state in states:
                    us = _us_per_call(reads[state][name])
                    best[name, state] = min(us, best.get((name, state), us))
    return [Cost(name, state, us) for (name, state), us in best.items()]


def _us_per_call(call: Callable[[], Any]) -> float:
    answer = call()
    assert answer is not None
    assert not isinstance(answer, list) or len(answer) == _WINDOWS
    gc.disable()
    try:
        start = time.perf_counter()
        for _ in range(_CALLS):
            call()
        return (time.perf_counter() - start) / _CALLS * 1e6
    finally:
        gc.enable()


def main() -> int:
    """Measure and print."""
    parser = parser_of("python -m tests.performance.local_queries", __doc__)
    parser.add_argument("--pending", type=int, nargs="+", default=[200, 200_000], metavar="ROWS")
    parser.add_argument("--commits", type=int, nargs="+", default=[1], help="that they came in")
    parser.add_argument("--rounds", type=int, default=100)
    arguments = parser.parse_args()
    states = [State(rows, count) for rows in arguments.pending for count in arguments.commits]
    costs = measure(states, arguments.rounds)
    for cost in costs:
        print(f"{cost.read:>28}, {cost.state}: {cost.us:6.1f} us")
    print(json.dumps([[c.read, *c.state, round(c.us, 2)] for c in costs]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
