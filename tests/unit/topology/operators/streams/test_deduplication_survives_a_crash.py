"""A crash at any record, aborts, moves: what went on is what would go on undisturbed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstate.testing import simulate
from logstate.topology import StreamsBuilder, Topology
from logstate.topology.operators.streams.deduplicate import DeduplicateNode
from tests.unit.topology.operators.crash import results, results_through_a_crash
from tests.unit.topology.operators.one_operator import OneOperator
from tests.unit.topology.operators.streams.test_deduplicate import (
    first_of,
    ms,
)

NODES: dict[str, Callable[[], DeduplicateNode]] = {
    "by key": first_of,
    "by key and id": partial(first_of, by_id=True),
    "in memory": partial(first_of, in_memory=True, retention_ms=75),
}
RECORDS = st.lists(
    st.tuples(st.sampled_from("ab"), st.sampled_from("xy"), st.integers(0, 90)), max_size=25
)


def process(run: OneOperator, record: tuple[str, str, int]) -> list[tuple[Any, ...]]:
    return run.pipe(*record)


@pytest.mark.parametrize("name", NODES)
@given(records=RECORDS, commit_every=st.integers(1, 5), crash_at=st.integers(0, 24))
def test_a_crash_changes_nothing(
    name: str, records: list[tuple[str, str, int]], commit_every: int, crash_at: int
):
    undisturbed, expected = results(NODES[name], process, records)
    run, found = results_through_a_crash(
        NODES[name], process, records, commit_every=commit_every, crash_at=crash_at
    )

    assert found == expected
    assert list(run.store("seen").all()) == list(undisturbed.store("seen").all())


@pytest.mark.parametrize("name", NODES)
@given(records=RECORDS, time=st.integers(0, 90))
def test_a_record_that_is_rolled_back_is_seen_by_nobody(
    name: str, records: list[tuple[str, str, int]], time: int
):
    runs = [OneOperator(NODES[name]()) for _ in range(2)]
    half = len(records) // 2
    for run in runs:
        for record in records[:half]:
            process(run, record)
    runs[0].begin_journal()
    runs[0].pipe("a", "x", time)
    runs[0].end_journal(rollback=True)

    for record in records[half:]:
        assert process(runs[0], record) == process(runs[1], record)
    assert runs[0].commit() == runs[1].commit()


def by_word() -> Topology:
    """Words that repeat themselves, on whatever partition they came."""
    builder = StreamsBuilder()
    words = builder.stream("in", key=str, value=str).select_key(lambda word: word[0], key=str)
    once = words.deduplicate_by_key_value(lambda word: word, ms(20), id=str, name="once")
    once.deduplicate_by_key(ms(5), name="seldom").to("out")
    return builder.build()


@pytest.mark.no_cover  # many schedules go through the same lines
def test_no_crash_no_move_and_no_guarantee_makes_a_difference():
    """Over two partitions, with a repartition topic in front."""
    words = ["ab", "ac", "ba", "ab", "ba", "bc", "ab", "ca", "ac", "ab"]
    inputs = [
        ("in", f"k{n % 7}", words[n * 3 % len(words)], n * 4 - (n * 7) % 13 + 20) for n in range(60)
    ]

    result = simulate(by_word(), inputs, schedules=20)

    assert result.counters["crashes"] > 5
    assert result.counters["outputs_compared"] > 100
    assert result.counters["rows_compared"] > 50
