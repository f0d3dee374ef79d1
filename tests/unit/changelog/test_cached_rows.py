"""Memory of cached rows: the bytes counted against its bound, and the rest after a deletion."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from logstate.changelog.rows.rows import Rows
from logstate.contracts.serde import Serde
from logstate.contracts.stores import ValueAndTimestamp
from logstate.serdes import bytes_, int64, json_of, string
from logstate.testing import TopologyTestDriver
from logstate.topology import (
    JoinWindows,
    SessionWindows,
    StreamsBuilder,
    TumblingWindows,
    until_window_closes,
)
from tests.unit.changelog.store_bench import StoreBench
from tests.unit.changelog.stores.test_key_value_stores import spec_of

ROWS = 5_000
SECOND = timedelta(seconds=1)


class Spent(msgspec.Struct, frozen=True, gc=False):
    count: int = 0
    sum: float = 0.0
    ts: float = 0.0


class Profile(msgspec.Struct, frozen=True):
    name: str
    note: str
    tags: tuple[str, ...]


VALUES: dict[str, tuple[Serde[Any], Callable[[int], Any]]] = {
    "counts": (int64, lambda number: number),
    "short texts": (string, str),
    "long texts": (string, lambda number: str(number) * 200),
    "bytes": (bytes_, lambda number: b"%d" % number * 20),
    "plain structs": (json_of(Spent), lambda number: Spent(number, number / 7, number * 1e9)),
    "structs": (json_of(Profile), lambda n: Profile(str(n), "x" * 50, (str(n), "red", "green"))),
    "mutable": (json_of(dict[str, int]), lambda number: {"a": number, "b": number}),
}


@pytest.mark.parametrize("values", VALUES)
def test_the_counted_bytes_are_those_that_the_rows_take(values: str, tmp_path: Path) -> None:
    serde, make = VALUES[values]
    bench = StoreBench(spec_of("timestamped_key_value", serde), tmp_path / "db")
    store: Any = bench.store
    for number in range(ROWS):
        store.put(f"user-{number}", ValueAndTimestamp(make(number), 1_700_000_000_000 + number))
    bench.commit()
    bench.state.drop_caches()
    gc.collect()
    tracemalloc.start(1)
    try:
        for number in range(ROWS):
            store.get(f"user-{number}")
        gc.collect()
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    counted = bench.state.cached_bytes()
    bench.close()
    assert 0.5 * counted <= taken <= 1.5 * counted, f"{counted=} {taken=} {counted / taken:.2f}"


def all_rows() -> list[Rows]:
    gc.collect()
    return [one for one in gc.get_objects() if type(one) is Rows]


def test_windows_that_were_emitted_and_sessions_that_ended_leave_no_rows_in_memory() -> None:
    """Their rows were cached as deleted, up to half a million of each task."""
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=str)
    grouped = stream.group_by_key()
    windows = TumblingWindows(size=10 * SECOND, grace=2 * SECOND)
    counted = grouped.windowed_by(windows).count(store="windows")
    counted.suppress(until_window_closes(), name="closed").to_stream(
        lambda key, _: key.key, key=str
    ).to("out", value=int)
    grouped.windowed_by(SessionWindows(gap=5 * SECOND, grace=2 * SECOND)).count(store="sessions")
    joined = JoinWindows(before=SECOND, after=SECOND, grace=SECOND)
    other = builder.stream("other", key=str, value=str)
    pairs = stream.join(other, lambda a, b: a + b, windows=joined, name="pairs")
    pairs.to("paired", value=str)
    before = set(map(id, all_rows()))
    held = []
    with TopologyTestDriver(builder.build(), commit_every=100, apply_every=5) as driver:
        for number in range(12_000):
            key, time = f"user-{number * 7919 % 200}", number * 20
            driver.pipe("in", key, "v", timestamp=time)
            if number % 3_000 == 2_999:
                held.append(sum(r.cached_rows() for r in all_rows() if id(r) not in before))
    assert max(held) <= 1.2 * held[0], held
