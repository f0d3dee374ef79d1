"""A crash at any record: what was committed and what is computed anew make the undisturbed run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstate.topology.graph.nodes import ProcessorNode
from tests.unit.topology.operators.crash import STEP_MS, results, results_through_a_crash
from tests.unit.topology.operators.joins.stream_join_run import StreamJoin, spans
from tests.unit.topology.operators.one_operator import OneOperator

NODES: dict[str, Callable[[], ProcessorNode]] = {
    "inner": lambda: StreamJoin("inner", spans(4, 6, 3)),
    "left": lambda: StreamJoin("left", spans(4, 6, 3)),
    "outer": lambda: StreamJoin("outer", spans(4, 6, 3)),
    "outer, throttled": lambda: StreamJoin("outer", spans(4, 6, 3), emit_interval_ms=25),
    "outer, in memory": lambda: StreamJoin("outer", spans(4, 6, 3), in_memory=True),
}
RECORDS = st.lists(
    st.tuples(
        st.sampled_from("ab"),
        st.booleans(),
        st.sampled_from(["x", "y", None]),
        st.integers(0, 60),
    ),
    max_size=25,
)
Record = tuple[str, bool, "str | None", int]


def process(run: OneOperator, record: Record) -> list[tuple[Any, ...]]:
    key, side, value, time = record
    run.clock.advance(STEP_MS)
    return run.pipe(key, (side, value), time)


@pytest.mark.parametrize("name", NODES)
@given(records=RECORDS, commit_every=st.integers(1, 5), crash_at=st.integers(0, 24))
def test_a_crash_changes_nothing(
    name: str, records: list[Record], commit_every: int, crash_at: int
):
    undisturbed, expected = results(NODES[name], process, records)
    run, found = results_through_a_crash(
        NODES[name], process, records, commit_every=commit_every, crash_at=crash_at
    )

    assert found == expected
    for store, rows in undisturbed.state.stores.items():
        assert list(run.store(store).all()) == list(rows.all())  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", NODES)
@given(records=RECORDS, failed=st.tuples(st.sampled_from("ab"), st.booleans(), st.integers(0, 60)))
def test_a_record_that_is_rolled_back_changes_nothing(
    name: str, records: list[Record], failed: tuple[str, bool, int]
):
    runs = [OneOperator(NODES[name]()) for _ in range(2)]
    half = len(records) // 2
    for run in runs:
        for record in records[:half]:
            process(run, record)
    key, side, time = failed
    runs[0].begin_journal()
    runs[0].pipe(key, (side, "failed"), time)
    runs[0].end_journal(rollback=True)

    for record in records[half:]:
        assert process(runs[0], record) == process(runs[1], record)
    assert runs[0].commit() == runs[1].commit()
