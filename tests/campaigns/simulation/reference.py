"""What an uninterrupted, sequential run computes: the same operators, one record after the other.

The order in which a task took records from its input topics comes from the trace store (see
:mod:`tests.campaigns.simulation.flow`); everything else follows. Results are kept, because many
schedules share inputs and order.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from logstate.changelog.rows.row_codec import decode_headers
from logstate.changelog.rows.suppress_values import buffer_time_of, decode_update, encode_update
from logstate.changelog.state import TaskState
from logstate.contracts.clients import TopicDescription, run_steps
from logstate.contracts.clock import ManualClock
from logstate.contracts.records import ProducedRecord, TaskId, TopicPartition
from logstate.contracts.stores import StoreSpec
from logstate.queries.global_stores import GlobalStores
from logstate.serdes.scalars import bytes_
from logstate.task.task import Task
from logstate.testing import FakeCluster
from logstate.testing.fake.fetched import StoredRecord
from logstate.testing.simulation.clock import take_apart
from logstate.testing.simulation.stored_rows import comparable, rows_of
from logstate.topics.bound_plan import bind
from logstate.topology.graph.sub_topology import SubTopology
from logstate.topology.operators.streams.waiting_record import WaitingRecordSerde
from tests.campaigns.simulation import flow
from tests.campaigns.simulation.ordered_orders import WAITING

_KEPT_MAX = 4_000
_TOPICS = (flow.ORDERS, flow.PRICES, flow.REPARTITION)


class Step(NamedTuple):
    """One record consumed by a task."""

    topic: str
    #: of the record within what its topic holds for the task
    number: int
    key: bytes | None
    value: bytes | None
    timestamp: int


class Output(NamedTuple):
    """One record as it stands in a log."""

    key: bytes | None
    value: bytes | None
    timestamp: int


@dataclass(frozen=True)
class Expected:
    """What one task must have produced and kept after its steps."""

    #: topic -> records, in order
    outputs: Mapping[str, tuple[Output, ...]]
    #: topic -> number of its records after each number of steps
    counts: Mapping[str, tuple[int, ...]]
    #: store -> rows
    rows: Mapping[str, Mapping[bytes, bytes]]
    clocks: Mapping[str, int]


class Reference:
    """Expected results by task and order of consumption."""

    def __init__(self) -> None:
        self._kept: OrderedDict[object, Expected] = OrderedDict()

    def expected(
        self,
        variant: str,
        task_id: TaskId,
        partitions: int,
        steps: Sequence[Step],
    ) -> Expected:
        """What the task computes from these records, in this order."""
        key = (variant, task_id, partitions, tuple(steps))
        found = self._kept.get(key)
        if found is None:
            found = self._kept[key] = _compute(variant, task_id, partitions, steps)
            if len(self._kept) > _KEPT_MAX:
                self._kept.popitem(last=False)
        return found


def new_task(
    sub_topology: SubTopology, task_id: TaskId, partitions: int, *, computes: bool = True
) -> Task:
    """A task on its own, with its state in memory; stores only unless it ``computes``."""
    topics = [
        f"{flow.APPLICATION}-{ref.name}" if ref.is_internal else ref.name
        for ref in sub_topology.source_topics
    ]
    return Task(
        task_id,
        [sub_topology] if computes else [],
        [TopicPartition(topic, task_id.partition) for topic in topics],
        application_id=flow.APPLICATION,
        clock=ManualClock(0),
        open_state=lambda task: TaskState(sub_topology.stores, task, publishes_views=False),
        global_stores=names() if computes else None,
        partition_counts=dict.fromkeys((*_TOPICS, *flow.OUTPUTS), partitions),
        max_idle_ms=None,
    )


@cache
def names() -> dict[str, Any]:
    """The global stores, whose rows are the same everywhere and always."""
    cluster = FakeCluster({flow.NAMES: 1, flow.ORDERS: 1, flow.PRICES: 1}, clock=ManualClock(0))
    flow.write_names(cluster)
    existing = {topic: TopicDescription("id", 1) for topic in (*_TOPICS, flow.NAMES)}
    plan = bind(flow.topology("sources", in_memory=False), flow.APPLICATION, existing)
    stores = GlobalStores(plan.application_id, plan.global_inputs(), cluster, ManualClock(0))
    run_steps(stores.bootstrap(cluster.admin()))
    return stores.stores


def numbered(
    spec: StoreSpec, rows: Mapping[bytes, bytes], numbers: Mapping[tuple[str, int], int]
) -> Mapping[bytes, bytes]:
    """Rows with the number of a record, as in :class:`Step`, where they hold its offset."""
    if spec.name in flow.TRACES:
        return {
            key: value if b":" not in value else _numbered_coordinates(value, numbers)
            for key, value in rows.items()
        }
    if spec.kind == "suppress_buffer":
        return {
            key: value if key == b"v" else _numbered_update(value, numbers)
            for key, value in rows.items()
        }
    if spec.name == WAITING:
        return {key: _numbered_place(value, numbers) for key, value in rows.items()}
    if spec.kind == "join_buffer":
        return {key: _numbered_update(value, numbers) for key, value in rows.items()}
    return rows


def _numbered_coordinates(value: bytes, numbers: Mapping[tuple[str, int], int]) -> bytes:
    topic, _, offset = value.decode().rpartition(":")
    return f"{topic}:{numbers[topic, int(offset)]}".encode()


def _numbered_place(row: bytes, numbers: Mapping[tuple[str, int], int]) -> bytes:
    """A row of records that wait to be sorted; its times and headers are before the value."""
    at = decode_headers(row, 8)[1]
    found = WaitingRecordSerde(bytes_).deserializer("", False)(row[at:])
    assert found.topic is not None, "no schedule of the flow forwards"
    found = found._replace(offset=numbers[found.topic, found.offset])
    return row[:at] + WaitingRecordSerde(bytes_).serializer("", False)(found)


def _numbered_update(value: bytes, numbers: Mapping[tuple[str, int], int]) -> bytes:
    update = decode_update(value)
    assert update.topic is not None, "no schedule of the flow forwards"
    numbered_update = update._replace(offset=numbers[update.topic, update.offset])
    return encode_update(numbered_update, buffer_time_of(value))


def comparable_clocks(clocks: Mapping[str, int]) -> dict[str, int]:
    """Clocks of event time; when an operator looked last is wall-clock time."""
    return {
        name: time for name, time in clocks.items() if time >= 0 and not name.endswith("-next-look")
    }


def _compute(variant: str, task_id: TaskId, partitions: int, steps: Sequence[Step]) -> Expected:
    topology = flow.topology(variant, in_memory=False)
    sub_topology = next(s for s in topology.sub_topologies if s.id == task_id.sub_topology)
    task = new_task(sub_topology, task_id, partitions)
    task.set_clocks({}, {})
    outputs: dict[str, list[Output]] = {}
    counts: dict[str, list[int]] = {topic: [0] for topic in flow.OUTPUTS}
    for step in steps:
        record = StoredRecord(
            step.topic, task_id.partition, step.number, step.key, step.value, step.timestamp
        )
        task.add_records(TopicPartition(step.topic, task_id.partition), [record])
        assert task.process(1) == 1
        for produced in map(ProducedRecord._make, task.outputs):
            outputs.setdefault(produced.topic, []).append(_logged(produced, partitions, task_id))
        task.outputs.clear()
        for topic, sofar in counts.items():
            sofar.append(len(outputs.get(topic, ())))
    commit = task.freeze()
    expected = Expected(
        {topic: tuple(records) for topic, records in outputs.items()},
        {topic: tuple(sofar) for topic, sofar in counts.items()},
        {
            name: comparable(task.state.specs[name], rows)
            for name, rows in rows_of(task.state).items()
        },
        comparable_clocks(commit.changes.clocks),
    )
    task.close()
    take_apart(task)
    return expected


def _logged(record: ProducedRecord, partitions: int, task_id: TaskId) -> Output:
    """The record as its log holds it; event time 0 cannot travel as 0."""
    is_internal = record.topic == flow.REPARTITION
    timestamp = record.timestamp or (-1 if is_internal else 1)
    if not is_internal:
        where = record.partition
        if where is None:
            assert record.key is not None
            where = flow.partition_of(record.key, partitions)
        assert where == task_id.partition, "an output partition has two writers"
    return Output(record.key, record.value, timestamp)
