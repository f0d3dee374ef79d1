"""Find topics that match a pattern of the topology and were created after the worker's start.

A worker subscribes to the topics of its plan. A new topic needs a new plan, which a new worker
makes: all checks of a start apply, offsets and state continue at the last commit. So the worker
ends only if a start would accept the topic. If not, it continues with the topics that it has, and
one WARNING names the topic and the reason.

Every instance finds the topic on its own, at most one interval of checks apart, and soon after the
rebalance that the first one causes. Meanwhile a task that has the new topic as an input needs its
other inputs too, which only one member owns: no two members run it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace

from logstate.contracts.clients import Admin, Step, Steps
from logstate.contracts.compatibility import NOTHING_DECIDED, Verdict
from logstate.contracts.error_text import text_of
from logstate.contracts.errors import TopicError, TopicsChangedError, TopologyError
from logstate.topics.bound_plan import BoundPlan, bind, external_topics
from logstate.topics.internal_topics import required_topics, with_topics_of_patterns
from logstate.topics.manifest import manifest
from logstate.topics.manifest_changes import manifest_changes
from logstate.topics.upgrade import logged_as_stored
from logstate.topology.plan.pattern_topics import patterns_of
from logstate.topology.plan.plan import Topology

_LOGGER = logging.getLogger(__name__)


class NewTopics:
    """Looks for new topics of the patterns in ``declared``; does nothing without patterns.

    ``offset_reset`` is that of the application.
    """

    def __init__(
        self, declared: Topology, plan: BoundPlan, admin: Admin, offset_reset: object
    ) -> None:
        self._declared = declared
        self._plan = plan
        self._admin = admin
        self._offset_reset = offset_reset
        self._has_patterns = bool(patterns_of(declared))
        self._known = frozenset(external_topics(plan.topology))
        #: found by the last look only: a broker may show a topic before the others do
        self._seen: frozenset[str] = frozenset()
        #: why topics are not read, by the names of the topics
        self._refused: dict[frozenset[str], str] = {}

    def look(self) -> Steps[bool]:
        """Raise TopicsChangedError if new topics are to be read; return True to look again soon."""
        if not self._has_patterns:
            return False
        try:
            topology = yield from with_topics_of_patterns(
                self._admin, self._declared, self._plan.application_id
            )
        except TopologyError as error:  # two patterns match a topic
            self._refuse(frozenset(), text_of(error))
            return False
        topics = external_topics(topology)
        new = frozenset(topics) - self._known
        if not new:
            self._seen = frozenset()
            return False
        if new != self._seen:
            self._seen = new
            return new not in self._refused
        described = yield Step("describe_topics", self._admin.describe_topics, (topics,))
        try:
            bound = bind(topology, self._plan.application_id, described)
            obstacles = list(self._obstacles(bound, new))
        except TopicError as error:
            obstacles = [text_of(error)]
        if obstacles:
            self._refuse(new, "; ".join(obstacles))
            return False
        raise TopicsChangedError(
            f"topics were created that match a pattern of the topology: {_listed(new)}. The worker"
            " starts again at the last commit, and reads them too",
            only_new=True,
        )

    def _refuse(self, new: frozenset[str], why: str) -> None:
        if self._refused.get(new) == why:
            return
        self._refused[new] = why
        what = _listed(new) or "a topic"
        _LOGGER.warning(
            "application %s: %s, created after the start and matched by a pattern of the topology,"
            " is not read: %s. The other topics are processed as before, and a start would be"
            " refused. Create the topic again so that it fits; then it is read without a restart."
            " Or make the pattern narrower, and restart the instances one at a time",
            self._plan.application_id,
            what,
            why,
        )

    def _obstacles(self, bound: BoundPlan, new: frozenset[str]) -> Iterator[str]:
        """Yield why a start with these topics would be refused, or would move keys."""
        stored = manifest(self._plan)
        plan = logged_as_stored(bound, stored, NOTHING_DECIDED)
        plan = replace(plan, forgotten=self._plan.forgotten)
        plan.topic_ids.update({**self._plan.topic_ids, **plan.topic_ids})
        for change in manifest_changes(stored, manifest(plan), NOTHING_DECIDED):
            if change.verdict > Verdict.COMPATIBLE:
                yield str(change)
        counts = {one.name: one.partitions for one in required_topics(self._plan, -1, {})}
        for one in required_topics(plan, -1, {}):
            if counts.get(one.name, one.partitions) != one.partitions:
                yield (
                    f"internal topic {one.name!r} has {counts[one.name]} partitions, and would need"
                    f" {one.partitions}"
                )
        for sub in plan.topology.sub_topologies:
            for source in sub.sources:
                reset = source.offset_reset or self._offset_reset
                begun = sorted({ref.name for ref in source.topics} & new)
                if begun and reset == "none":
                    yield f"offset_reset='none', and no offset of {', '.join(begun)} is committed"


def _listed(topics: frozenset[str]) -> str:
    return ", ".join(map(repr, sorted(topics)))
