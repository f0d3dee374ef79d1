"""What ``logstate status`` makes of what the instances say: whether everything runs."""

from __future__ import annotations

import pytest

from logstate.cli.diagnosis.status import _wait_text, all_runs
from logstate.directory.entries import InstanceEntry, TaskEntry
from logstate.directory.instance_info import InstanceInfo, tasks_of


def seen(stages: dict[str, str], *, is_alive: bool = True) -> InstanceInfo:
    tasks = {name: TaskEntry(1, stage, stage == "running") for name, stage in stages.items()}
    counts = {0: 2} if stages else {}
    return InstanceInfo(
        InstanceEntry("a", "http://a", 1, 1, task_counts=counts, tasks=tasks), is_alive
    )


@pytest.mark.parametrize(
    ("instance", "whole"),
    [
        pytest.param(seen({"0_0": "running", "0_1": "running"}), True, id="all of its tasks run"),
        pytest.param(seen({"0_0": "running", "0_1": "restoring"}), False, id="one restores"),
        pytest.param(seen({"0_0": "running"}), False, id="nobody has the other one"),
        pytest.param(
            seen({"0_0": "running", "0_1": "running"}, is_alive=False), False, id="silent"
        ),
        pytest.param(seen({}), False, id="it has just started and has no tasks yet"),
    ],
)
def test_an_application_runs_where_every_task_of_it_does(
    instance: InstanceInfo, whole: bool
) -> None:
    assert all_runs([instance], tasks_of([instance])) is whole


def test_an_application_of_which_nobody_tells_does_not_run() -> None:
    assert not all_runs([], [])


def test_the_remark_on_a_task_names_the_input_that_its_records_wait_for() -> None:
    entry = TaskEntry(1, "running", True, waits_for=("payments-0",), waits_ms=75_000)
    instance = InstanceEntry("a", "http://a", 1, 1, task_counts={0: 1}, tasks={"0_0": entry})
    (task,) = tasks_of([InstanceInfo(instance, is_alive=True)])
    assert _wait_text(task) == "has waited 75 s for payments-0"
    (task,) = tasks_of([seen({"0_0": "running"})])[:1]
    assert _wait_text(task) == ""
