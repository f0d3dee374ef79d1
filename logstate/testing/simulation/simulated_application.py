"""A schedule of somebody's own topology, whose tasks note what they do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from logstate.contracts.clients import TopicDescription
from logstate.contracts.records import TopicPartition
from logstate.contracts.topic_names import topic_name
from logstate.task.error_handlers import FAIL_ALWAYS, ErrorHandlers
from logstate.testing.simulation import swarm as drawing
from logstate.testing.simulation.schedule import Schedule
from logstate.testing.simulation.slot import Slot
from logstate.testing.simulation.swarm import ScheduledFault, Swarm
from logstate.testing.simulation.traced_task import History, TracedTask
from logstate.testing.simulation.upstream import Input
from logstate.topics.bound_plan import BoundPlan, bind, external_topics
from logstate.topology.plan.plan import Topology

#: these change what a clock says, and with it what a function that looks at it may say
_LEFT_OUT = frozenset({"clock_jump"})


@dataclass(frozen=True)
class Simulated:
    """The simulated application: the same in all schedules."""

    #: its operators record what they forward
    topology: Topology
    application_id: str
    partitions: int
    #: that exist besides those the topology names
    topics: tuple[str, ...] = ()
    error_handlers: ErrorHandlers = FAIL_ALWAYS
    #: of global tables, there before anything starts
    global_inputs: tuple[Input, ...] = ()

    def external_topics(self) -> list[str]:
        """Topics that are not the application's own."""
        sinks = {
            ref.name
            for sub in self.topology.sub_topologies
            for ref in sub.sink_topics
            if not ref.is_internal
        }
        return sorted({*external_topics(self.topology), *sinks, *self.topics})

    def output_topics(self) -> set[str]:
        """Whatever its operators write, by their real names."""
        refs = (ref for sub in self.topology.sub_topologies for ref in sub.sink_topics)
        named = {topic_name(self.application_id, r.name, is_internal=r.is_internal) for r in refs}
        read = set(external_topics(self.topology)) - named
        return (named | set(self.topics)) - read


def drawn(seed: int) -> Swarm:
    """The configuration and the faults of a seed; always exactly once."""
    swarm = drawing.draw(seed)
    kept: Iterable[ScheduledFault] = (f for f in swarm.faults if f.kind not in _LEFT_OUT)
    return replace(swarm, guarantee="exactly_once", faults=tuple(kept))


class SimulatedApplication(Schedule):
    """Runs it; ``history`` has what its tasks did."""

    def __init__(self, simulated: Simulated, swarm: Swarm, inputs: Sequence[Input]) -> None:
        self.simulated = simulated
        super().__init__(
            swarm,
            application_id=simulated.application_id,
            topics=dict.fromkeys(simulated.external_topics(), simulated.partitions),
            partitions=simulated.partitions,
            inputs=inputs,
        )
        offsets = self.cluster.group(self.application_id).offsets
        self.history = History(lambda: len(offsets.history))
        for slot in self.slots:
            slot.task_class = partial(TracedTask, self.history)

    def plan(self) -> BoundPlan:
        """Bound to the topics of this cluster."""
        topics = self.simulated.external_topics()
        existing = {topic: TopicDescription("id", self.partitions) for topic in topics}
        return bind(self.topology, self.application_id, existing)

    def _topology(self) -> Topology:
        return self.simulated.topology

    def _prepare(self) -> None:
        for topic, _, key, value, timestamp in self.simulated.global_inputs:
            self.cluster.produce(topic, key, value, timestamp=timestamp)

    def _slot(self, number: int) -> Slot:
        slot = super()._slot(number)
        handlers = self.simulated.error_handlers
        slot.handle_errors(handlers)
        slot.configure(dead_letter_topic=handlers.dead_letter_topic)
        return slot

    def _read_partitions(self) -> list[TopicPartition]:
        plan = self.plan()
        return [tp for task_id in plan.task_ids() for tp in plan.input_partitions(task_id)]
