"""A schedule of the flow, and what its oracles have to know about it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from logstate.contracts.records import TopicPartition
from logstate.testing.simulation import schedule
from logstate.testing.simulation.swarm import Swarm
from logstate.testing.simulation.upstream import Input
from logstate.topology import Topology
from tests.campaigns.simulation import dataset, flow
from tests.campaigns.simulation.swarm import draw


class Schedule(schedule.Schedule):
    """Runs the flow under a swarm configuration."""

    #: values of inputs that must leave no trace
    passed_over: frozenset[bytes] = frozenset()
    #: all directories are compared, which costs as much as a schedule
    compares_directories = False
    #: directories may have expired rows: nobody knows their clocks before they are promoted
    keeps_expired = False
    #: judges the end in the place of the oracles, for flows of its own; raises
    judge: Callable[[], None] | None = None

    @classmethod
    def of(cls, seed: int) -> Schedule:
        """The schedule of a seed."""
        return cls(draw(seed))

    def __init__(
        self, swarm: Swarm, *, partitions: int = 2, inputs: Sequence[Input] | None = None
    ) -> None:
        if inputs is None:
            inputs = dataset.inputs(swarm.seed % dataset.COUNT, partitions=partitions)
        super().__init__(
            swarm,
            application_id=flow.APPLICATION,
            topics=dict.fromkeys((flow.ORDERS, flow.PRICES, *flow.OUTPUTS), partitions),
            partitions=partitions,
            inputs=inputs,
        )

    def _topology(self) -> Topology:
        return flow.topology(self.swarm.variant, in_memory=self.swarm.in_memory)

    def _prepare(self) -> None:
        if self.topology.global_sub_topologies:
            flow.write_names(self.cluster)

    def committed_records(self, topic: str) -> Iterator[tuple[str, str]]:
        """Keys and values of a topic that were committed, each partition in its order."""
        for partition in range(self.partitions):
            log = self.cluster.log_or_none(TopicPartition(topic, partition))
            for entry in [] if log is None else log.history:
                record, transaction = entry.record, entry.transaction
                if record is not None and (transaction is None or transaction.is_committed):
                    yield (record.key() or b"").decode(), (record.value() or b"").decode()
