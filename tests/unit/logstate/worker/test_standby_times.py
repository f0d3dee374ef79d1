"""The time that is noted with a copy: the copy has every record that was written before it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from logstate.contracts.clients import run_steps
from logstate.contracts.records import TaskId
from logstate.restore.standbys import Standbys
from logstate.task.owned_task import Stage
from logstate.testing import FakeCluster
from tests.unit.logstate.flows import counted
from tests.unit.logstate.worker.worker_rig import WorkerRig, cluster_of, send

TASKS = (TaskId(0, 0), TaskId(0, 1))
ASK_MS = 1_000


def standbys_of(rig: WorkerRig) -> Standbys:
    started = rig.worker._started
    assert started is not None
    return started.standbys


def records_missing(cluster: FakeCluster, standbys: Standbys) -> list[str]:
    """Records that are older than the time noted with a copy, and that it does not have."""
    return [
        f"{target.changelog}@{entry.offset} of {entry.written_ms}"
        for owned in standbys.tasks.values()
        if owned.stage is Stage.STANDBY and owned.current_ms is not None
        for target in owned.targets
        for entry in cluster.log(target.changelog).history
        if entry.offset >= owned.task.state.positions[target.store]
        and entry.written_ms < owned.task.state.meta.caught_up_at_ms
    ]


def write(first: WorkerRig) -> None:
    for partition in (0, 1):
        send(first.cluster, *"abc", partition=partition)
    first.commit()
    first.turn()


def test_a_copy_opened_while_ends_are_asked_for_is_not_noted_as_newer_than_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = cluster_of({"in": 2, "out": 2})
    first = WorkerRig(cluster, counted, name="a", standby_replicas=1).start()
    first.until_running("0_0", "0_1")
    settings = {"standby_replicas": 1, "standby_interval_ms": ASK_MS, "checkpoint_interval_ms": 100}
    second = WorkerRig(cluster, counted, name="b", **settings).start()
    standbys = standbys_of(second)
    cluster.background_takes_effect_at_once = True

    def turn() -> None:
        first.clock.advance(1)
        run_steps(standbys.turn(0.0, busy=True))
        assert records_missing(cluster, standbys) == []

    write(first)
    standbys.want(TASKS[:1])
    for _ in range(5):
        turn()
    assert standbys.tasks[TASKS[0]].current_ms is not None
    # The end of its log is told to the second copy late, after a question that comes later.
    looks: Iterator[int] = iter([0, 0, 2])
    monkeypatch.setattr(cluster, "background_looks", lambda: next(looks, 0))
    standbys.want(TASKS)
    turn()
    assert TASKS[1] not in standbys.tasks
    write(first)
    first.clock.advance(ASK_MS)
    for _ in range(10):
        turn()
    assert standbys.tasks[TASKS[1]].stage is Stage.STANDBY
    first.clock.advance(ASK_MS)
    for _ in range(5):
        turn()
    assert standbys.tasks[TASKS[1]].current_ms is not None
