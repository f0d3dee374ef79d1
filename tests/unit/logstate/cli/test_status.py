"""What ``logstate status`` makes of what the instances say: whether everything runs."""

from __future__ import annotations

import json

import pytest

from logstate.cli.diagnosis.status import _open_text, _wait_text, all_runs, as_plain_data
from logstate.cli.shared.printing import json_text
from logstate.directory.entries import InstanceEntry, OpenEntry, TaskEntry
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


def test_the_remark_on_a_task_tells_how_much_is_open_and_what_closes_first() -> None:
    rows = {
        "counts": OpenEntry(12, 75_000, 60_000),
        "joined": OpenEntry(988, 61_000, 60_500),
        "quiet": OpenEntry(0, None, 60_000),
    }
    entry = TaskEntry(1, "running", True, open_rows=rows)
    instance = InstanceEntry("a", "http://a", 1, 1, task_counts={0: 1}, tasks={"0_0": entry})
    (task,) = tasks_of([InstanceInfo(instance, is_alive=True)])
    assert _open_text(task) == (
        "1,000 or more open; first closes joined at stream time 1970-01-01T00:01:01.000Z, which is"
        " 1970-01-01T00:01:00.500Z"
    )
    assert _open_text(task._replace(open_rows={"quiet": rows["quiet"]})) == ""


def test_the_status_as_json_has_what_is_open_of_each_task_and_tasks_without_an_owner() -> None:
    entry = TaskEntry(1, "running", True, open_rows={"counts": OpenEntry(1, 9, None)})
    instance = InstanceEntry("a", "http://a", 1, 1, task_counts={0: 2}, tasks={"0_0": entry})
    found = [InstanceInfo(instance, is_alive=True)]
    first, second = json.loads(json_text(as_plain_data(found, tasks_of(found), [])))["tasks"]
    assert first["open_rows"] == {"counts": {"count": 1, "next_ms": 9, "stream_time_ms": None}}
    assert (second["stage"], second["open_rows"], second["partition_times"]) == (None, {}, {})
