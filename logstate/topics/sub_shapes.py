"""How the sub-topologies of a plan are connected, for whoever takes a snapshot of all. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from logstate.contracts.snapshots import SubShape
from logstate.topics.bound_plan import BoundPlan


def shape_of(plan: BoundPlan) -> dict[int, SubShape]:
    """Sub-topology to what it reads and writes of the application's own."""

    def counted(topics: Iterable[str]) -> dict[str, int]:
        return {t: plan.partition_counts[t] for t in topics if t in plan.repartition_topics}

    return {
        sub.id: SubShape(
            plan.task_count(sub),
            counted(plan.source_topics(sub)),
            counted(plan.resolved(ref.name, ref.is_internal) for ref in sub.sink_topics),
        )
        for sub in plan.topology.sub_topologies
    }
