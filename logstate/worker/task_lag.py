"""How far a task is behind the ends of its logs."""

from __future__ import annotations

from dataclasses import dataclass

from logstate.contracts.records import TopicPartition
from logstate.task.owned_task import OwnedTask, Stage, StoreTarget


@dataclass(frozen=True)
class TaskLag:
    """Distance between a task and the last known ends of its logs."""

    #: ``assigned``, ``restoring``, ``starting`` or ``running``
    stage: str
    #: offsets between the positions in its inputs and their ends; None: no end is known yet
    input_records: int | None
    #: offsets of changelogs that are still to be replayed
    restore_records: int


def lag_of(owned: OwnedTask) -> TaskLag:
    """Return the lag of a task. Called from any thread."""
    lags = [lag for tp in owned.partitions if (lag := input_lag(owned, tp)) is not None]
    remaining = sum(restore_lag(owned, target) for target in owned.targets)
    return TaskLag(owned.stage.value, sum(lags) if lags else None, remaining)


def input_lag(owned: OwnedTask, partition: TopicPartition) -> int | None:
    """Return the lag in one input partition; None if its end is unknown."""
    end, task = owned.ends.get(partition), owned.task_or_none
    return None if end is None or task is None else max(0, end - task.position(partition))


def rows_lag_of(owned: OwnedTask) -> int | None:
    """Return how many input records the committed rows lack; None: an end is unknown."""
    if owned.task_or_none is None or owned.stage is not Stage.RUNNING:
        return None
    lags = [
        None if tp not in owned.ends else max(0, owned.ends[tp] - owned.rows_position(tp))
        for tp in owned.partitions
    ]
    known = [lag for lag in lags if lag is not None]
    return sum(known) if len(known) == len(lags) else None


def restore_lag(owned: OwnedTask, target: StoreTarget) -> int:
    """Return the remaining offsets of one store's restore."""
    task = owned.task_or_none
    position = 0 if task is None else task.state.positions.get(target.store, 0)
    return 0 if target.is_done else max(0, target.target - position)
