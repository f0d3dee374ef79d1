"""Compute the results of one task from the records that it read, in that order, without faults.

Which of several inputs a task reads first depends on timing and is not an error, so the committed
order is used. All results follow from it, unless the functions are not deterministic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from logstate.changelog.state import TaskState
from logstate.contracts.clients import run_steps
from logstate.contracts.clock import ManualClock
from logstate.contracts.records import FetchedRecord, ProducedRecord, TaskId, TopicPartition
from logstate.queries.global_stores import GlobalStores
from logstate.restore.restore import logged_fields
from logstate.task.task import Task
from logstate.testing.fake.partition_log import LogEntry
from logstate.testing.simulation.schedule import START_MS
from logstate.testing.simulation.simulated_application import SimulatedApplication
from logstate.testing.simulation.stored_rows import comparable, rows_of
from logstate.testing.simulation.traced_task import (
    History,
    Segment,
    TracedStep,
    TracedTask,
    sub_topology_of,
)

Rows = Mapping[str, Mapping[bytes, bytes]]


class Uninterrupted(NamedTuple):
    """What one task must have done."""

    outputs: list[ProducedRecord]
    rows: Rows
    steps: list[TracedStep]


def committed_entries(schedule: SimulatedApplication, partition: TopicPartition) -> list[LogEntry]:
    """Every record of a partition that counts, in order."""
    log = schedule.cluster.log_or_none(partition)
    return [
        entry
        for entry in ([] if log is None else log.history)
        if entry.record is not None
        and (entry.transaction is None or entry.transaction.is_committed)
    ]


def uninterrupted(
    schedule: SimulatedApplication, task_id: TaskId, segments: Sequence[Segment]
) -> Uninterrupted:
    """Run the committed records of a task again, with the clock and the commits that it had.

    Wall-clock schedules are called at the same times, and idle inputs end windows at the same
    times: the time is not an error either.
    """
    clock = ManualClock(segments[0].began_ms if segments else START_MS)
    history = History()
    task = _new_task(schedule, task_id, clock, history)
    task.set_clocks({}, {})
    waiting = {tp: _records(schedule, tp) for tp in task.queues}
    outputs: list[ProducedRecord] = []
    for segment in segments:
        for step in segment.steps:
            _set(clock, step.time_ms)
            if step.idle is not None:
                task.tick(step.idle)
            elif step.partition is None:
                task.punctuate("wall_clock")
            else:
                _feed(task, waiting, step.partition, step.offset + 1)
        for tp, end in segment.offsets.items():
            _feed(task, waiting, tp, end)
        _set(clock, segment.ended_ms)
        commit = task.freeze()
        outputs += map(ProducedRecord._make, commit.outputs)
        task.committed(commit, {})
        task.state.apply()
    specs = task.state.specs
    rows = {name: comparable(specs[name], rows) for name, rows in rows_of(task.state).items()}
    task.close()
    steps = [step for segment in history.segments[task_id] for step in segment.steps]
    return Uninterrupted(outputs, rows, steps)


def _set(clock: ManualClock, time_ms: int) -> None:
    """Let a clock show a time, which is an earlier one where it was set back."""
    clock.advance(max(0, time_ms - clock.wall_clock_ms()))
    clock.jump_wall_clock(time_ms)


def stored_rows(schedule: SimulatedApplication, task_id: TaskId) -> Rows:
    """What the changelogs of a task hold; stores without one are left out."""
    plan = schedule.plan()
    stores = sub_topology_of(schedule.topology, task_id).stores
    clock = ManualClock(START_MS)
    task = _new_task(schedule, task_id, clock, History(), computes=False)
    for partition, spec in plan.changelogs(task_id).items():
        task.state.restore(spec.name, logged_fields(spec, _records(schedule, partition)), 0)
    found = rows_of(task.state)
    task.close()
    return {spec.name: comparable(spec, found[spec.name]) for spec in stores if spec.is_logged}


def _records(schedule: SimulatedApplication, partition: TopicPartition) -> list[FetchedRecord]:
    entries = committed_entries(schedule, partition)
    return [entry.record for entry in entries if entry.record is not None]


def _feed(
    task: Task,
    waiting: Mapping[TopicPartition, list[FetchedRecord]],
    partition: TopicPartition,
    end: int,
) -> None:
    """Read one partition up to an offset; skipped records count with the next one."""
    records = waiting[partition]
    while records and (records[0].offset() or 0) < end:
        task.add_records(partition, [records.pop(0)])
    while task.process(1_000):
        pass


def _new_task(
    schedule: SimulatedApplication,
    task_id: TaskId,
    clock: ManualClock,
    history: History,
    *,
    computes: bool = True,
) -> Task:
    plan = schedule.plan()
    sub_topology = plan.sub_topology(task_id)
    logs_every_write = schedule.swarm.changelog_writes == "update"
    globals_ = GlobalStores(
        plan.application_id,
        plan.global_inputs(),
        schedule.cluster,
        clock,
        error_handlers=schedule.simulated.error_handlers,
    )
    if computes and schedule.topology.global_sub_topologies:
        run_steps(globals_.bootstrap(schedule.cluster.admin()))
    return TracedTask(
        history,
        task_id,
        [sub_topology] if computes else [],
        plan.input_partitions(task_id),
        application_id=plan.application_id,
        clock=clock,
        open_state=lambda task: TaskState(
            sub_topology.stores, task, publishes_views=False, logs_every_write=logs_every_write
        ),
        global_stores=globals_.stores if computes else None,
        partition_counts=plan.partition_counts,
        error_handlers=schedule.simulated.error_handlers,
        max_idle_ms=None,
    )
