"""Find where committed results differ from the uninterrupted run, and the operator to blame."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import zip_longest
from typing import Any, NamedTuple

from logstate.contracts.records import TaskId, TopicPartition
from logstate.testing.simulation.simulated_application import SimulatedApplication
from logstate.testing.simulation.traced_task import EmittedRecord, TracedStep, sub_topology_of
from logstate.testing.simulation.uninterrupted import (
    Uninterrupted,
    committed_entries,
    stored_rows,
    uninterrupted,
)
from logstate.topology.plan.plan import Topology

_UPSTREAM = frozenset({"inputs", "upstream"})
_NOTHING = EmittedRecord("", "nothing")


class Difference(NamedTuple):
    """One broken promise, in words."""

    what: str
    #: the operator, where one is known, and where it was declared
    operator: str | None = None
    declared_at: str | None = None
    #: what it did otherwise, and with which record
    how: str = ""


def difference(schedule: SimulatedApplication) -> Difference | None:
    """The first of them; None where everything is as without interruptions."""
    commits = schedule.cluster.group(schedule.application_id).offsets.history
    expected: dict[TaskId, Uninterrupted] = {}
    for task_id in schedule.plan().task_ids():
        segments = schedule.history.committed(task_id, commits)
        wanted = expected[task_id] = uninterrupted(schedule, task_id, segments)
        steps = [step for segment in segments for step in segment.steps]
        what = _rows_differ(schedule, task_id, wanted)
        if what is not None:
            return _with_first_operator(schedule.topology, what, task_id, steps, wanted.steps)
    what = _outputs_differ(schedule, expected)
    if what is None:
        return None
    for task_id, wanted in expected.items():
        segments = schedule.history.committed(task_id, commits)
        steps = [step for segment in segments for step in segment.steps]
        found = _with_first_operator(schedule.topology, what, task_id, steps, wanted.steps)
        if found.operator is not None:
            return found
    return Difference(what)


def _rows_differ(
    schedule: SimulatedApplication, task_id: TaskId, wanted: Uninterrupted
) -> str | None:
    for store, found in stored_rows(schedule, task_id).items():
        schedule.counters["rows_compared"] += len(found)
        for key in sorted({*found, *wanted.rows[store]}):
            if found.get(key) != wanted.rows[store].get(key):
                return (
                    f"store {store!r} of task {task_id}, row {key!r}:"
                    f" {_or_nothing(found.get(key))} was committed,"
                    f" {_or_nothing(wanted.rows[store].get(key))} without interruptions"
                )
    return None


def _outputs_differ(
    schedule: SimulatedApplication, expected: dict[TaskId, Uninterrupted]
) -> str | None:
    """By topic and key; in order where one task wrote them all into one partition."""
    wanted, found = defaultdict(list), defaultdict(list)
    writers, partitions = defaultdict(set), defaultdict(set)
    for task_id, one in expected.items():
        for record in one.outputs:
            where = (record.topic, record.key)
            wanted[where].append((record.value, max(1, record.timestamp or 0)))
            writers[where].add(task_id)
    for topic in sorted(schedule.simulated.output_topics() | {topic for topic, _ in wanted}):
        topic_of = schedule.cluster.topics.get(topic)
        for partition in range(0 if topic_of is None else len(topic_of.partitions)):
            for entry in committed_entries(schedule, TopicPartition(topic, partition)):
                if entry.writer not in _UPSTREAM and entry.record is not None:
                    where = (topic, entry.record.key())
                    value = entry.record.value()
                    found[where].append((value, max(1, entry.record.timestamp()[1])))
                    partitions[where].add(partition)
    for where in sorted({*wanted, *found}, key=repr):
        schedule.counters["outputs_compared"] += len(found[where])
        is_ordered = len(writers[where]) == 1 and len(partitions[where]) == 1
        text = _lists_differ(found[where], wanted[where], is_ordered=is_ordered)
        if text is not None:
            return f"topic {where[0]!r}, key {where[1]!r}: {text}"
    return None


def _lists_differ(found: list[Any], wanted: list[Any], *, is_ordered: bool) -> str | None:
    if not is_ordered:
        found, wanted = sorted(found, key=repr), sorted(wanted, key=repr)
    if found == wanted:
        return None
    pairs = zip_longest(found, wanted)
    number, (one, other) = next((i, pair) for i, pair in enumerate(pairs) if pair[0] != pair[1])
    return (
        f"{len(found)} records were committed, {len(wanted)} are right; number {number} is"
        f" {_or_nothing(one)}, without interruptions {_or_nothing(other)}"
    )


def _step_text(step: TracedStep) -> str:
    return f"{step.partition}@{step.offset}"


def _or_nothing(one: object) -> str:
    return "nothing" if one is None else repr(one)


def _with_first_operator(
    topology: Topology,
    what: str,
    task_id: TaskId,
    found: Iterable[TracedStep],
    wanted: Iterable[TracedStep],
) -> Difference:
    """With the operator that first handed on or stored something else: those above it did not."""
    for one, other in zip(found, wanted, strict=False):
        if one.emitted == other.emitted:
            continue
        pairs = zip_longest(one.emitted, other.emitted, fillvalue=_NOTHING)
        did, should = next(pair for pair in pairs if pair[0] != pair[1])
        name = did.node or should.node
        nodes = {node.name: node for node in sub_topology_of(topology, task_id).nodes}
        of = "called by the clock" if one.partition is None else f"of record {_step_text(one)}"
        how = f"{of} it made {did.text}, and {should.text} without interruptions"
        return Difference(what, name, nodes[name].declared_at, how)
    return Difference(what)
