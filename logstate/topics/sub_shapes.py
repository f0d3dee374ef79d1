"""The connections between the sub-topologies of a plan, for a snapshot of all of them."""

from __future__ import annotations

from collections.abc import Iterable

from logstate.contracts.snapshots import SubShape
from logstate.topics.bound_plan import BoundPlan


def shape_of(plan: BoundPlan) -> dict[int, SubShape]:
    """Return sub-topology -> the internal topics that it reads and writes."""

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
