"""Refuse to continue with offsets of Faust without the rows of its tables.

Faust keeps its tables in changelogs that no store of logstate can read directly. A start would find
the offsets that Faust committed, and start counting from nothing.
"""

from __future__ import annotations

from collections.abc import Collection

from logstate.contracts.errors import UpgradeError
from logstate.contracts.topic_names import cuts_topic
from logstate.topics.bound_plan import BoundPlan

#: a topic that only workers of Faust applications create
_LEADER = "{}-__assignor-__leader"


def refuse_tables_left_by_faust(plan: BoundPlan, topics: Collection[str]) -> None:
    """Raise UpgradeError if Faust ran here and its tables were not taken over.

    ``topics``: every topic whose name begins with the application id.
    """
    for problem in left_by_faust(plan, topics):
        raise UpgradeError(problem)


def left_by_faust(plan: BoundPlan, topics: Collection[str]) -> list[str]:
    """Return the reasons to refuse a start, if there are any."""
    leader = _LEADER.format(plan.application_id)
    if leader not in topics or cuts_topic(plan.application_id) in topics:
        return []
    stores = [name for name, topic in plan.changelog_topics.items() if topic is not None]
    if not stores:
        return []
    problem = (
        f"Application {plan.application_id!r} was run by Faust (the topic {leader!r} exists),"
        f" and the stores {', '.join(map(repr, sorted(stores)))} would start empty, but continue"
        " from its offsets. Take its tables over with logstate.faust.adopt() before the first"
        " start (docs/faust.md), or use another application id"
    )
    return [problem]
