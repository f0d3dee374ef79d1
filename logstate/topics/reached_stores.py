"""Find stores of other sub-topologies that the results of an input reach through topics.

A task without stores may write to a repartition topic, or to another topic that the application
reads, and whose records are counted downstream. If it reads its input again, results double there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from logstate.topics.bound_plan import BoundPlan
from logstate.topology.graph.sub_topology import SubTopology


class Reached(NamedTuple):
    """A sub-topology with stores."""

    sub_topology: SubTopology
    #: the topics on the path, in order; the sub-topology reads the last one
    topics: tuple[str, ...]


def reached(
    plan: BoundPlan,
    sub_topology: SubTopology,
    topic: str,
    passes: Callable[[str], bool] = lambda _: True,
) -> list[Reached]:
    """Return the stores outside the task that a source topic's results reach.

    ``passes`` returns whether records have passed a topic. Topics that are chosen per record are
    not known.
    """
    found: list[Reached] = []
    seen: set[str] = set()
    ways: list[tuple[SubTopology, str, tuple[str, ...]]] = [(sub_topology, topic, ())]
    while ways:
        sub, source, way = ways.pop(0)
        for written in _topics_written(plan, sub, source):
            if written in seen or not passes(written):
                continue
            seen.add(written)
            on = (*way, written)
            for reader in plan.topology.sub_topologies:
                if written in plan.source_topics(reader):
                    if reader.stores:
                        found.append(Reached(reader, on))
                    ways.append((reader, written, on))
    return found


def feeding_sub_topologies(plan: BoundPlan) -> frozenset[int]:
    """Return the ids of sub-topologies whose results reach stores of others."""
    return frozenset(
        sub.id
        for sub in plan.topology.sub_topologies
        if any(reached(plan, sub, topic) for topic in plan.source_topics(sub))
    )


def _topics_written(plan: BoundPlan, sub: SubTopology, topic: str) -> list[str]:
    return [
        plan.resolved(ref.name, ref.is_internal)
        for source, name in zip(sub.source_topics, plan.source_topics(sub), strict=True)
        if name == topic
        for ref in sub.sink_topics_from(source)
    ]
