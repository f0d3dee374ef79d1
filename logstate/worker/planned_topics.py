"""Check that the topics are still those that the worker's plan was made for.

Topics may change while an application runs: partitions are added, a topic is deleted or recreated.
The group assigns the existing partitions, but the plan has the earlier ones; new partitions would
not be read, and no lag would show it. So the topics are checked after each change of the assignment
and at intervals, and assigned partitions are checked at once.

A change ends the worker with TopicsChangedError, and a new worker starts with the current topics.
Its start decides, as any start does: it reads the new partitions, or it fails and says why.

Topics that are only written to may grow: partitioners receive the new count. New topics that match
a pattern of the topology are the task of :class:`NewTopics`.

Settings are checked as well: if a changelog is about to lose rows, the application stops with
TopicError, as at a start.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, MutableMapping

from logstate.contracts.clients import Admin, Step, Steps, TopicDescription
from logstate.contracts.clock import Clock
from logstate.contracts.error_text import text_of
from logstate.contracts.errors import RetriableError, TopicError, TopicsChangedError
from logstate.topics.bound_plan import BoundPlan
from logstate.topics.internal_topics import Compared, compared, required_topics
from logstate.worker.assignment import Assignment
from logstate.worker.new_topics import NewTopics

_LOGGER = logging.getLogger(__name__)

#: delay after a change of the assignment, and before a missing topic is reported, at most the
#: interval: a broker that has just started knows less than the others
_SOON_MS = 1_000.0


class PlannedTopics:
    """Checks the topics of a plan. ``counts`` are the partition counts used by partitioners."""

    def __init__(
        self,
        plan: BoundPlan,
        counts: MutableMapping[str, int],
        assignment: Assignment,
        admin: Admin,
        clock: Clock,
        new_topics: NewTopics,
        interval_ms: float,
    ) -> None:
        self._plan = plan
        #: topics with their required settings
        self._required = required_topics(plan, -1, {})
        self._ids = plan.topic_ids
        self._planned = planned_counts(plan)
        self._counts = counts
        self._assignment = assignment
        self._admin = admin
        self._clock = clock
        self._new_topics = new_topics
        self._epoch = assignment.epoch
        self._interval_ms = interval_ms
        self._soon_ms = min(_SOON_MS, interval_ms)
        self._due_ms = clock.monotonic_ms() + interval_ms
        self._missed: frozenset[str] = frozenset()

    def check(self, *, is_away: bool) -> Steps[None]:
        """Check the topics if it is time; raise TopicsChangedError."""
        now_ms = self._clock.monotonic_ms()
        if self._epoch != self._assignment.epoch:
            self._epoch = self._assignment.epoch
            self._due_ms = min(self._due_ms, now_ms + self._soon_ms)
            if unread_partitions := ", ".join(map(str, self._assignment.unread_partitions())):
                raise _changed_topics(
                    [f"the group assigned {unread_partitions}, which no task reads"]
                )
        if is_away or now_ms < self._due_ms:
            return
        self._due_ms = now_ms + self._interval_ms
        own = {topic.name for topic in self._required}
        asked = sorted({*self._planned, *self._counts, *own})
        try:
            found: Mapping[str, TopicDescription] = yield Step(
                "describe_topics", self._admin.describe_topics, (asked,)
            )
            self._compare_topics(found)
            there = {one.name: found[one.name] for one in self._required if one.name in found}
            seen: Compared = yield from compared(self._admin, self._plan, self._required, there)
            if not self._missed and (yield from self._new_topics.look()):
                self._due_ms = self._clock.monotonic_ms() + self._soon_ms
        except RetriableError as exc:
            _LOGGER.info("the check of the topics failed and will be retried: %s", text_of(exc))
            return
        if seen.problems:
            raise TopicError(
                "settings of topics have changed while the application was running:"
                f" {'; '.join(seen.problems)}. Correct them, then start the application again"
            )

    def _compare_topics(self, found: Mapping[str, TopicDescription]) -> None:
        missing = self._planned.keys() - found.keys()
        problems = [
            *self._changed_counts(found),
            *(_deleted_text(one) for one in missing & self._missed),
        ]
        if problems:
            raise _changed_topics(problems)
        self._missed = frozenset(missing)
        if missing:
            self._due_ms = self._clock.monotonic_ms() + self._soon_ms
        for topic in self._counts.keys() & found.keys() - self._planned.keys():
            self._counts[topic] = found[topic].partitions

    def _changed_counts(self, found: Mapping[str, TopicDescription]) -> Iterator[str]:
        for topic, count in sorted(self._planned.items()):
            one = found.get(topic)
            if one is None:
                continue
            planned_id = self._ids.get(topic)
            if planned_id is not None and one.topic_id != planned_id:
                yield (
                    f"topic {topic!r} was deleted and created again: it has the id {one.topic_id},"
                    f" and had {planned_id}. Offsets and rows belong to the deleted topic"
                )
            elif one.partitions != count:
                yield (
                    f"topic {topic!r} has {one.partitions} partitions now, and had {count} when"
                    " this worker started: the new ones are not read, and keys have moved"
                )


def planned_counts(plan: BoundPlan) -> dict[str, int]:
    """Return each topic that is read or holds state, with the partition count of the plan."""
    every = (*plan.topology.sub_topologies, *plan.topology.global_sub_topologies)
    read = {topic for sub in every for topic in plan.source_topics(sub)}
    counts = {topic: plan.partition_counts[topic] for topic in read}
    for sub in plan.topology.sub_topologies:
        for spec in sub.stores:
            changelog = plan.changelog_topics[spec.name]
            if changelog is not None:
                counts.setdefault(changelog, plan.task_count(sub))
    return counts


def _changed_topics(problems: Iterable[str]) -> TopicsChangedError:
    """Return the error, with its consequences."""
    return TopicsChangedError(
        f"topics have changed while the application was running: {'; '.join(problems)}. The worker"
        " starts again with the current topics. An application without state then reads new"
        " partitions; with state the start is refused, because keys are in other partitions than"
        " their rows: stop all instances and move the state with `logstate reshard`"
        " (docs/resharding.md)"
    )


def _deleted_text(topic: str) -> str:
    return f"topic {topic!r} is gone: it was deleted"
