"""When schedules are due: grids, anchors, what is missed, what comes back with a cut."""

from __future__ import annotations

import pytest

from logstate.contracts.records import Record
from logstate.task.punctuation import Punctuation, Punctuations
from logstate.topology import KeyTimers, Processor, StreamsBuilder, timer_store
from tests.unit.logstate.task.task_bench import TaskBench


def test_a_stream_time_schedule_is_due_with_the_first_record_and_then_on_its_grid() -> None:
    punctuations, calls = Punctuations(), list[int]()
    punctuations.add("stream_time", 10, calls.append, now=999)
    assert punctuations.next_stream_time == 0
    for time in (3, 9, 10, 11, 20):
        punctuations.fire("stream_time", time)
    assert calls == [3, 10, 20]


def test_missed_intervals_are_one_call_and_the_grid_is_kept() -> None:
    punctuations, calls = Punctuations(), list[int]()
    punctuations.add("stream_time", 10, calls.append, now=0)
    for time in (0, 57, 59, 60, 61):
        punctuations.fire("stream_time", time)
    assert calls == [0, 57, 60]


def test_a_callback_gets_the_time_of_the_look_not_the_grid_point() -> None:
    punctuations, calls = Punctuations(), list[int]()
    punctuations.add("wall_clock", 10, calls.append, now=100)
    punctuations.fire("wall_clock", 117)
    assert calls == [117]


def test_an_anchored_stream_time_schedule_waits_for_its_anchor() -> None:
    punctuations, calls = Punctuations(), list[int]()
    punctuations.add("stream_time", 10, calls.append, now=0, start_ms=25)
    for time in (24, 25, 34, 35):
        punctuations.fire("stream_time", time)
    assert calls == [25, 35]


def test_a_wall_clock_schedule_is_due_one_interval_after_it_was_made() -> None:
    punctuations, calls = Punctuations(), list[int]()
    punctuations.add("wall_clock", 10, calls.append, now=105)
    for time in (114, 115, 124, 125):
        punctuations.fire("wall_clock", time)
    assert calls == [115, 125]


@pytest.mark.parametrize(
    ("anchor", "due"), [(130, 130), (100, 110), (105, 105), (7, 107), (0, 110)]
)
def test_an_anchored_wall_clock_schedule_is_due_at_the_next_point_of_its_grid(
    anchor: int, due: int
) -> None:
    punctuations = Punctuations()
    schedule = punctuations.add("wall_clock", 10, lambda _: None, now=105, start_ms=anchor)
    if anchor == 100:
        assert schedule.next_time == 110
    assert schedule.next_time == due
    assert schedule.next_time >= 105


@pytest.mark.parametrize(
    ("anchor", "due"), [(130, 130), (100, 110), (105, 105), (7, 107), (0, 110)]
)
def test_so_is_one_by_stream_time_that_is_made_when_there_is_a_stream_time(
    anchor: int, due: int
) -> None:
    """It does not fire at once because its anchor is over."""
    punctuations = Punctuations()
    schedule = punctuations.add("stream_time", 10, lambda _: None, now=105, start_ms=anchor)
    assert schedule.next_time == punctuations.next_stream_time == due


def test_several_due_schedules_run_earliest_first_each_once() -> None:
    punctuations, calls = Punctuations(), list[str]()
    punctuations.add("stream_time", 100, lambda _: calls.append("b"), now=0, start_ms=20)
    punctuations.add("stream_time", 100, lambda _: calls.append("a"), now=0, start_ms=10)
    punctuations.add("stream_time", 100, lambda _: calls.append("never"), now=0, start_ms=31)
    assert punctuations.fire("stream_time", 30) == 2
    assert calls == ["a", "b"]


def test_the_two_kinds_do_not_fire_each_other() -> None:
    punctuations, calls = Punctuations(), list[int]()
    punctuations.add("stream_time", 10, calls.append, now=0)
    assert punctuations.fire("wall_clock", 1_000) == 0
    assert calls == []


