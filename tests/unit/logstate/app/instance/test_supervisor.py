"""Which workers are started, told to end and killed: backoff, limit, drain."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstate.app.instance.restarts import FIRST_WAIT_MS, LONGEST_WAIT_MS, RESTARTS_MAX, WINDOW_MS
from logstate.app.instance.supervisor import Supervisor
from logstate.contracts.clock import ManualClock

DIED = "was killed by signal 9"


class Supervised:
    """A supervisor with its clock; ``pid`` counts the starts of each worker."""

    def __init__(self, workers: int) -> None:
        self.clock = ManualClock()
        self.supervisor = Supervisor(workers)

    @property
    def now(self) -> float:
        return self.clock.monotonic_ms()

    def actions(self) -> list[tuple[str, int]]:
        return [(a.kind, a.worker) for a in self.supervisor.actions(self.now)]

    def dies(self, worker: int, *, is_replaced: bool = True) -> None:
        self.supervisor.ended(worker, self.now, DIED, is_replaced=is_replaced)

    def passes(self, ms: float) -> None:
        self.clock.advance(int(ms))


def started(workers: int) -> Supervised:
    one = Supervised(workers)
    one.actions()
    return one


def test_every_worker_is_started_once() -> None:
    one = Supervised(3)
    assert one.actions() == [("start", 0), ("start", 1), ("start", 2)]
    assert one.actions() == []
    assert one.supervisor.wait_ms(one.now) is None


def test_a_dead_worker_starts_again_after_a_wait_and_the_others_go_on() -> None:
    one = started(3)
    one.dies(1)
    assert one.actions() == []
    assert one.supervisor.wait_ms(one.now) == FIRST_WAIT_MS
    assert one.supervisor.waiting() == {1: DIED}
    one.passes(FIRST_WAIT_MS)
    assert one.actions() == [("start", 1)]
    assert one.supervisor.waiting() == {}


def test_the_wait_doubles_up_to_the_longest_and_begins_anew_after_a_good_while() -> None:
    one, waits = started(1), []
    for _ in range(9):
        one.dies(0)
        waits.append(one.supervisor.wait_ms(one.now) or 0.0)
        one.passes(waits[-1])
        assert one.actions() == [("start", 0)]
    assert waits == sorted(waits)
    assert waits[:3] == [FIRST_WAIT_MS, 2 * FIRST_WAIT_MS, 4 * FIRST_WAIT_MS]
    assert waits[-1] == LONGEST_WAIT_MS
    one.passes(WINDOW_MS + 1)
    one.dies(0)
    assert one.supervisor.wait_ms(one.now) == FIRST_WAIT_MS


def dies_until_given_up(one: Supervised, worker: int) -> int:
    for number in range(100):
        if one.supervisor.given_up is not None:
            return number
        one.dies(worker)
        one.passes(one.supervisor.wait_ms(one.now) or 0.0)
        one.actions()
    raise AssertionError("it goes on for ever")


def test_a_worker_that_dies_too_often_is_given_up_with_the_reason() -> None:
    one = started(2)
    assert dies_until_given_up(one, 1) == RESTARTS_MAX + 1
    assert one.supervisor.given_up == (
        f"worker 1 {DIED}; it ended {RESTARTS_MAX + 1} times within 10 minutes, and is not started"
        " again"
    )
    assert not one.supervisor.is_over, "the other one has to be told"
    one.supervisor.stop(one.now, 1_000)
    assert one.actions() == [("stop", 0)]
    one.dies(0)
    assert one.supervisor.is_over


def test_deaths_of_one_worker_do_not_count_for_another() -> None:
    one = started(2)
    for _ in range(RESTARTS_MAX):
        for worker in (0, 1):
            one.dies(worker)
        one.passes(LONGEST_WAIT_MS)
        assert one.actions() == [("start", 0), ("start", 1)]
    assert one.supervisor.given_up is None


def test_one_that_is_not_to_be_replaced_ends_the_instance() -> None:
    one = started(2)
    one.dies(0, is_replaced=False)
    assert one.supervisor.given_up == f"worker 0 {DIED}"


def test_all_are_told_to_end_and_those_that_do_not_are_killed_when_the_time_is_over() -> None:
    one = started(3)
    one.supervisor.stop(one.now, 5_000)
    assert one.actions() == [("stop", 0), ("stop", 1), ("stop", 2)]
    one.dies(0)
    one.passes(4_999)
    one.dies(1)
    assert one.actions() == []
    assert one.supervisor.wait_ms(one.now) == 1
    one.passes(1)
    assert one.actions() == [("kill", 2)]
    assert one.actions() == []
    assert not one.supervisor.is_over
    one.dies(2)
    assert one.supervisor.is_over
    assert one.supervisor.killed == [2]
    assert one.supervisor.given_up is None


def test_a_worker_that_waits_for_its_start_is_not_started_any_more() -> None:
    one = started(2)
    one.dies(1)
    one.supervisor.stop(one.now, 5_000)
    assert one.actions() == [("stop", 0)]
    one.dies(0)
    assert one.supervisor.is_over
    one.passes(LONGEST_WAIT_MS)
    assert one.actions() == []


@pytest.mark.parametrize(("first", "second", "killed_after"), [(9_000, 2_000, 2_000), (2, 9, 2)])
def test_a_second_stop_may_shorten_the_time_and_never_lengthens_it(
    first: int, second: int, killed_after: int
) -> None:
    one = started(1)
    one.supervisor.stop(one.now, first)
    one.supervisor.stop(one.now, second)
    assert one.actions() == [("stop", 0)]
    one.passes(killed_after - 1)
    assert one.actions() == []
    one.passes(1)
    assert one.actions() == [("kill", 0)]


def test_one_that_is_added_starts_and_counts_once_it_has_joined() -> None:
    one = started(2)
    one.supervisor.scale(3, one.now, 5_000)
    assert one.actions() == [("start", 2)]
    assert (one.supervisor.numbers, one.supervisor.wanted) == ([0, 1], 3)
    one.supervisor.joined(2)
    assert one.supervisor.numbers == [0, 1, 2]


def test_one_that_is_removed_is_told_to_end_and_killed_when_the_time_is_over() -> None:
    one = started(2)
    one.supervisor.scale(1, one.now, 5_000)
    assert one.actions() == [("stop", 1)]
    assert one.supervisor.numbers == [0]
    assert one.supervisor.wait_ms(one.now) == 5_000
    one.passes(5_000)
    assert one.actions() == [("kill", 1)]
    one.dies(1)
    assert one.actions() == []
    assert one.supervisor.wait_ms(one.now) is None
    assert not one.supervisor.is_over
    assert one.supervisor.given_up is None


def test_one_that_was_removed_and_is_wanted_again_starts_after_its_end() -> None:
    one = started(2)
    one.supervisor.scale(1, one.now, 5_000)
    assert one.actions() == [("stop", 1)]
    one.supervisor.scale(2, one.now, 5_000)
    assert one.actions() == []
    one.dies(1)
    assert one.actions() == [("start", 1)]
    one.passes(6_000)
    assert one.actions() == []


def test_one_that_was_hardly_removed_stays() -> None:
    one = started(2)
    one.supervisor.scale(1, one.now, 5_000)
    one.supervisor.scale(2, one.now, 5_000)
    assert one.actions() == []
    one.passes(6_000)
    one.supervisor.stop(one.now, 1_000)
    assert one.actions() == [("stop", 0), ("stop", 1)]
    assert one.actions() == []


def test_one_that_waits_for_its_start_and_is_removed_is_not_started() -> None:
    one = started(2)
    one.dies(1)
    one.supervisor.scale(1, one.now, 5_000)
    one.passes(LONGEST_WAIT_MS)
    assert one.actions() == []
    assert one.supervisor.waiting() == {}
    assert one.supervisor.wait_ms(one.now) is None


EVENTS = ["dies", "passes", "scale", "stop"]


@given(st.lists(st.tuples(st.sampled_from(EVENTS), st.integers(0, 3))))
def test_whatever_happens_a_worker_starts_only_where_none_runs_and_all_run_in_the_end(
    story: list[tuple[str, int]],
) -> None:
    one, running, ending = Supervised(3), set[int](), set[int]()
    wanted, stopped = 3, False

    def act() -> None:
        for kind, number in one.actions():
            assert (number in running) == (kind != "start")
            if kind == "start":
                assert not stopped
                assert number < wanted
                running.add(number)
            else:
                assert kind == "stop" or number in ending, "killed without a word"
                ending.add(number)

    def dies(number: int) -> None:
        running.discard(number)
        ending.discard(number)
        one.dies(number)

    for event, number in story:
        act()
        if event == "dies" and number in running:
            dies(number)
        elif event == "passes":
            one.passes(number * 400)
        elif event == "scale":
            wanted = number + 1
            one.supervisor.scale(wanted, one.now, 1_000)
        elif event == "stop":
            one.supervisor.stop(one.now, 1_000)
            stopped = True
    for _ in range(2 * len(EVENTS)):
        act()
        for number in list(ending):
            dies(number)
        one.passes(LONGEST_WAIT_MS)
    if one.supervisor.given_up is None:
        assert running == (set() if stopped else set(range(wanted)))
