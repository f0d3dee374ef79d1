"""Topics that match a pattern and are created while the application runs, under all faults.

Every instance notices a new topic on its own, ends at its last commit and starts again with a plan
that has it. The order in which a task reads its topics depends on timing. What is certain: each
order of each topic is sent on once, and the counts of a key, and of a region behind a repartition
topic, are 1, 2, 3 and so on, once each.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from functools import cache

from logstate.contracts.records import TopicPartition
from logstate.testing.simulation.slot import Slot
from logstate.testing.simulation.swarm import Swarm
from logstate.topology import StreamsBuilder, Topology
from tests.campaigns.simulation import flow
from tests.campaigns.simulation.oracles import same
from tests.campaigns.simulation.orders_schedule import OrdersSchedule

#: the first one exists at the start
_TOPICS = (flow.ORDERS, f"{flow.ORDERS}-2", f"{flow.ORDERS}-3")
_INTERVAL_MS = 150
#: chance in each turn that the next topic is created
_RATE = 0.08


@cache
def topology(*, in_memory: bool) -> Topology:
    """Orders of all topics as they are, and counts per key and per region."""
    builder = StreamsBuilder(in_memory_stores=in_memory)
    orders = builder.stream(re.compile(f"{flow.ORDERS}.*"), key=str, value=str)
    orders.to("enriched")
    counts = orders.group_by_key().count(store="counts").to_stream()
    counts.map_values(str, value=str).to("windowed")
    regions = orders.group_by(flow.region_of, key=str, name="by-region").count(store="regions")
    regions.to_stream().map_values(str, value=str).to("regions")
    return builder.build()


class NewTopics(OrdersSchedule):
    """A schedule of this flow."""

    variant = "new_topics"
    make_topology = staticmethod(topology)

    def __init__(self, swarm: Swarm) -> None:
        super().__init__(swarm)
        topics = random.Random(f"topics-{swarm.seed}")
        self.inputs = [one._replace(topic=topics.choice(_TOPICS)) for one in self.inputs]
        self._absent = list(_TOPICS[1:])
        self.upstream.waiting = [one for one in self.inputs if one.topic == flow.ORDERS]
        self._creations = random.Random(f"creations-{swarm.seed}")

    def _slot(self, number: int) -> Slot:
        slot = super()._slot(number)
        slot.configure(topics_interval_ms=_INTERVAL_MS)
        return slot

    def _read_partitions(self) -> list[TopicPartition]:
        topics = (*_TOPICS, flow.REPARTITION)
        return [TopicPartition(one, number) for one in topics for number in range(self.partitions)]

    def _run_turn(self, turn: int) -> None:
        if self._absent and self._creations.random() < _RATE:
            self._create()
        super()._run_turn(turn)

    def _run_without_faults(self, start: int) -> None:
        while self._absent:
            self._create()
        super()._run_without_faults(start)

    def _create(self) -> None:
        topic = self._absent.pop(0)
        self.cluster.create_topic(topic, self.partitions)
        self.upstream.waiting += [one for one in self.inputs if one.topic == topic]
        self.counters["new_topics"] += 1
        self.counters["new_topics_while_tasks_run"] += any(s.running_tasks for s in self.slots)

    def _judge(self) -> None:
        orders = [((o.key or b"").decode(), (o.value or b"").decode()) for o in self.inputs]
        same("orders", sorted(self.committed_records("enriched")), sorted(orders))
        per_key = Counter(key for key, _ in orders)
        per_region = Counter(flow.region_of(key, value) for key, value in orders)
        for topic, totals in (("windowed", per_key), ("regions", per_region)):
            found: dict[str, list[int]] = {}
            for key, count in self.committed_records(topic):
                found.setdefault(key, []).append(int(count))
            wanted = {key: list(range(1, total + 1)) for key, total in totals.items()}
            same(f"counts of {topic}", found, wanted)
            self.counters["compared_counts"] += sum(totals.values())
