"""``simulate``: one's own topology under crashes, aborts, moves and slow brokers."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from logstate.contracts.errors import ConfigError
from logstate.contracts.partitioner import partition_of
from logstate.task.error_handlers import FAIL_ALWAYS, ErrorHandlers
from logstate.testing.simulation.differences import Difference, difference
from logstate.testing.simulation.simulated_application import (
    Simulated,
    SimulatedApplication,
    drawn,
)
from logstate.testing.simulation.story import FEW, report_of, shortest, simple_stories
from logstate.testing.simulation.swarm import Swarm
from logstate.testing.simulation.traced_task import traced
from logstate.testing.simulation.upstream import Input
from logstate.topology.graph.nodes import SourceNode
from logstate.topology.plan.pattern_topics import with_matching_topics
from logstate.topology.plan.plan import Topology

#: between records that are given no time
_APART_MS = 1_000


@dataclass(frozen=True)
class Simulation:
    """What came of it; as text, a line of counts, and the story where there is one."""

    schedules: int
    #: what happened how often: crashes, rows_compared, outputs_compared, ...
    counters: Mapping[str, int] = field(default_factory=dict)
    #: the shortest way to the first difference; None where there is none
    story: str | None = None
    #: the operator that made it, where it is known
    operator: str | None = None

    @property
    def ok(self) -> bool:
        """Every schedule ended as the uninterrupted run does."""
        return self.story is None

    def __str__(self) -> str:
        count = Counter(self.counters)
        line = (
            f"{self.schedules} schedules, {count['crashes']} crashes,"
            f" {count['outputs_compared']} outputs and {count['rows_compared']} rows compared:"
        )
        return f"{line} all as without interruptions" if self.ok else f"{line}\n{self.story}"


class SimulationFailed(AssertionError):
    """The text is the story; ``simulation`` has the counts."""

    def __init__(self, simulation: Simulation) -> None:
        super().__init__(str(simulation))
        self.simulation = simulation


def simulate(
    topology: Topology,
    inputs: Iterable[Sequence[Any]],
    schedules: int = 1_000,
    seed: int = 1,
    *,
    partitions: int = 2,
    application_id: str = "app",
    error_handlers: ErrorHandlers | None = None,
    topics: Iterable[str] = (),
    raises: bool = True,
) -> Simulation:
    """Run a topology on simulated brokers under drawn faults, compare with the uninterrupted run.

    The committed outputs and rows of stores must equal those that each task computes from the same
    records in the same order without faults. The engine guarantees that for functions that are
    deterministic and keep their state in stores.

    Args:
        topology: the result of ``StreamsBuilder.build()``.
        inputs: ``(topic, key, value)`` or ``(topic, key, value, timestamp in ms)`` of records, in
            order, encoded with the sources' own serdes.
        schedules: how many; the first has no faults.
        seed: of the first schedule; each further one has the next.
        partitions: of every topic.
        application_id: prefix of internal topics.
        error_handlers: as of the Application.
        topics: further topics that exist: of sinks that choose them by record, and of patterns.
        raises: False returns the result of a failure too.

    Raises SimulationFailed, an AssertionError with the shortest story, for the first difference;
    ConfigError for an input of a topic that is not read; what a function raises without any fault.

    >>> from logstate import StreamsBuilder
    >>> builder = StreamsBuilder()
    >>> clicks = builder.stream("clicks", key=str, value=str)
    >>> clicks.group_by_key().count(store="counts").to_stream().to("totals", key=str, value=int)
    >>> inputs = [("clicks", key, "home") for key in ("ada", "bob", "ada")]
    >>> simulate(builder.build(), inputs, schedules=3).ok
    True
    """
    given = [tuple(one) for one in inputs]
    found_topics = (*topics, *(one[0] for one in given))
    topology = traced(with_matching_topics(topology, found_topics))
    globals_, read = _encoded(topology, given, partitions)
    handlers = FAIL_ALWAYS if error_handlers is None else error_handlers
    simulated = Simulated(
        topology, application_id, partitions, tuple(topics), handlers, tuple(globals_)
    )
    with _without_logs():
        result = _simulated(simulated, read, schedules, seed)
    if raises and not result.ok:
        raise SimulationFailed(result)
    return result


def _simulated(simulated: Simulated, inputs: list[Input], schedules: int, seed: int) -> Simulation:
    counters: Counter[str] = Counter()
    for number in range(schedules):
        swarm = drawn(seed + number)
        # A failure here happens in every schedule: it is raised unchanged.
        calm = replace(swarm, faults=())
        found = _run(simulated, calm, inputs, counters) if number == 0 else None
        if found is None:
            found = _run_with_errors(simulated, swarm, inputs, counters)
        else:
            swarm = calm
        if found is not None:
            story, operator = _describe_failure(simulated, swarm, inputs, found)
            return Simulation(number + 1, counters, story, operator)
    return Simulation(schedules, counters)


def _run(
    simulated: Simulated, swarm: Swarm, inputs: Sequence[Input], counters: Counter[str]
) -> Difference | None:
    schedule = SimulatedApplication(simulated, swarm, inputs)
    try:
        schedule.run()
        return difference(schedule)
    finally:
        counters.update(schedule.counters)


def _run_with_errors(
    simulated: Simulated, swarm: Swarm, inputs: Sequence[Input], counters: Counter[str]
) -> Difference | None:
    """The same; what escapes under faults is a difference as well."""
    try:
        return _run(simulated, swarm, inputs, counters)
    except Exception as exc:  # noqa: BLE001  whatever it is, it did not happen without faults
        return Difference(f"the application failed: {type(exc).__name__}: {exc}")


def _describe_failure(
    simulated: Simulated, swarm: Swarm, inputs: list[Input], found: Difference
) -> tuple[str, str | None]:
    """Describe the last schedule that failed: a function with other state may not fail again."""
    last = found

    def fails(less: Swarm, fewer: Sequence[Input]) -> bool:
        nonlocal last
        again = _run_with_errors(simulated, less, fewer, Counter())
        last = again or last
        return again is not None

    def without_some(faults: list[Any]) -> bool:
        return fails(replace(swarm, faults=tuple(faults)), inputs)

    faults = shortest(swarm.faults, without_some)
    smaller = replace(swarm, faults=tuple(faults))
    fewer = shortest(inputs, lambda kept: fails(smaller, kept))
    # Without a fault as well, where a task that moves loses what it kept: that takes some records.
    if faults or len(fewer) > FEW:
        stories = simple_stories(swarm, fewer)
        simple, few = next((one for one in stories if fails(*one)), (smaller, fewer))
        faults, fewer = list(simple.faults), list(few)
    of = f"{len(fewer)} of {len(inputs)} inputs, {len(faults)} of {len(swarm.faults)} faults"
    return report_of(swarm.seed, last, faults, fewer, of), last.operator


def _encoded(
    topology: Topology, inputs: Sequence[tuple[Any, ...]], partitions: int
) -> tuple[list[Input], list[Input]]:
    """Records of global tables, and the others."""
    global_topics = _sources(topology, is_global=True)
    sources = {**_sources(topology, is_global=False), **global_topics}
    globals_: list[Input] = []
    read: list[Input] = []
    for number, (topic, key, value, *time) in enumerate(inputs):
        source = sources.get(topic)
        if source is None:
            known = ", ".join(map(repr, sorted(sources)))
            raise ConfigError(
                f"input number {number} is for topic {topic!r}, which the topology does not read;"
                f" it reads {known}. Correct the name, or leave the input out"
            )
        raw = None if key is None else source.key.serializer(topic, True)(key)
        place = number % partitions if raw is None else partition_of(raw, partitions)
        encoded = None if value is None else source.value.serializer(topic, False)(value)
        timestamp = time[0] if time else (number + 1) * _APART_MS
        one = Input(topic, place, raw, encoded, timestamp)
        (globals_ if topic in global_topics else read).append(one)
    return globals_, read


def _sources(topology: Topology, *, is_global: bool) -> dict[str, SourceNode]:
    subs = topology.global_sub_topologies if is_global else topology.sub_topologies
    return {
        ref.name: source
        for sub in subs
        for source in sub.sources
        for ref in source.topics
        if not ref.is_internal
    }


@contextmanager
def _without_logs() -> Iterator[None]:
    """What the engine has to say about thousands of faults is not for anybody."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)