def test_a_cancelled_schedule_is_called_no_more() -> None:
    punctuations, calls = Punctuations(), list[int]()
    schedule = punctuations.add("wall_clock", 10, calls.append, now=0)
    punctuations.fire("wall_clock", 10)
    schedule.cancel()
    assert punctuations.fire("wall_clock", 50) == 0
    assert calls == [10]
    assert punctuations.next_times() == {}


def test_a_callback_may_cancel_its_own_schedule() -> None:
    punctuations, calls = Punctuations(), list[int]()

    def once(now: int) -> None:
        calls.append(now)
        schedule.cancel()

    schedule = punctuations.add("stream_time", 10, once, now=0)
    punctuations.fire("stream_time", 5)
    assert punctuations.next_stream_time is None
    punctuations.fire("stream_time", 50)
    assert calls == [5]


def test_a_callback_may_cancel_a_schedule_that_is_due_after_it() -> None:
    punctuations, calls = Punctuations(), list[str]()
    punctuations.add("stream_time", 10, lambda _: later.cancel(), now=0, start_ms=1)
    later = punctuations.add("stream_time", 10, lambda _: calls.append("later"), now=0, start_ms=2)
    assert punctuations.fire("stream_time", 5) == 1
    assert calls == []


def test_a_callback_may_make_a_schedule_which_belongs_to_the_same_look() -> None:
    punctuations, calls = Punctuations(), list[tuple[str, int]]()
    punctuations.add("stream_time", 10, lambda now: calls.append(("third", now)), now=-1)
    punctuations.add(
        "stream_time",
        1_000,
        lambda now: [
            punctuations.add(
                "stream_time",
                10,
                lambda at, name=name: calls.append((name, at)),  # type: ignore[misc]
                now=now,
                start_ms=start,
            )
            for name, start in (("same", now), ("later", now + 1), ("over", 0))
        ],
        now=-1,
        start_ms=0,
    )
    assert punctuations.fire("stream_time", 5) == 3
    assert calls == [("third", 5), ("same", 5)]
    assert punctuations.next_stream_time == 6
    calls.clear()
    punctuations.fire("stream_time", 15)
    assert sorted(calls) == [("later", 15), ("over", 15), ("same", 15), ("third", 15)]


def test_the_earliest_stream_time_is_known_without_looking() -> None:
    punctuations = Punctuations()
    assert punctuations.next_stream_time is None
    punctuations.add("wall_clock", 10, lambda _: None, now=0)
    assert punctuations.next_stream_time is None
    punctuations.add("stream_time", 10, lambda _: None, now=0, start_ms=40)
    punctuations.add("stream_time", 10, lambda _: None, now=0, start_ms=30)
    assert punctuations.next_stream_time == 30
    punctuations.fire("stream_time", 30)
    assert punctuations.next_stream_time == 40


def test_schedules_are_named_by_their_kind_and_number_unless_they_have_a_name() -> None:
    punctuations = Punctuations()
    for kind, name in (("stream_time", None), ("wall_clock", None), ("stream_time", "tick")):
        punctuations.add(kind, 10, lambda _: None, now=0, name=name)  # type: ignore[arg-type]
    punctuations.add("stream_time", 10, lambda _: None, now=0)
    assert set(punctuations.next_times()) == {
        "stream_time-0",
        "stream_time-2",
        "tick",
        "wall_clock-0",
    }


def test_due_times_of_a_cut_come_back_for_schedules_that_exist() -> None:
    before = Punctuations()
    for kind in ("stream_time", "wall_clock"):
        before.add(kind, 10, lambda _: None, now=3)  # type: ignore[arg-type]
        before.fire(kind, 25)  # type: ignore[arg-type]
    after = Punctuations()
    for kind in ("stream_time", "wall_clock"):
        after.add(kind, 10, lambda _: None, now=77)  # type: ignore[arg-type]
    after.set_next_times(before.next_times())
    assert after.next_times() == before.next_times() == {"stream_time-0": 30, "wall_clock-0": 33}
    assert after.next_stream_time == 30


