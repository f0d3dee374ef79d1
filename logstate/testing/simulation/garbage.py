"""Freeing what a schedule leaves behind at once: finding cycles takes as long as making them."""

from __future__ import annotations

from logstate.task.task import Task
from logstate.testing.fake.cluster import FakeCluster
from logstate.worker.worker import Worker


def take_apart(task: Task) -> None:
    """Cut the cycles of a dead task; it is of no use any more, not even for an error message."""
    for store in task.state.stores.values():
        vars(store).clear()
    for rows in task.state._rows.values():
        rows._mirrors.clear()
    vars(task.state).clear()
    vars(task.guard).clear()
    vars(task).clear()


def take_worker_apart(worker: Worker) -> None:
    """The same for a worker whose steps are dropped: nothing of it runs again."""
    if worker._begun_commits is not None:
        vars(worker._begun_commits).clear()
    vars(worker).clear()


def take_cluster_apart(cluster: FakeCluster) -> None:
    """The same for a cluster that was examined."""
    cluster.groups.clear()
    vars(cluster).clear()
