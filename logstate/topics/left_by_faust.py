"""An application id that Faust has used: its offsets must not go on without its tables' rows.

Faust keeps its tables in changelogs that no store reads as they are. A start would find the offsets
that Faust committed, and count on from nothing. Pure.
"""

from __future__ import annotations

from collections.abc import Collection

from logstate.contracts.errors import UpgradeError
from logstate.contracts.topic_names import cuts_topic
from logstate.topics.bound_plan import BoundPlan

#: a topic that every worker of a Faust application makes, and nobody else
_LEADER = "{}-__assignor-__leader"


def refuse_tables_left_by_faust(plan: BoundPlan, topics: Collection[str]) -> None:
    """Raises UpgradeError where Faust was here and its tables were not taken over.

    ``topics``: every topic whose name begins with the application id.
    """
    for problem in left_by_faust(plan, topics):
        raise UpgradeError(problem)


def left_by_faust(plan: BoundPlan, topics: Collection[str]) -> list[str]:
    """What a start is refused for, if it is."""
    leader = _LEADER.format(plan.application_id)
    if leader not in topics or cuts_topic(plan.application_id) in topics:
        return []
    stores = [name for name, topic in plan.changelog_topics.items() if topic is not None]
    if not stores:
        return []
    problem = (
        f"Application {plan.application_id!r} was run by Faust (there is a topic {leader!r}),"
        f" and the stores {', '.join(map(repr, sorted(stores)))} would begin with nothing where"
        " its offsets go on. Take its tables over with logstate.faust.adopt() before the first"
        " start (docs/faust.md), or use another application id"
    )
    return [problem]
