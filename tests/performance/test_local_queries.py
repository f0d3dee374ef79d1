"""The command that times local queries still does."""

from __future__ import annotations

from tests.performance.local_queries import State, measure


def test_every_read_is_timed_in_every_state() -> None:
    states = [State(22, 1), State(22, 2)]

    costs = measure(states, 1)

    assert {cost.state for cost in costs} == set(states)
    reads = [cost.read for cost in costs if cost.state == states[0]]
    assert len(reads) == len(set(reads)) >= 4
    assert all(cost.us > 0 for cost in costs)
