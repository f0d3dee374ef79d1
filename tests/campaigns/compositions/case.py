"""A drawn topology with its inputs, and what the simulator finds of it."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from logstate.contracts.errors import TopologyError
from logstate.testing import Simulation, simulate
from logstate.topology import Topology
from tests.campaigns.compositions.drawing import Drawing
from tests.campaigns.compositions.operators import OPERATORS

SOURCES = ("in-0", "in-1")
RECORDS = 30

Input = tuple[str, str, int, int]


class Case(NamedTuple):
    """What was drawn: the names of the operators, and the topology, or why it is refused."""

    operators: list[str]
    topology: Topology | TopologyError
    inputs: list[Input]

    def simulate(self, schedules: int, seed: int) -> Simulation:
        """Compare runs under faults with the uninterrupted one."""
        assert isinstance(self.topology, Topology), self.topology
        return simulate(self.topology, self.inputs, schedules, seed, raises=False)


def drawn_case(seed: int) -> Case:
    """Draw two to six operators; a seed always draws the same."""
    drawing, operators = Drawing(seed), []
    for topic in SOURCES:
        drawing.add(drawing.builder.stream(topic, key=str, value=int))
    for _ in range(drawing.rng.randint(2, 6)):
        operator = drawing.choice(*OPERATORS)
        streams = drawing.streams[-4:] if drawing.is_likely(0.7) else drawing.streams
        operator(drawing, drawing.choice(*streams))
        drawing.add_named()
        operators.append(operator.__name__)
    for number, stream in enumerate(drawing.streams[len(SOURCES) :]):
        stream.to(f"out-{number}", key=str, value=int)
    try:
        topology: Topology | TopologyError = drawing.builder.build()
    except TopologyError as error:  # such as close_on_idle of a task that reads what it sends
        topology = error
    return Case(operators, topology, _inputs(drawing.rng))


def _inputs(rng: Random) -> list[Input]:
    """Draw records that are late and out of order, with a pause now and then."""
    found, now = [], 100
    for _ in range(RECORDS):
        now += 60 if rng.random() < 0.05 else 4
        time_ms = now + rng.choice((0, 0, 3, -7, -25, 9))
        found.append((rng.choice(SOURCES), rng.choice("abc"), rng.randrange(9), time_ms))
    return found
