"""The states of an instance: the table, what follows from facts, who is told."""

from __future__ import annotations

import itertools
import logging
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstate.app.instance.states import (
    SUCCESSORS,
    ApplicationState,
    Facts,
    IllegalChange,
    Lifecycle,
    joint,
    state_of,
)
from tests.patience import PATIENCE_S

S = ApplicationState
LIVE = (S.STARTING, S.REBALANCING, S.RUNNING, S.PAUSED)
WAY_TO: dict[S, tuple[S, ...]] = {
    S.CREATED: (),
    **{state: (S.STARTING, state) for state in LIVE},
    S.STOPPING: (S.STARTING, S.STOPPING),
    S.STOPPED: (S.STOPPED,),
    S.ERROR: (S.STARTING, S.ERROR),
}
FACTS = st.builds(Facts, st.booleans(), st.booleans(), st.booleans(), st.just(False))
PAIRS = [pair for pair in itertools.product(S, S) if pair[0] is not pair[1]]


def lifecycle_at(state: S) -> Lifecycle:
    lifecycle = Lifecycle()
    for step in WAY_TO[state]:
        lifecycle.move_to(step)
    return lifecycle


@pytest.mark.parametrize(("before", "after"), PAIRS, ids=str)
def test_an_instance_goes_only_where_the_table_leads(before: S, after: S) -> None:
    lifecycle = lifecycle_at(before)
    if after in SUCCESSORS[before]:
        lifecycle.move_to(after)
        assert lifecycle.state is after
    else:
        with pytest.raises(IllegalChange, match=f"is {before.value} cannot be {after.value}"):
            lifecycle.move_to(after)
        assert lifecycle.state is before


def test_every_state_is_in_the_table_and_can_be_reached() -> None:
    assert set(SUCCESSORS) == set(S)
    reached = {S.CREATED}
    while more := {after for state in reached for after in SUCCESSORS[state]} - reached:
        reached |= more
    assert reached == set(S)


def test_only_the_ends_have_no_successor_and_every_state_leads_to_one() -> None:
    assert {state for state in S if not SUCCESSORS[state]} == {S.STOPPED, S.ERROR}
    assert {state for state in S if state.is_over} == {S.STOPPED, S.ERROR}
    for state in set(S) - {S.STOPPED, S.ERROR}:
        assert S.STOPPED in SUCCESSORS[state] | SUCCESSORS[S.STOPPING]


@given(st.lists(FACTS), st.booleans())
def test_whatever_becomes_true_of_a_worker_its_state_follows(
    story: list[Facts], is_stopped: bool
) -> None:
    lifecycle = Lifecycle()
    told: list[tuple[S, S]] = []
    lifecycle.listen(lambda old, new: told.append((old, new)))
    lifecycle.move_to(S.STARTING)
    for facts in story:
        lifecycle.follow(facts)
        assert lifecycle.state is state_of(facts)
    if is_stopped:
        lifecycle.follow(Facts(is_stopping=True))
    lifecycle.move_to(S.STOPPED if is_stopped else S.ERROR)
    assert [old for old, _ in told] == [S.CREATED, *(new for _, new in told[:-1])]
    assert all(old is not new for old, new in told)


@given(st.lists(st.builds(Facts, *[st.booleans()] * 4), min_size=1))
def test_workers_together_are_no_further_than_the_last_of_them(workers: list[Facts]) -> None:
    order = [S.STARTING, S.REBALANCING, S.RUNNING, S.PAUSED, S.STOPPING]
    states = [state_of(one) for one in workers]
    together = state_of(joint(workers))
    if S.STOPPING in states:
        assert together is S.STOPPING
    else:
        assert order.index(together) <= min(map(order.index, states))


def test_no_workers_are_not_running() -> None:
    assert state_of(joint([])) is S.STARTING


def test_a_listener_that_raises_hurts_neither_the_others_nor_the_change(
    caplog: pytest.LogCaptureFixture,
) -> None:
    lifecycle = Lifecycle()
    told: list[S] = []

    def fail(_: S, new: S) -> None:
        raise OSError(f"no pager for {new.value}")

    lifecycle.listen(fail)
    lifecycle.listen(lambda _, new: told.append(new))
    with caplog.at_level(logging.ERROR):
        lifecycle.move_to(S.STARTING)
    assert told == [lifecycle.state] == [S.STARTING]
    assert "received created -> starting" in caplog.text
    assert "no pager for starting" in caplog.text


def test_a_change_made_by_a_listener_is_told_after_the_one_it_was_told_of() -> None:
    lifecycle = Lifecycle()
    first: list[S] = []
    second: list[S] = []

    def stop(_: S, new: S) -> None:
        first.append(new)
        if new is S.STARTING:
            lifecycle.move_to(S.STOPPING)

    lifecycle.listen(stop)
    lifecycle.listen(lambda _, new: second.append(new))
    lifecycle.move_to(S.STARTING)
    assert first == second == [S.STARTING, S.STOPPING]


def test_changes_of_several_threads_are_told_one_after_the_other() -> None:
    lifecycle = Lifecycle()
    told: list[tuple[S, S]] = []
    is_told, goes_on = threading.Event(), threading.Event()

    def slow(old: S, new: S) -> None:
        told.append((old, new))
        is_told.set()
        goes_on.wait(PATIENCE_S)

    lifecycle.listen(slow)
    first = threading.Thread(target=lifecycle.move_to, args=(S.STARTING,))
    first.start()
    assert is_told.wait(PATIENCE_S)
    lifecycle.move_to(S.STOPPING)  # returns at once: the other thread is at it
    assert told == [(S.CREATED, S.STARTING)]
    goes_on.set()
    first.join(PATIENCE_S)
    assert told == [(S.CREATED, S.STARTING), (S.STARTING, S.STOPPING)]