def test_due_times_of_a_cut_wait_for_schedules_that_are_made_later() -> None:
    punctuations = Punctuations()
    punctuations.set_next_times({"tick": 70})
    late = punctuations.add("wall_clock", 10, lambda _: None, now=100, name="tick")
    assert late.next_time == 70
    again = punctuations.add("wall_clock", 10, lambda _: None, now=100, name="tick")
    assert again.next_time == 110


@pytest.mark.parametrize("interval_ms", [0, -5])
def test_an_interval_below_one_millisecond_is_refused(interval_ms: int) -> None:
    with pytest.raises(ValueError, match=f"at least 1 ms; got {interval_ms} ms"):
        Punctuations().add("wall_clock", interval_ms, lambda _: None, now=0)


def test_a_schedule_moves_to_the_first_grid_point_after_now() -> None:
    schedule = Punctuation("tick", 10, 20, lambda _: None)
    schedule.move_past(20)
    assert schedule.next_time == 30
    schedule.move_past(30)
    assert schedule.next_time == 40
    schedule.move_past(69)
    assert schedule.next_time == 70


# --- undoing --------------------------------------------------------------------------------------


def test_what_was_scheduled_cancelled_and_fired_since_a_commit_can_be_undone() -> None:
    punctuations, calls = Punctuations(), list[str]()
    kept = punctuations.add("stream_time", 10, lambda _: calls.append("kept"), now=0)
    other = punctuations.add("wall_clock", 10, lambda _: calls.append("other"), now=0)
    punctuations.fire("stream_time", 3)
    then = punctuations.schedules()

    punctuations.fire("stream_time", 12)
    kept.cancel()
    other.cancel()
    punctuations.fire("wall_clock", 20)
    punctuations.add("stream_time", 1, lambda _: calls.append("undone"), now=0)
    punctuations.go_back_to(then)

    assert punctuations.next_times() == {"stream_time-0": 10, "wall_clock-0": 10}
    assert punctuations.next_stream_time == 10
    calls.clear()
    punctuations.fire("stream_time", 12)
    punctuations.fire("wall_clock", 20)
    assert calls == ["kept", "other"]
    again = punctuations.add("stream_time", 1, lambda _: None, now=0)
    assert again.name == "stream_time-1"


def test_going_back_is_possible_more_than_once() -> None:
    punctuations = Punctuations()
    punctuations.add("stream_time", 10, lambda _: None, now=0)
    then = punctuations.schedules()
    for _ in range(2):
        punctuations.fire("stream_time", 55)
        punctuations.add("stream_time", 10, lambda _: None, now=0)
        punctuations.go_back_to(then)
        assert punctuations.next_times() == {"stream_time-0": 0}


def test_a_schedule_that_is_undone_gives_its_due_time_back_to_the_cut() -> None:
    """A record that makes it, fails and is tried again finds what the first attempt found."""
    punctuations = Punctuations()
    punctuations.set_next_times({"tick": 70, "tock": 90})
    then = punctuations.schedules()
    for _ in range(2):
        tick = punctuations.add("stream_time", 10, lambda _: None, now=65, name="tick")
        assert tick.next_time == 70
        punctuations.go_back_to(then)


def test_a_cancelled_schedule_is_not_among_those_that_come_back() -> None:
    punctuations = Punctuations()
    punctuations.add("stream_time", 10, lambda _: None, now=0).cancel()
    punctuations.go_back_to(punctuations.schedules())
    assert punctuations.next_times() == {}


#: a day, in ms, and a wall clock that is ahead by decades
DAY = 86_400_000
YEAR_2050, YEAR_2024 = 80 * 365 * DAY, 54 * 365 * DAY + 7


