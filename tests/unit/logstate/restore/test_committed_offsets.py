"""Committed offsets that are not stable yet are waited for without stopping the tasks that run."""

from __future__ import annotations

from logstate.contracts.clients import Step
from logstate.contracts.clock import ManualClock
from logstate.contracts.errors import RetriableError
from logstate.restore.committed_offsets import LONGEST_S, RequestPace
from logstate.task.owned_task import Stage
from tests.unit.logstate.flows import counted
from tests.unit.logstate.worker.worker_rig import WorkerRig, cluster_of

#: of waiting, in a simulated time
LONG_MS = 60_000


def test_where_nothing_runs_every_question_may_take_its_time() -> None:
    pace = RequestPace(ManualClock())
    for _ in range(3):
        assert pace.timeout_s(blocks_tasks=False) == LONGEST_S
        pace.unanswered()


def test_questions_beside_running_tasks_grow_and_so_do_the_pauses() -> None:
    clock = ManualClock()
    pace = RequestPace(clock)
    asked = []
    for _ in range(6):
        timeout_s = pace.timeout_s(blocks_tasks=True)
        assert timeout_s is not None
        asked.append(timeout_s)
        clock.advance(int(timeout_s * 1000))
        pace.unanswered()
        clock.advance(int(timeout_s * 9_000) - 1)
        assert pace.timeout_s(blocks_tasks=True) is None
        clock.advance(1)
    assert asked == [0.05, 0.1, 0.2, 0.4, 0.5, 0.5]


def test_an_answer_makes_the_next_question_the_first_again() -> None:
    clock = ManualClock()
    pace = RequestPace(clock)
    pace.timeout_s(blocks_tasks=True)
    clock.advance(50)
    pace.unanswered()
    pace.answered()
    assert pace.timeout_s(blocks_tasks=True) == 0.05


def test_a_question_that_failed_at_once_is_repeated_at_once() -> None:
    pace = RequestPace(ManualClock())
    pace.timeout_s(blocks_tasks=True)
    pace.unanswered()
    assert pace.timeout_s(blocks_tasks=True) is not None


def test_running_tasks_have_nine_tenths_of_the_time_while_another_waits_for_its_offsets() -> None:
    cluster = cluster_of({"in": 2, "out": 1})
    one = WorkerRig(cluster, counted, name="one").start()
    two = WorkerRig(cluster, counted, name="two").start()
    for _ in range(50):
        one.turn()
        two.turn()
    assert len(one.stages) == len(two.stages) == 1
    spent_ms = 0

    def takes_time(step: Step) -> None:
        nonlocal spent_ms
        if step.name == "committed":
            timeout_ms = int(step.arguments[1] * 1000)
            one.clock.advance(timeout_ms)
            spent_ms += timeout_ms
            raise RetriableError("the offsets are not stable")

    one.before = takes_time
    two.stop()
    started_ms = one.clock.monotonic_ms()
    while one.clock.monotonic_ms() - started_ms < LONG_MS:
        one.turn()
        one.clock.advance(5)
    assert sorted(one.stages.values(), key=str) == [Stage.ASSIGNED, Stage.RUNNING]
    assert 0.02 * LONG_MS < spent_ms <= 0.11 * LONG_MS

    one.before = lambda step: None
    one.clock.advance(5_000)
    one.until_running("0_0", "0_1")
