"""Calls that take long: found from beside the worker, told while they run, blamed for failures."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

import pytest

from logstate.contracts.errors import BrokerError, FencedError
from logstate.contracts.records import TopicPartition
from logstate.testing import FakeCluster, Fault
from logstate.topology import StreamsBuilder
from logstate.worker.slow_calls import ActiveCall, ProcessedRecord, SlowCalls, active_call
from logstate.worker.watchdog import Watchdog
from tests.unit.logstate.worker.worker_rig import WorkerRig, cluster_of, outputs, send

HERE = ProcessedRecord(7, "0_0", "in", 0, 42)
CALL = ActiveCall("enrich", "ask at app.py:12", "  File app.py, line 13, in ask")
DEFAULTS = (300_000, 10_000)


def where() -> ActiveCall:
    return CALL


# --- told -----------------------------------------------------------------------------------------


def test_a_call_is_told_at_half_of_the_transaction_time_out_then_at_each_doubling() -> None:
    slow = SlowCalls(*DEFAULTS)
    told = [s for s in range(101) if slow.note_position(s * 1_000, HERE, where) is not None]
    assert told == [5, 10, 20, 40, 80]


def test_it_says_what_stands_where_for_how_long_and_what_to_do() -> None:
    slow = SlowCalls(*DEFAULTS)
    slow.note_position(0, HERE, where)
    note = slow.note_position(31_000, HERE, where)
    assert note is not None
    assert note.level == logging.WARNING
    assert "a call has been running for 31 s: ask at app.py:12, node 'enrich'" in note.text
    assert "topic 'in', partition 0, offset 42, task 0_0" in note.text
    assert "transaction.timeout.ms = 10000" in note.text
    assert "max.poll.interval.ms = 300000" in note.text
    assert note.text.endswith(CALL.stack)


def test_records_that_follow_each_other_are_no_slow_call() -> None:
    slow = SlowCalls(*DEFAULTS)
    for second in range(100):
        assert slow.note_position(second * 1_000, HERE._replace(offset=second), where) is None


def test_a_record_that_is_replayed_begins_anew() -> None:
    slow = SlowCalls(*DEFAULTS)
    for second in range(100):
        assert slow.note_position(second * 1_000, HERE._replace(turn=second), where) is None


def test_an_idle_worker_is_in_no_call() -> None:
    slow = SlowCalls(*DEFAULTS)
    for second in range(0, 100, 3):
        slow.note_position(second * 1_000, HERE, where)
        assert slow.note_position((second + 1) * 1_000, None, where) is None


def test_a_schedule_is_told_as_one() -> None:
    slow = SlowCalls(*DEFAULTS)
    place = HERE._replace(topic=None, offset=-1)
    slow.note_position(0, place, where)
    note = slow.note_position(6_000, place, where)
    assert note is not None
    assert "by a schedule of task 0_0" in note.text


# --- blamed ---------------------------------------------------------------------------------------


def test_a_failure_right_after_a_slow_turn_is_blamed_on_the_call() -> None:
    slow = SlowCalls(*DEFAULTS)
    slow.note_position(0, HERE, where)
    slow.note_position(6_000, HERE, where)
    slow.note_duration(HERE.turn, 0, 12_000)
    assert "busy for 12 s with one or a few calls: ask at app.py:12" in slow.blame(12_100)
    assert "The brokers work" in slow.blame(12_100)
    assert slow.blame(60_000) == ""


def test_a_failure_without_a_slow_turn_is_blamed_on_nothing() -> None:
    slow = SlowCalls(*DEFAULTS)
    slow.note_duration(1, 0, 400)
    assert slow.blame(500) == ""


def test_a_slow_turn_that_nobody_looked_at_is_blamed_without_a_name() -> None:
    slow = SlowCalls(*DEFAULTS)
    slow.note_duration(1, 0, 12_000)
    assert "the functions that were called for the last records" in slow.blame(12_000)


def test_a_worker_is_careful_for_a_while_after_a_slow_turn() -> None:
    slow = SlowCalls(*DEFAULTS)
    assert not slow.was_slow_recently(0)
    slow.note_duration(1, 0, 12_000)
    assert slow.was_slow_recently(300_000)
    assert not slow.was_slow_recently(700_000)


# --- in a worker ----------------------------------------------------------------------------------


class Slow:
    """A flow whose function takes as long as it is told to, and may look around meanwhile."""

    def __init__(self, cluster: FakeCluster) -> None:
        self.cluster = cluster
        self.takes_ms: dict[str, int] = {}
        self.calls: list[str] = []
        self.function: Callable[[str], str] = lambda value: value
        self.rig = WorkerRig(cluster, self.declare)
        self.watch = Watchdog(cluster.probe(), self.rig.clock, self.rig.observer, self.rig.worker)

    def declare(self, builder: StreamsBuilder) -> None:
        values = builder.stream("in", key=str, value=str)
        values.map_values(self.ask, value=str).to("out", key=str, value=str)

    def ask(self, value: str) -> str:
        self.calls.append(value)
        for _ in range(self.takes_ms.get(value, 0) // 1_000):
            self.watch.look_at_worker()
            self.rig.clock.advance(1_000)
            self.cluster.tick()  # what the coordinators do by the clock
        return self.function(value)


@pytest.fixture
def slow() -> Slow:
    made = Slow(cluster_of({"in": 2, "out": 1}))
    made.rig.start().until_running("0_0", "0_1")
    return made


def test_the_users_function_is_named_while_it_runs(
    slow: Slow, caplog: pytest.LogCaptureFixture
) -> None:
    slow.takes_ms["a"] = 6_000
    send(slow.cluster, "a", partition=0)
    slow.rig.turn()
    (record,) = [r for r in caplog.records if r.name == "logstate.worker.watchdog"]
    text = record.getMessage()
    assert "ask at tests/unit/logstate/worker/test_slow_calls.py" in text.replace("\\", "/")
    assert "topic 'in', partition 0, offset 0, task 0_0" in text
    assert "self.watch.look_at_worker()" in text  # the stack, down to the line


def test_a_slow_call_beside_an_open_transaction_costs_one_replay_and_no_more(slow: Slow) -> None:
    slow.takes_ms["slow"] = 15_000  # longer than the transaction lives
    for number in range(3):
        send(slow.cluster, "quick", partition=0)
        send(slow.cluster, "slow", partition=1)
        slow.rig.until(lambda n=number: len(outputs(slow.cluster)) == 2 * n + 2)  # type: ignore[misc]
    assert slow.calls.count("slow") <= 4
    assert [v for _, v in outputs(slow.cluster)].count("slow") == 3


def test_many_calls_of_a_second_each_do_not_keep_the_worker_from_polling(slow: Slow) -> None:
    for number in range(90):
        slow.takes_ms[str(number)] = 1_000
        send(slow.cluster, str(number), partition=0)
    slow.rig.turn()
    assert len(slow.calls) <= 4
    slow.rig.until(lambda: len(slow.calls) >= 90)
    assert slow.calls == [str(number) for number in range(90)]


def test_the_membership_survives_a_call_of_any_length(slow: Slow) -> None:
    slow.takes_ms["a"] = 600_000  # the session ends after 45 s, the polls are due after 300 s
    send(slow.cluster, "a", partition=0)
    slow.rig.turn(3)
    slow.rig.commit()
    assert slow.calls == ["a"]
    assert outputs(slow.cluster) == [("a", "a")]
    assert slow.rig.total("partitions_lost_total") == 0


def test_a_call_that_hangs_is_told_to_whoever_asks_whether_it_lives(slow: Slow) -> None:
    hanging: list[str | None] = []
    calls, clock = slow.rig.worker.processing.slow_calls, slow.rig.clock

    def ask(value: str) -> str:
        for _ in range(302):
            slow.watch.look_at_worker()
            hanging.append(calls.stuck_call(clock.monotonic_ms()))
            clock.advance(1_000)
        return value

    slow.function = ask
    send(slow.cluster, "a", partition=0)
    slow.rig.turn()
    assert hanging[299] is None
    assert hanging[301] is not None
    assert "a call has been running for 301 s: " in hanging[301]
    assert calls.stuck_call(clock.monotonic_ms()) is not None  # until the next look
    slow.watch.look_at_worker()
    assert calls.stuck_call(clock.monotonic_ms()) is None


def test_the_failure_that_a_slow_call_brings_about_names_it_and_not_the_brokers(
    slow: Slow,
) -> None:
    slow.rig.worker._limits._aborts._aborts_max = 0
    slow.takes_ms["a"] = 15_000
    send(slow.cluster, "a", partition=0)
    slow.cluster.faults.add(Fault("commit", FencedError("erroneous state")))
    named = r"busy for 15 s with one or a few calls.*ask at .*offset 0"
    with pytest.raises(BrokerError, match=named) as caught:
        slow.rig.turn(3)
    assert "unstable" not in str(caught.value)


def test_a_thread_in_no_call_of_the_users_has_a_stack_of_ours_only() -> None:
    found = active_call(threading.get_ident())
    assert found is not None
    assert found.node is None


def test_a_thread_that_has_ended_stands_nowhere() -> None:
    thread = threading.Thread(target=lambda: None)
    thread.start()
    thread.join()
    assert active_call(thread.ident or 0) is None


def test_an_interrupted_batch_goes_on_where_it_stopped_in_the_same_order() -> None:
    cluster = cluster_of({"left": 1, "right": 1, "out": 1})

    def interrupt(value: str) -> str:
        rig.tasks["0_0"].task.interrupt()
        return value

    rig = WorkerRig(cluster, lambda builder: _merged(builder, interrupt))

    rig.start().until_running("0_0")
    for number in range(20):
        topic = ("left", "right")[number % 2]
        cluster.produce(topic, b"k", str(number).encode(), timestamp=number + 1)
    for _ in range(40):
        rig.commit()
    assert [v for _, v in outputs(cluster)] == [str(n) for n in range(20)]
    assert cluster.log(TopicPartition("left", 0)).end == 10


def _merged(builder: StreamsBuilder, function: object) -> None:
    left = builder.stream("left", key=str, value=str)
    merged = left.merge(builder.stream("right", key=str, value=str))
    merged.map_values(function, value=str).to("out", key=str, value=str)  # type: ignore[call-overload]
