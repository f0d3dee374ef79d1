"""The topics that an application needs before its first start: existing and missing ones.

An administrator may want to create or review them first. The names, counts and configurations are
those of a start (:mod:`logstate.topics.internal_topics`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from logstate.contracts.clients import Admin, NewTopic, Step, Steps, TopicDescription
from logstate.contracts.compatibility import NOTHING_DECIDED, MigrationOptions
from logstate.topics.adoption import adopted
from logstate.topics.bound_plan import BoundPlan
from logstate.topics.cleanup_policies import Configs, cleanup_of_changelogs, repartition_problems
from logstate.topics.internal_topics import check_topics_of_others, mismatches, required_topics
from logstate.topics.manifest_changes import Manifest
from logstate.topics.upgrade import accepted, logged_as_stored
from logstate.topology.plan.plan import Topology


class RequiredTopic(NamedTuple):
    """One topic, as required and as it exists."""

    topic: NewTopic
    exists: bool
    #: settings that differ from those of a start: (name, found, chosen)
    differences: tuple[tuple[str, str, str], ...] = ()
    #: reason to refuse a start; empty if there is none
    problem: str = ""


class RequiredTopics(NamedTuple):
    """All required topics."""

    topics: list[RequiredTopic]
    #: problems of external topics that hold a store
    problems: list[str]
    #: warnings of a start
    doubts: list[str]

    @property
    def is_refused(self) -> bool:
        """Whether a start would be refused."""
        return bool(self.problems) or any(one.problem for one in self.topics)

    @property
    def missing(self) -> list[NewTopic]:
        """The topics that a start would create."""
        return [one.topic for one in self.topics if not one.exists]


def topics_ahead(
    admin: Admin,
    topology: Topology,
    application_id: str,
    stored: Manifest | None,
    *,
    replication_factor: int,
    overrides: Mapping[str, str],
    others: Sequence[NewTopic] = (),
    decisions: MigrationOptions = NOTHING_DECIDED,
) -> Steps[RequiredTopics]:
    """Compare required and existing topics; ``others`` are needed in addition.

    Raises TopicError if external topics are missing or do not fit, and UpgradeError if stored state
    of logstate or another library does not fit.
    """
    plan = yield from check_topics_of_others(admin, topology, application_id)
    plan = logged_as_stored(plan, stored, decisions)
    found = yield Step("describe_topics", admin.describe_topics, ((), f"{application_id}-"))
    if stored is None:
        plan = yield from adopted(admin, plan, found, decisions)
    required = [*required_topics(plan, replication_factor, overrides), *others]
    existing = {one.name: found[one.name] for one in required if one.name in found}
    plan.topic_ids.update({name: one.topic_id for name, one in existing.items()})
    plan = accepted(plan, stored, decisions)
    asked = sorted({*existing, *_of_others(plan)})
    configs = yield Step("topic_configs", admin.topic_configs, (asked,))
    problems, doubts = cleanup_of_changelogs(plan, configs)
    topics = [
        RequiredTopic(
            one,
            one.name in existing,
            tuple(_differences(one, configs.get(one.name, {}))),
            "; ".join(_problems(plan, one, existing, configs)),
        )
        for one in required
    ]
    return RequiredTopics(topics, problems, doubts)


def _problems(
    plan: BoundPlan, topic: NewTopic, existing: Mapping[str, TopicDescription], configs: Configs
) -> list[str]:
    problems = mismatches([topic], existing, configs)
    if topic.name in plan.repartition_topics and topic.name in configs:
        problems += repartition_problems(topic.name, configs[topic.name])
    return problems


def _of_others(plan: BoundPlan) -> set[str]:
    """Return source topics that hold a store."""
    stores = plan.topology.stores.values()
    return {spec.source_topic for spec in stores if spec.source_topic is not None}


def _differences(topic: NewTopic, config: Mapping[str, str]) -> list[tuple[str, str, str]]:
    return [
        (name, config[name], chosen)
        for name, chosen in topic.config.items()
        if name in config and _policies(config[name]) != _policies(chosen)
    ]


def _policies(setting: str) -> list[str]:
    """Return a list of policies without its order."""
    return sorted(one.strip() for one in setting.split(","))
