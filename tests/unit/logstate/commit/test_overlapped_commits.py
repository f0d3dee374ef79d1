"""Records are processed while a commit waits for the brokers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from logstate.commit.commit import PAUSE, CommitReport
from logstate.commit.in_flight_commit import InFlightCommit
from logstate.contracts.clients import Step, Steps, run_steps
from logstate.contracts.clock import ManualClock
from logstate.contracts.errors import AbortableError, ProcessingError
from logstate.testing import FakeCluster
from logstate.testing.fake.background import FakeBackground
from logstate.topology import StreamsBuilder
from tests.unit.logstate.flows import counted
from tests.unit.logstate.worker.worker_rig import WorkerRig, outputs, send

#: how often a worker looks for an answer in vain
LOOKS = 3
REPORT = CommitReport({}, {})


class SlowCluster(FakeCluster):
    """Every call in the background is found unfinished as often."""

    def background_looks(self) -> int:
        return min(LOOKS, self.background_looks_max)


@pytest.fixture
def cluster() -> FakeCluster:
    clock = ManualClock(1_000_000)
    return SlowCluster({"in": 1, "out": 1}, clock=clock, background_looks_max=LOOKS)


def begun(cluster: FakeCluster, declare: Any = counted, **config: Any) -> WorkerRig:
    """A worker whose commit of one record has begun."""
    rig = WorkerRig(cluster, declare, **config).start()
    rig.until_running()
    send(cluster, "a")
    rig.turn()
    rig.clock.advance(rig.config.commit_interval_ms)
    rig.steps.clear()
    rig.until(lambda: rig.worker._commits._under_way is not None)
    return rig


def begun_with_more(cluster: FakeCluster) -> WorkerRig:
    """The same, and another record was processed since."""
    rig = begun(cluster)
    send(cluster, "b")
    rig.turn()
    assert not is_over(rig)()
    return rig


def is_over(rig: WorkerRig) -> Callable[[], bool]:
    return lambda: rig.worker._commits._under_way is None


# --- the worker -----------------------------------------------------------------------------------


def test_what_is_processed_during_a_commit_is_in_the_next_transaction(cluster: FakeCluster) -> None:
    rig = begun(cluster)
    send(cluster, "a", "b")
    rig.until(is_over(rig))
    assert outputs(cluster) == [("a", "1")]
    assert cluster.committed_offset("app", "in", 0) == 1
    assert rig.tasks["0_0"].task.consumed[rig.tasks["0_0"].partitions[0]] == 3
    assert rig.store("0_0", "counts").get("b") is not None, "processed, and not committed"
    rig.stop()
    assert outputs(cluster) == [("a", "1"), ("a", "2"), ("b", "1")]
    assert cluster.committed_offset("app", "in", 0) == 3


def test_a_crash_after_the_commit_replays_what_was_processed_during_it(
    cluster: FakeCluster,
) -> None:
    rig = begun(cluster)
    send(cluster, "a", "b")
    rig.until(is_over(rig))
    rig.kill()
    rig.clock.advance(60_000)
    cluster.tick()
    after = WorkerRig(cluster, counted, disk=rig.disk).start().until_running()
    after.stop()
    assert outputs(cluster) == [("a", "1"), ("a", "2"), ("b", "1")]


def test_at_least_once_outputs_do_not_wait_for_a_commit(cluster: FakeCluster) -> None:
    rig = begun(cluster, guarantee="at_least_once")
    send(cluster, "b")
    rig.turn(2)
    assert not is_over(rig)()
    assert outputs(cluster) == [("a", "1"), ("b", "1")]
    assert cluster.records("app-counts-changelog") == []


def test_a_stop_waits_for_the_commit_and_commits_the_rest(cluster: FakeCluster) -> None:
    rig = begun_with_more(cluster)
    rig.stop()
    assert outputs(cluster) == [("a", "1"), ("b", "1")]
    assert rig.steps.count("commit") == 2


def test_a_handover_waits_for_the_commit(cluster: FakeCluster) -> None:
    rig = begun_with_more(cluster)
    cluster.group("app").rebalance()
    rig.until(lambda: not rig.tasks or is_over(rig)())
    rig.until_running()
    rig.stop()
    assert outputs(cluster) == [("a", "1"), ("b", "1")]


def test_more_outputs_than_memory_should_hold_are_waited_with(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("logstate.worker.commits._DEFERRED_RECORDS_MAX", 2)
    rig = begun(cluster)
    send(cluster, "b", "c")
    rig.turn(2)
    assert is_over(rig)()


def test_who_does_not_keep_up_waits_for_its_commit(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("logstate.worker.processing._BACKLOG_RECORDS", 2)
    rig = begun(cluster)
    send(cluster, "b", "c")
    rig.turn()
    assert is_over(rig)()


@pytest.mark.parametrize(("takes_ms", "next_ms"), [(0, 100), (40, 100), (80, 130), (500, 550)])
def test_the_interval_goes_on_beside_a_commit_and_half_of_it_is_a_pause(
    cluster: FakeCluster, takes_ms: int, next_ms: int
) -> None:
    """So outputs come at the interval, and not a commit later."""
    rig = begun(cluster)
    assert from_begin_to_begin(rig, lambda: rig.clock.advance(takes_ms)) == next_ms


def test_a_commit_that_is_waited_for_is_followed_by_a_whole_interval(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else who does not keep up would commit more, and process less."""
    monkeypatch.setattr("logstate.worker.processing._BACKLOG_RECORDS", 2)
    rig = begun(cluster)

    def slow(step: Step) -> None:
        if step.name == "commit":
            rig.clock.advance(40)

    def wait() -> None:
        rig.before = slow
        send(cluster, "b", "c")

    assert from_begin_to_begin(rig, wait) == 140


