"""Bound plans of small topologies, without a cluster."""

from __future__ import annotations

from collections.abc import Callable

from logstate.contracts.clients import TopicDescription
from logstate.topics.bound_plan import BoundPlan, bind
from logstate.topology import StreamsBuilder
from tests.unit.logstate.task.task_bench import APPLICATION, topology_of


def described(**counts: int) -> dict[str, TopicDescription]:
    """Existing topics; underscores stand for hyphens."""
    return {
        name.replace("_", "-"): TopicDescription(f"id-of-{name}", count)
        for name, count in counts.items()
    }


def plan_of(declare: Callable[[StreamsBuilder], object], **counts: int) -> BoundPlan:
    """A topology bound to topics with these partition counts."""
    return bind(topology_of(declare), APPLICATION, described(**counts))


def by_word(builder: StreamsBuilder) -> None:
    """One repartition: sub-topology 0 reads "in", 1 counts in the store "counts"."""
    stream = builder.stream("in", key=str, value=str)
    words = stream.group_by(lambda value: value, name="by-word", key=str)
    counts = words.count(store="counts").to_stream()
    counts.map_values(str, value=str).to("out")