@pytest.mark.parametrize("interval_ms", [1, 10_000, DAY, 400 * DAY])
@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_wall_clock_that_was_wrong_once_holds_no_schedule_up(
    interval_ms: int, is_restarted: bool, caplog: pytest.LogCaptureFixture
) -> None:
    punctuations, calls = Punctuations(), list[int]()
    punctuations.add("wall_clock", interval_ms, calls.append, now=YEAR_2050)
    punctuations.fire("wall_clock", YEAR_2050 + interval_ms)
    due = punctuations.next_times()
    if is_restarted:
        punctuations = Punctuations()
        punctuations.set_next_times(due)
        punctuations.add("wall_clock", interval_ms, calls.append, now=YEAR_2024)
    calls.clear()

    for looks in range(3):
        punctuations.fire("wall_clock", YEAR_2024 + looks * interval_ms)
    assert calls == [YEAR_2024 + looks * interval_ms for looks in range(3)]
    told = [record for record in caplog.records if record.levelname == "WARNING"]
    assert len(told) == 1
    assert "'wall_clock-0'" in told[0].getMessage()
    (next_time,) = punctuations.next_times().values()
    assert (next_time - YEAR_2050) % interval_ms == 0  # still on its grid


def test_an_anchor_in_the_future_is_waited_for_however_far_it_is() -> None:
    punctuations, calls = Punctuations(), list[int]()
    punctuations.add("wall_clock", 10, calls.append, now=0, start_ms=1_000)
    due = punctuations.next_times()
    assert punctuations.due("wall_clock", 5) == []
    again = Punctuations()
    again.set_next_times(due)
    again.add("wall_clock", 10, calls.append, now=6, start_ms=1_000)
    for time in (7, 999, 1_000, 1_010):
        again.fire("wall_clock", time)
    assert calls == [1_000, 1_010]


def test_an_anchor_is_waited_for_again_where_the_clock_had_passed_it_wrongly() -> None:
    punctuations, calls = Punctuations(), list[int]()
    punctuations.add("wall_clock", 10, calls.append, now=YEAR_2050, start_ms=1_000)
    for time in (500, 999, 1_000, 1_010):
        punctuations.fire("wall_clock", time)
    assert calls == [1_000, 1_010]


@pytest.mark.parametrize("set_back_ms", [1, 9, 10])
def test_a_clock_that_is_set_back_a_little_repeats_no_call(set_back_ms: int) -> None:
    punctuations, calls = Punctuations(), list[int]()
    punctuations.add("wall_clock", 10, calls.append, now=100)
    for time in range(110, 121):
        punctuations.fire("wall_clock", time)
    calls.clear()
    for time in range(120 - set_back_ms, 140):
        punctuations.fire("wall_clock", time)
    assert calls == [130]


def test_event_time_that_jumps_back_leaves_schedules_by_stream_time_alone() -> None:
    punctuations, calls = Punctuations(), list[int]()
    punctuations.add("stream_time", 10, calls.append, now=0)
    for time in (YEAR_2050, YEAR_2024):
        punctuations.fire("stream_time", time)
    assert calls == [YEAR_2050]


class MakesTimers(Processor[str, str, str, str]):
    """Makes its timers at the first record, and sets one for each record, 5 ms later."""

    timers: KeyTimers[str] | None = None

    def process(self, record: Record[str, str]) -> None:
        if self.timers is None:
            self.timers = KeyTimers(self.context, "timers", self.run)
        self.timers.set(record.key, record.timestamp + 5)
        self.context.forward(record)

    def run(self, key: str, at_ms: int) -> None:
        self.context.forward(Record(key, f"{key} at {at_ms}", at_ms))


def test_timers_that_a_record_makes_run_before_the_next_records_of_the_batch() -> None:
    def declare(builder: StreamsBuilder) -> None:
        stream = builder.stream("in", key=str, value=str)
        stream.process(MakesTimers, stores=timer_store("timers", str), key=str, value=str).to("out")

    bench = TaskBench(declare)
    bench.task.state.restored()
    bench.add("in", ("a", "first", 10), ("b", "second", 11), ("c", "third", 15), ("d", "last", 16))
    while bench.task.process(1_000):
        pass
    assert bench.take() == ["first", "second", "a at 15", "third", "b at 16", "last"]
