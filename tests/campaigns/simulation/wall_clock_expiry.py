"""Stores whose rows expire by the wall clock, under the faults of any schedule, jumps included.

When a record was processed depends on timing, and with it which rows it found. The tasks note the
wall clock of each record and of each commit. From these times a model without commits, changelogs
and indexes computes what each record must have found, and which rows are left.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from functools import cache, partial
from typing import ClassVar, cast

from logstate.contracts.records import Record, TaskId, TopicPartition
from logstate.testing.simulation.simulated_application import Simulated, SimulatedApplication
from logstate.testing.simulation.swarm import Swarm
from logstate.testing.simulation.traced_task import History, TracedTask
from logstate.testing.simulation.uninterrupted import committed_entries, stored_rows
from logstate.topics.bound_plan import BoundPlan
from logstate.topology import (
    Processor,
    StreamsBuilder,
    Topology,
    counter_store,
    key_value_store,
    map_store,
    set_store,
)
from tests.campaigns.simulation import flow
from tests.campaigns.simulation.oracles import same
from tests.campaigns.simulation.orders_schedule import OrdersSchedule, by_key

_TTL_MS = {"last": 40, "used": 40, "numbers": 80, "values": 40, "places": 20}
_TTL = {name: timedelta(milliseconds=ttl_ms) for name, ttl_ms in _TTL_MS.items()}


class Find(Processor[str, str, str, str]):
    """Keeps the last order of a key and more about it, and forwards what it found of them."""

    def process(self, record: Record[str, str]) -> None:
        store, key, value = self.context.store, record.key, record.value
        found = [
            store("last").get(key),
            store("used").get(key) or store("used").put_if_absent(key, value),
            store("numbers").add(key),
            store("values").add(key, value[-1:]),
            len([*store("values").values(key)]),
            [*store("places").items(key)],
            store("places").get(key, 3),
        ]
        store("last").put(key, None if value.endswith("3") else value)
        store("places").put(key, int(value[-1:]), value)
        self.context.forward(record.with_value(repr(found)))


@cache
def topology(*, in_memory: bool) -> Topology:
    """One processor with a store of each kind."""
    builder = StreamsBuilder(in_memory_stores=in_memory)

    def options(name: str) -> dict[str, object]:
        return {"ttl": _TTL[name], "ttl_by": "wall_clock", "in_memory": in_memory}

    stores = (
        key_value_store("last", str, str, **options("last")),  # type: ignore[arg-type]
        key_value_store("used", str, str, renew_on_read=True, **options("used")),  # type: ignore[arg-type]
        counter_store("numbers", str, **options("numbers")),  # type: ignore[arg-type]
        set_store("values", str, str, **options("values")),  # type: ignore[arg-type]
        map_store("places", str, int, str, renew_on_read=True, **options("places")),  # type: ignore[arg-type]
    )
    orders = builder.stream(flow.ORDERS, key=str, value=str)
    orders.process(Find, stores=stores, key=str, value=str, name="find").to("enriched")
    return builder.build()


class Model:
    """What the stores of a task hold, as its documentation says: values with their times."""

    def __init__(self) -> None:
        self.now = -1
        #: keys and values by topic
        self.results: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
        self._rows: dict[tuple[str, ...], tuple[object, int]] = {}

    def see(self, wall_clock_ms: int) -> None:
        """The clock of the stores never goes back."""
        self.now = max(self.now, wall_clock_ms)

    def commit(self, wall_clock_ms: int) -> None:
        """A commit sees the clock, too."""
        self.see(wall_clock_ms)

    def process(self, key: str, value: str) -> None:
        """Keep an order, and note what the processor forwards."""
        used = self._get("used", key)
        self._put(used or value, "used", key)
        number = int(cast(int, self._get("numbers", key) or 0)) + 1
        self._put(number, "numbers", key)
        is_new = self._get("values", key, value[-1:]) is None
        self._put(value, "values", key, value[-1:])
        values = len([*self._live("values", key)])
        places = [(int(place), found) for place, found in sorted(self._live("places", key))]
        third = self._get("places", key, "3")
        if third is not None:
            self._put(third, "places", key, "3")
        found = [self._get("last", key), used, number, is_new, values, places, third]
        self._put(None if value.endswith("3") else value, "last", key)
        self._put(value, "places", key, value[-1:])
        self.results["enriched"].append((key, repr(found)))

    def live(self) -> Mapping[str, int]:
        """The number of rows of each store that have not expired."""
        return {store: len([*self._live(store)]) for store in _TTL_MS}

    def _live(self, store: str, *key: str) -> Iterator[tuple[str, object]]:
        size = 1 + len(key)
        for path, (value, _) in self._rows.items():
            if path[:size] == (store, *key) and self._get(*path) is not None:
                yield path[-1], value

    def _get(self, store: str, *key: str) -> object:
        value, time = self._rows.get((store, *key), (None, 0))
        return None if time + _TTL_MS[store] <= self.now else value

    def _put(self, value: object, *path: str) -> None:
        self._rows[path] = value, self.now


class WallClockExpiry(OrdersSchedule):
    """A schedule of this flow."""

    variant = "wall_clock"
    make_topology = staticmethod(topology)
    orders = 36
    topics: ClassVar[tuple[str, ...]] = ("enriched",)
    make_model: ClassVar[type[Model]] = Model
    task_class: ClassVar[type[TracedTask]] = TracedTask

    def __init__(self, swarm: Swarm) -> None:
        made = self.make_topology(in_memory=swarm.in_memory)
        self.simulated = Simulated(made, flow.APPLICATION, 2)
        super().__init__(swarm)
        offsets = self.cluster.group(self.application_id).offsets
        self.history = History(lambda: len(offsets.history))
        for slot in self.slots:
            slot.task_class = partial(self.task_class, self.history)
        self._jumps = any(fault.kind == "clock_jump" for fault in swarm.faults)

    def plan(self) -> BoundPlan:
        """Bound to the topics of this cluster."""
        return SimulatedApplication.plan(cast(SimulatedApplication, self))

    def _is_done(self) -> bool:
        """Idle tasks delete what expires, unless a clock was ahead of the right one for long."""
        return super()._is_done() and (self._jumps or not any(self._rows_left()))

    def _rows_left(self) -> Iterator[int]:
        for task_id in self.plan().task_ids():
            yield from map(len, self._stored(task_id).values())

    def _stored(self, task_id: TaskId) -> Mapping[str, Mapping[bytes, bytes]]:
        return stored_rows(cast(SimulatedApplication, self), task_id)

    def _judge(self) -> None:
        for task_id in self.plan().task_ids():
            model = self._model(task_id)
            for topic in self.topics:
                self._compare(topic, task_id, model.results[topic])
            rows = {store: len(rows) for store, rows in self._stored(task_id).items()}
            same(f"rows of {task_id}", rows, dict(model.live()))

    def _compare(self, topic: str, task_id: TaskId, wanted: Iterable[tuple[str, str]]) -> None:
        found = self._committed(TopicPartition(topic, task_id.partition)).values()
        self.counters["compared_results"] += len(found)
        same(f"{topic} of {task_id}", by_key(found), by_key(wanted))

    def _committed(self, partition: TopicPartition) -> dict[int, tuple[str, str]]:
        """Keys and values of committed records, by their offsets."""
        found: dict[int, tuple[str, str]] = {}
        for entry in committed_entries(cast(SimulatedApplication, self), partition):
            assert entry.record is not None
            key, value = entry.record.key() or b"", entry.record.value() or b""
            found[entry.offset] = key.decode(), value.decode()
        return found

    def _model(self, task_id: TaskId) -> Model:
        model = self.make_model()
        (partition,) = self.plan().input_partitions(task_id)
        orders = self._committed(partition)
        commits = self.cluster.group(self.application_id).offsets.history
        for segment in self.history.committed(task_id, commits):
            for step in segment.steps:
                model.see(step.time_ms)
                if step.partition is not None:
                    model.process(*orders[step.offset])
            model.commit(segment.ended_ms)
        return model
