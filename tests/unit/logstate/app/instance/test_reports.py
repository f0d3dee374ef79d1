"""What follows for the instance from what its workers tell: who answers, health, ages."""

from __future__ import annotations

from typing import Any

import pytest

from logstate.app.instance.health import Health
from logstate.app.instance.reports import (
    SILENCE_MS,
    TaskReport,
    WorkerReport,
    WorkerStatus,
    copier_of,
    joint_liveness,
    joint_readiness,
    owner_of,
    standbys_of,
    task_count,
    tasks_of,
)
from logstate.app.instance.states import Facts
from logstate.worker.task_lag import TaskLag

OK = Health(True, "fine")


def told(at_ms: float = 0.0, **changes: Any) -> WorkerStatus:
    """A worker with tasks as ``"0_1": (stage, is readable, age)``."""
    tasks = {
        task: TaskReport(TaskLag(stage, None, 0), is_readable, age)
        for task, (stage, is_readable, age) in changes.pop("tasks", {}).items()
    }
    defaults: dict[str, Any] = {
        "facts": Facts(is_started=True, is_settled=True),
        "is_assigned": True,
        "transactional_id": "app-1",
        "ready": OK,
        "live": OK,
        "tasks": tasks,
    }
    return WorkerStatus(at_ms, WorkerReport(**(defaults | changes)))


RUNS, RESTORES = ("running", True, 5.0), ("restoring", False, 0.0)
RAN = ("assigned", True, 900.0)


# --- who answers ----------------------------------------------------------------------------------


def test_the_worker_that_has_a_task_is_asked() -> None:
    both = {0: told(tasks={"0_0": RUNS}), 1: told(tasks={"0_1": RUNS})}
    assert [owner_of(both, task) for task in ("0_0", "0_1", "0_2")] == [0, 1, None]


@pytest.mark.parametrize(
    ("first", "second", "owner"),
    [
        ((9.0, RUNS), (1.0, RESTORES), 0),
        ((1.0, RUNS), (9.0, RESTORES), 0),
        ((9.0, RESTORES), (1.0, RAN), 1),
        ((1.0, RUNS), (9.0, RUNS), 1),
        ((9.0, RUNS), (1.0, RUNS), 0),
    ],
)
def test_of_two_that_tell_of_a_task_it_is_who_runs_it_then_who_can_be_read_then_the_last(
    first: Any, second: Any, owner: int
) -> None:
    both = {n: told(at_ms, tasks={"0_0": task}) for n, (at_ms, task) in enumerate([first, second])}
    assert owner_of(both, "0_0") == owner
    assert tasks_of(both)["0_0"] is both[owner].report.tasks["0_0"]


def test_partition_counts_are_known_from_the_first_that_tells_them() -> None:
    workers = [told(), told(task_counts={0: 4})]
    assert task_count(workers, 0) == 4
    assert task_count(workers, 1) is None


# --- health ---------------------------------------------------------------------------------------


def ready(
    workers: dict[int, WorkerStatus],
    waiting: dict[int, str] | None = None,
    *,
    was_ready: bool = False,
) -> Health:
    return joint_readiness(workers, range(2), waiting or {}, was_ready=was_ready)


def test_it_is_ready_once_every_worker_is() -> None:
    both = {0: told(tasks={"0_0": RUNS}), 1: told(tasks={"0_1": RUNS})}
    assert ready(both) == Health(True, "2 tasks can be read, of 2 workers")


@pytest.mark.parametrize(
    ("workers", "waiting", "reason"),
    [
        ({0: told()}, {}, "worker 1 has not started"),
        (
            {0: told()},
            {1: "was killed by SIGKILL"},
            "was killed by SIGKILL, and is being restarted",
        ),
        ({0: told(), 1: told(ready=Health(False, "tasks wait"))}, {}, "worker 1: tasks wait"),
    ],
)
def test_it_is_not_while_one_is_not_and_says_which(
    workers: dict[int, WorkerStatus], waiting: dict[int, str], reason: str
) -> None:
    found = ready(workers, waiting)
    assert not found
    assert reason in found.reason
    later = ready(workers, waiting, was_ready=True)
    assert later, "the other worker answers"
    assert later.reason.startswith("1 of 2 workers answer; ")
    assert reason in later.reason
    assert not ready({}, was_ready=True)


def test_answers_grow_older_after_they_were_told() -> None:
    told_now = TaskReport(TaskLag("running", None, 0), True, 5.0, {}, 3.0, 7)
    later = told_now.later(100.0)
    assert (later.age_ms, later.silence_ms, later.rows_lag) == (105.0, 103.0, 7)


@pytest.mark.parametrize("at_ms", [1.0, 9.0])
def test_the_age_of_a_task_is_what_its_owner_tells_of_it(at_ms: float) -> None:
    """The report of the worker that had it before is older, whenever it came."""
    both = {0: told(5.0, tasks={"0_0": RUNS}), 1: told(at_ms, tasks={"0_0": RAN})}
    assert tasks_of(both)["0_0"] is both[0].report.tasks["0_0"]
    assert tasks_of(dict(reversed(both.items())))["0_0"] is both[0].report.tasks["0_0"]


@pytest.mark.parametrize("numbers", [(0, 1), (1, 0)])
def test_of_two_copies_of_a_task_the_one_that_can_be_read_counts(numbers: tuple[int, int]) -> None:
    begins, has_it = numbers
    both = {begins: told(9.0, standbys={"0_0": None}), has_it: told(standbys={"0_0": 3})}
    assert copier_of(both, "0_0") == has_it
    assert standbys_of(both) == {"0_0": 3}
    assert standbys_of({begins: both[begins]}) == {"0_0": None}


def test_it_is_live_while_every_worker_is_and_says_something() -> None:
    both = {0: told(0.0), 1: told(0.0)}
    assert joint_liveness(both, SILENCE_MS)
    assert joint_liveness({}, SILENCE_MS), "those that died are started again"
    silent = joint_liveness(both, SILENCE_MS + 1_000)
    assert silent == Health(False, "worker 0 has not reported for 31 s")
    hanging = {0: told(0.0), 1: told(0.0, live=Health(False, "a call hangs"))}
    assert joint_liveness(hanging, 0.0) == Health(False, "worker 1: a call hangs")


def test_figures_that_always_change_are_not_told_at_once() -> None:
    one, two = told(tasks={"0_0": RUNS}), told(tasks={"0_0": ("running", True, 77.0)})
    assert one.report.without_figures() == two.report.without_figures()
    other = told(tasks={"0_0": ("assigned", True, 5.0)})
    assert one.report.without_figures() != other.report.without_figures()