def from_begin_to_begin(rig: WorkerRig, meanwhile: Callable[[], object]) -> float:
    """Milliseconds between the commit that is under way and the next one."""
    began_ms = rig.worker._commits._began_ms
    meanwhile()
    rig.until(is_over(rig))
    send(rig.cluster, "d")
    rig.turn()
    assert is_over(rig)()
    while is_over(rig)() and rig.worker._commits._began_ms == began_ms:
        rig.clock.advance(1)
        rig.turn()
    return rig.worker._commits._began_ms - began_ms


def test_a_record_that_fails_during_a_commit_ends_the_worker_and_nothing_is_lost(
    cluster: FakeCluster,
) -> None:
    def declare(builder: StreamsBuilder) -> None:
        def refuse(value: str) -> str:
            if value == "bad" and is_poisonous:
                raise ValueError(value)
            return value

        values = builder.stream("in", key=str, value=str).map_values(refuse, value=str)
        values.group_by_key().count(store="counts").to_stream().to("out", value=int)

    is_poisonous = True
    rig = begun(cluster, declare)
    send(cluster, "bad")
    with pytest.raises(ProcessingError):
        rig.turn(10)
    assert "abort" in rig.steps or "commit" in rig.steps
    is_poisonous = False
    after = WorkerRig(cluster, declare, disk=rig.disk).start().until_running()
    after.stop()
    assert [key for key, _ in outputs(cluster)] == ["a", "bad"]


def test_a_commit_that_fails_takes_what_came_after_it_along(cluster: FakeCluster) -> None:
    rig = begun(cluster)
    failures = [AbortableError("no")]

    def refuse(step: Step) -> None:
        if step.name == "send_offsets" and failures:
            raise failures.pop()

    rig.before = refuse
    send(cluster, "a", "b")
    rig.until(lambda: not failures)
    assert outputs(cluster) == []
    rig.until_running()
    rig.stop()
    assert outputs(cluster) == [("a", "1"), ("a", "2"), ("b", "1")]


# --- the commit alone -----------------------------------------------------------------------------


class Calls:
    """A commit of four steps, and which of their calls were made."""

    def __init__(self, *, failing: str = "") -> None:
        self.made: list[str] = []
        self._failing = failing

    def steps(self) -> Steps[CommitReport]:
        yield Step("produce", self._make, ("produce",))
        yield PAUSE
        yield Step("flush", self._make, ("flush",), awaits_brokers=True)
        yield Step("commit", self._make, ("commit",), awaits_brokers=True)
        return REPORT

    def _make(self, name: str) -> None:
        self.made.append(name)
        if name == self._failing:
            raise AbortableError(name)


def under_way(cluster: FakeCluster, calls: Calls) -> InFlightCommit:
    return InFlightCommit(calls.steps(), FakeBackground(cluster))


def test_it_goes_on_as_far_as_nothing_has_to_be_waited_for(cluster: FakeCluster) -> None:
    calls = Calls()
    commit = under_way(cluster, calls)
    made_at_each_look = []
    while run_steps(commit.advance(waits=False)) is None:
        made_at_each_look.append(tuple(calls.made))
    until_flushed, until_committed = ("produce",), ("produce", "flush")
    # The pause gives a turn of its own; each answer is looked for in vain LOOKS times.
    assert made_at_each_look == [until_flushed] * (1 + LOOKS) + [until_committed] * LOOKS


def test_it_can_be_waited_for_at_any_time(cluster: FakeCluster) -> None:
    for looks in range(8):
        calls = Calls()
        commit = under_way(cluster, calls)
        for _ in range(looks):
            if run_steps(commit.advance(waits=False)) is not None:
                break
        else:
            assert run_steps(commit.advance(waits=True)) == REPORT
        assert calls.made == ["produce", "flush", "commit"]


def test_given_up_it_leaves_no_call_running_and_begins_none(cluster: FakeCluster) -> None:
    calls = Calls()
    commit = under_way(cluster, calls)
    run_steps(commit.advance(waits=False))
    run_steps(commit.advance(waits=False))
    run_steps(commit.abandon())
    assert calls.made == ["produce", "flush"], "the flush had begun"


@pytest.mark.parametrize("waits", [True, False])
def test_what_a_call_raises_ends_it(cluster: FakeCluster, *, waits: bool) -> None:
    calls = Calls(failing="flush")
    commit = under_way(cluster, calls)

    def to_its_end() -> None:
        while run_steps(commit.advance(waits=waits)) is None:
            pass

    with pytest.raises(AbortableError, match="flush"):
        to_its_end()
    assert calls.made == ["produce", "flush"]


def test_giving_up_what_fails_anyway_is_quiet(cluster: FakeCluster) -> None:
    commit = under_way(cluster, Calls(failing="flush"))
    run_steps(commit.advance(waits=False))
    run_steps(commit.advance(waits=False))
    run_steps(commit.abandon())
