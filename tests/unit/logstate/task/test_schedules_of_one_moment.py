"""Which of several schedules is called first: the order of Kafka Streams' queue, a heap."""

from __future__ import annotations

import pytest

from logstate.task.punctuation import Punctuations

#: what ``java.util.PriorityQueue`` gives for five schedules, of every 10 ms
FIVE = {0: "AEBDC", 10: "DCEAB", 20: "ABCDE"}


class Calls:
    """The schedules of a task, and who was called."""

    def __init__(self, names: str = "") -> None:
        self.punctuations = Punctuations()
        self.called: list[str] = []
        for name in names:
            self.add(name)

    def add(self, name: str, interval_ms: int = 10) -> None:
        self.punctuations.add(
            "stream_time", interval_ms, lambda _: self.called.append(name), now=-1, name=name
        )

    def at(self, time: int) -> str:
        self.called.clear()
        self.punctuations.fire("stream_time", time)
        return "".join(self.called)


def test_schedules_that_are_due_together_are_called_in_the_order_of_kafka_streams() -> None:
    five, three = Calls("ABCDE"), Calls("ABC")
    assert {time: five.at(time) for time in FIVE} == FIVE
    assert [three.at(0), three.at(10)] == ["ACB", "CBA"]


def test_the_order_is_told_before_the_calls() -> None:
    five = Calls("ABCDE")
    for time, called in FIVE.items():
        assert "".join(five.punctuations.due("stream_time", time)) == called
        five.at(time)


@pytest.mark.parametrize("is_made_first", [True, False])
def test_the_order_comes_back_with_a_committed_cut(is_made_first: bool) -> None:
    before, after = Calls("ABCDE"), Calls("ABCDE" if is_made_first else "")
    assert before.at(0) == FIVE[0]
    after.punctuations.set_next_times(before.punctuations.next_times())
    for name in "" if is_made_first else "ABCDE":
        after.add(name)
    assert [after.at(10), after.at(20)] == [FIVE[10], FIVE[20]]


def test_the_order_is_undone_with_a_record() -> None:
    five = Calls("ABCDE")
    five.at(0)
    then = five.punctuations.schedules()
    for _ in range(2):
        five.add("F")
        five.at(10)
        five.punctuations.go_back_to(then)
    assert [five.at(10), five.at(20)] == [FIVE[10], FIVE[20]]


def test_a_call_that_is_tried_again_keeps_its_place() -> None:
    calls, failures = Calls(), [LookupError("not yet")]

    def fail_once(_: int) -> None:
        if failures:
            raise failures.pop()
        calls.called.append("X")

    calls.punctuations.add("stream_time", 10, fail_once, now=-1, name="X")
    for name in "ABC":
        calls.add(name)
    with pytest.raises(LookupError):
        calls.at(0)
    assert [calls.at(0), calls.at(10)] == ["XCAB", "ABXC"]


def test_a_schedule_that_cancels_itself_comes_back_where_its_call_is_undone() -> None:
    calls = Calls("AB")

    def cancel_and_fail(_: int) -> None:
        then = calls.punctuations.schedules()
        mine.cancel()
        calls.punctuations.go_back_to(then)
        calls.called.append("C")

    mine = calls.punctuations.add("stream_time", 10, cancel_and_fail, now=-1, name="C")
    assert [calls.at(0), calls.at(10)] == ["ACB", "CBA"]


def test_a_cancelled_schedule_keeps_its_place_until_its_time() -> None:
    calls = Calls()
    cancelled = calls.punctuations.add("stream_time", 10, lambda _: None, now=-1, name="-")
    for name in "ABCD":
        calls.add(name)
    cancelled.cancel()
    assert [calls.at(0), calls.at(10)] == ["DCAB", "ABDC"]
    assert Calls("ABCD").at(0) == "ADBC"
