"""One operator that dies once and goes on from its last commit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from logstate.topology.graph.nodes import ProcessorNode
from tests.unit.topology.operators.one_operator import OneOperator

#: wall clock of a first record, and from one to the next
BEGIN_MS, STEP_MS = 1_000, 10

R = TypeVar("R")
Results = list[list[tuple[Any, ...]]]


def results(
    node: Callable[[], ProcessorNode],
    process: Callable[[OneOperator, R], list[tuple[Any, ...]]],
    records: Sequence[R],
) -> tuple[OneOperator, Results]:
    """Where nothing happens: the operator at its end, and what came of each record."""
    run = OneOperator(node(), wall_clock_ms=BEGIN_MS)
    return run, [process(run, record) for record in records]


def results_through_a_crash(
    node: Callable[[], ProcessorNode],
    process: Callable[[OneOperator, R], list[tuple[Any, ...]]],
    records: Sequence[R],
    *,
    commit_every: int,
    crash_at: int,
) -> tuple[OneOperator, Results]:
    """The same where it dies before record ``crash_at``; what came of records since the commit
    counts once, the second time.
    """
    run = OneOperator(node(), wall_clock_ms=BEGIN_MS)
    run.commit()
    found: Results = []
    has_crashed = False
    while len(found) < len(records):
        if len(found) == crash_at and not has_crashed:
            has_crashed = True
            run = run.successor(node())
            del found[run.offset + 1 :]
            run.clock.jump_wall_clock(BEGIN_MS + STEP_MS * len(found))
            continue
        found.append(process(run, records[len(found)]))
        if len(found) % commit_every == 0:
            run.commit()
    return run, found
