"""A crash at any record: what was committed and what is computed anew make the undisturbed run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstate.topology.declaring.windows import HoppingWindows, TumblingWindows
from logstate.topology.graph.nodes import ProcessorNode
from tests.unit.topology.operators.aggregates.test_session_aggregate import sessions
from tests.unit.topology.operators.aggregates.test_sliding_aggregate import sliding
from tests.unit.topology.operators.aggregates.test_window_aggregate import ms, sums
from tests.unit.topology.operators.crash import STEP_MS, results, results_through_a_crash
from tests.unit.topology.operators.one_operator import OneOperator
from tests.unit.topology.operators.tables.test_suppress import suppress

TEN_GRACE_FIVE = TumblingWindows(size=ms(10), grace=ms(5))
BY_FOUR = HoppingWindows(size=ms(10), advance=ms(4), grace=ms(5))

NODES: dict[str, Callable[[], ProcessorNode]] = {
    "tumbling": lambda: sums(TEN_GRACE_FIVE),
    "tumbling, on close": lambda: sums(TEN_GRACE_FIVE, emit="close"),
    "tumbling, on close, throttled": lambda: sums(
        TEN_GRACE_FIVE, emit="close", emit_interval_ms=25, retention=10_000
    ),
    "hopping, on close": lambda: sums(BY_FOUR, emit="close", retention=10_000),
    "sliding": lambda: sliding(10, 5),
    "sliding, on close": lambda: sliding(10, 5, emit="close"),
    "sessions": lambda: sessions(5, 5, retention=10),
    "sessions, on close": lambda: sessions(5, 5, emit="close"),
    "suppress": lambda: suppress("time_limit", 10),
}
RECORDS = st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(1, 9), st.integers(0, 90)), max_size=25
)


def process(run: OneOperator, record: tuple[str, int, int]) -> list[tuple[Any, ...]]:
    key, value, time = record
    run.clock.advance(STEP_MS)
    if "sup-store" in run.state.stores:
        return run.update(key, value, None, time)
    return run.pipe(key, value, time)


@pytest.mark.parametrize("name", NODES)
@given(records=RECORDS, commit_every=st.integers(1, 5), crash_at=st.integers(0, 24))
def test_a_crash_changes_nothing(
    name: str, records: list[tuple[str, int, int]], commit_every: int, crash_at: int
):
    undisturbed, expected = results(NODES[name], process, records)
    run, found = results_through_a_crash(
        NODES[name], process, records, commit_every=commit_every, crash_at=crash_at
    )

    assert found == expected
    for store, rows in undisturbed.state.stores.items():
        if hasattr(rows, "all"):
            assert list(run.store(store).all()) == list(rows.all())
