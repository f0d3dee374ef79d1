"""Schedules that have another flow than the drawn one, and judge its end themselves."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from typing import ClassVar, Protocol, Self

from logstate.task.error_handlers import ErrorHandlers
from logstate.testing import TopologyTestDriver
from logstate.testing.simulation.slot import Slot
from logstate.testing.simulation.swarm import Swarm
from logstate.testing.simulation.upstream import Input
from logstate.topology import Topology
from tests.campaigns.simulation import dataset, flow
from tests.campaigns.simulation.oracles import Wrong
from tests.campaigns.simulation.schedule import Schedule
from tests.campaigns.simulation.swarm import draw


class _MakeTopology(Protocol):
    def __call__(self, *, in_memory: bool) -> Topology: ...


class _MakeIdleTopology(Protocol):
    def __call__(self, *, in_memory: bool, is_patient: bool) -> Topology: ...


class OrdersSchedule(Schedule):
    """A schedule of ``make_topology``; exactly-once, because then each result is there once."""

    variant: ClassVar[str]
    make_topology: ClassVar[_MakeTopology]
    #: of `dataset.inputs`
    orders: ClassVar[int] = 18
    prices: ClassVar[int] = 0
    price_every: ClassVar[int] = 4
    #: the smallest event time; a transaction cannot send time 0
    first_ms: ClassVar[int] = 0
    handlers: ClassVar[ErrorHandlers] = ErrorHandlers()

    @classmethod
    def of(cls, seed: int) -> Self:
        """The configuration and the faults of a seed."""
        return cls(replace(draw(seed), variant=cls.variant, guarantee="exactly_once"))

    def __init__(self, swarm: Swarm) -> None:
        number, every = swarm.seed % dataset.COUNT, self.price_every
        found = dataset.inputs(number, orders=self.orders, prices=self.prices, price_every=every)
        later = [one._replace(timestamp=one.timestamp + self.first_ms) for one in found]
        super().__init__(swarm, inputs=later)
        self.judge = self._judge

    def _topology(self) -> Topology:
        return self.make_topology(in_memory=self.swarm.in_memory)

    def _slot(self, number: int) -> Slot:
        slot = super()._slot(number)
        slot.handle_errors(self.handlers)
        return slot

    def _judge(self) -> None:
        raise NotImplementedError

    def undisturbed(self, topics: Iterable[str]) -> dict[str, dict[str, list[str]]]:
        """The results by topic and key of a run without faults, each partition for itself."""
        found: dict[str, dict[str, list[str]]] = {}
        for partition in range(self.partitions):
            orders = tuple(one for one in self.inputs if one.partition == partition)
            make, handlers = type(self).make_topology, self.handlers
            records = _undisturbed(make, orders, tuple(topics), handlers)
            for topic, pairs in records.items():
                found.setdefault(topic, {}).update(by_key(pairs))
        return found

    def rows_of_changes(self, topic: str, nothing: str) -> dict[str, str]:
        """The rows that are left by the committed changes, each "old new".

        Raises Wrong where the old value is not the new one of the change before.
        """
        rows: dict[str, str] = {}
        for key, change in self.committed_records(topic):
            old, new = change.split()
            if rows.get(key, nothing) != old:
                raise Wrong(f"{key} changes from {old} to {new}, and was {rows.get(key)}")
            rows[key] = new
            self.counters["compared_changes"] += 1
        return {key: value for key, value in rows.items() if value != nothing}


def by_key(records: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """The values of each key, in their order."""
    found: dict[str, list[str]] = {}
    for key, value in records:
        found.setdefault(key, []).append(value)
    return found


@cache
def _undisturbed(
    make_topology: _MakeTopology,
    orders: tuple[Input, ...],
    topics: tuple[str, ...],
    handlers: ErrorHandlers,
) -> dict[str, list[tuple[str, str]]]:
    with TopologyTestDriver(make_topology(in_memory=True), error_handlers=handlers) as driver:
        for one in orders:
            driver.pipe_raw(flow.ORDERS, one.key, one.value, one.timestamp)
        return {topic: driver.read(topic, key=str, value=str) for topic in topics}


class PatientSchedule(OrdersSchedule):
    """One of windows that close on idle inputs: every second schedule is patient.

    There nothing is late if all was written before the start: the grace is longer than the orders
    are out of order. In the others windows close in the shortest pauses.
    """

    make_idle_topology: ClassVar[_MakeIdleTopology]

    @property
    def is_patient(self) -> bool:
        """Whether windows wait long enough for every order."""
        return self.swarm.seed % 2 == 0

    def _topology(self) -> Topology:
        return self.make_idle_topology(in_memory=self.swarm.in_memory, is_patient=self.is_patient)
