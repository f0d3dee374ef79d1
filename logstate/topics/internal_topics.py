"""The topics the application makes for itself: names, configurations, checks.

Pure except for the last two, which ask and create through the Admin seam. Existing topics are
never altered and never deleted: what does not fit is an error that names the remedy.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from logstate.contracts.clients import Admin, NewTopic, Step, Steps, TopicDescription
from logstate.contracts.compatibility import NOTHING_DECIDED, MigrationOptions
from logstate.contracts.errors import TopicError
from logstate.contracts.internal_topic_config import age_limit
from logstate.contracts.record_parts import is_topic
from logstate.contracts.topic_names import (
    REPARTITION_SUFFIX,
    changelog_topic,
    conflicting_topics,
    cuts_topic,
    instances_topic,
    is_changelog,
    is_own_beside_the_plan,
    shorter_ids,
    snapshots_topic,
    topic_name,
)
from logstate.topics.adoption import adopted
from logstate.topics.bound_plan import BoundPlan, bind, external_topics
from logstate.topics.cleanup_policies import (
    Configs,
    changelog_config,
    cleanup_of_changelogs,
    cleanup_of_repartitions,
    unfit_policy,
)
from logstate.topics.manifest_changes import Manifest
from logstate.topics.upgrade import accepted, logged_as_stored
from logstate.topology.plan.pattern_topics import patterns_of, with_matching_topics
from logstate.topology.plan.plan import Topology

_LOGGER = logging.getLogger(__name__)


def repartition_config() -> dict[str, str]:
    """Repartition topics keep everything until it was committed, then it is purged."""
    return {
        "cleanup.policy": "delete",
        "segment.bytes": "52428800",
        "retention.ms": "-1",
        "message.timestamp.type": "CreateTime",
    }


def required_topics(
    plan: BoundPlan, replication_factor: int, overrides: Mapping[str, str]
) -> list[NewTopic]:
    """Every internal topic with its partition count and configuration."""
    topics = [
        NewTopic(
            cuts_topic(plan.application_id),
            1,
            replication_factor,
            {"cleanup.policy": "compact", "message.timestamp.type": "CreateTime", **overrides},
        )
    ]
    for name in sorted(plan.repartition_topics):
        config = {**repartition_config(), **overrides}
        topics.append(NewTopic(name, plan.partition_counts[name], replication_factor, config))
    for sub in plan.topology.sub_topologies:
        for spec in sub.stores:
            changelog = plan.changelog_topics[spec.name]
            if changelog is not None and spec.source_topic is None:
                config = {**changelog_config(spec), **overrides}
                topics.append(NewTopic(changelog, plan.task_count(sub), replication_factor, config))
    return topics


def _way_to_keep(name: str, found: TopicDescription) -> str:
    """Kafka Streams may have computed another count; nothing has to be moved where it stays."""
    if not name.endswith(REPARTITION_SUFFIX):
        return ""
    return (
        ". If the topology is as it was, and Kafka Streams made the topic, keep its count:"
        f" repartition(name=..., partitions={found.partitions})"
    )


def mismatches(
    required: list[NewTopic],
    existing: Mapping[str, TopicDescription],
    configs: Mapping[str, Mapping[str, str]],
) -> list[str]:
    """What is wrong with internal topics that exist already."""
    problems = []
    for topic in required:
        if not is_topic(topic.name):
            problems.append(
                f"internal topic {topic.name!r} cannot be made: its name has {len(topic.name)}"
                " characters, and brokers take 1 to 249. Shorten the application_id, or the name of"
                " the store or operator that the topic is named after"
            )
        found = existing.get(topic.name)
        if found is None:
            continue
        if found.partitions != topic.partitions:
            problems.append(
                f"internal topic {topic.name!r} has {found.partitions} partitions and needs"
                f" {topic.partitions}; the partition count of a source changed, or the topic"
                " belongs to another application. Keys would be looked up in the wrong partition:"
                " move the state with `logstate reshard`, or use a new application_id."
                f" `logstate reset` would delete the state{_way_to_keep(topic.name, found)}"
            )
        config = configs.get(topic.name, {})
        if config.get("message.timestamp.type", "CreateTime") != "CreateTime":
            problems.append(
                f"internal topic {topic.name!r} has message.timestamp.type="
                f"{config['message.timestamp.type']!r}: brokers put their time in the place of"
                " event time, so restored rows and repartitioned records have other timestamps. It"
                " was probably created by hand. Set message.timestamp.type=CreateTime; records that"
                " are in it already keep the times that they have"
            )
        wanted = topic.config["cleanup.policy"]
        policy = config.get("cleanup.policy", wanted)
        # Where rows expire, nothing has to be compacted: so Kafka Streams makes those of its joins.
        if "delete" not in wanted and (problem := unfit_policy(topic.name, policy)):
            problems.append(problem)
    return problems


class Compared(NamedTuple):
    """Topics that hold state, as they are."""

    configs: Configs
    #: why a start would be refused
    problems: list[str]
    #: what a start warns of
    doubts: list[str]


def compared(
    admin: Admin,
    plan: BoundPlan,
    required: list[NewTopic],
    existing: Mapping[str, TopicDescription],
) -> Steps[Compared]:
    """What is wrong with those that exist, ours and source topics that hold a store."""
    reused = {s.source_topic for s in plan.topology.stores.values() if s.source_topic is not None}
    asked = sorted({*existing, *reused})
    configs = yield Step("topic_configs", admin.topic_configs, (asked,))
    problems, doubts = cleanup_of_changelogs(plan, configs)
    problems += cleanup_of_repartitions(plan, configs)
    return Compared(configs, problems + mismatches(required, existing, configs), doubts)


def own_topics(topology: Topology, application_id: str) -> frozenset[str]:
    """Every topic that the application makes for itself; a pattern of sources never means one."""
    names = [cuts_topic(application_id), instances_topic(application_id)]
    names.append(snapshots_topic(application_id))
    names += [changelog_topic(application_id, store) for store in topology.stores]
    internal = (topic.topic.name for topic in topology.internal_topics)
    names += [topic_name(application_id, name, is_internal=True) for name in internal]
    return frozenset(names)


def with_topics_of_patterns(
    admin: Admin, topology: Topology, application_id: str
) -> Steps[Topology]:
    """The topology that reads what its patterns match on the brokers, but for topics of its own."""
    if patterns_of(topology):
        found = yield Step("topic_names", admin.topic_names, ())
        own = own_topics(topology, application_id)
        foreign = [
            name
            for name in found
            if name not in own and not is_own_beside_the_plan(application_id, name)
        ]
        topology = with_matching_topics(topology, foreign)
    return topology


def check_topics_of_others(
    admin: Admin,
    topology: Topology,
    application_id: str,
    *,
    dead_letter_topic: str | None = None,
) -> Steps[BoundPlan]:
    """The plan, bound to the topics that are read and written; raises TopicError."""
    topology = yield from with_topics_of_patterns(admin, topology, application_id)
    external = external_topics(topology)
    existing = yield Step("describe_topics", admin.describe_topics, (external,))
    plan = bind(topology, application_id, existing)
    described = yield from _outputs(admin, plan, dead_letter_topic)
    # Partitioners of output topics are told how many partitions there are.
    outputs = {name: d.partitions for name, d in described.items()}
    return replace(plan, partition_counts={**outputs, **plan.partition_counts})


def prepare(
    admin: Admin,
    plan: BoundPlan,
    *,
    replication_factor: int,
    overrides: Mapping[str, str],
    stored: Manifest | None = None,
    decisions: MigrationOptions = NOTHING_DECIDED,
) -> Steps[BoundPlan]:
    """Check our own topics, and what is stored in them; create those that are missing.

    ``stored`` is the manifest that was written last; None where there is none. Raises TopicError,
    or UpgradeError where the plan does not fit what is stored; nothing was created then.
    """
    plan = logged_as_stored(plan, stored, decisions)
    shorter = tuple(map(cuts_topic, shorter_ids(plan.application_id)))
    beginning = f"{plan.application_id}-"
    found = yield Step("describe_topics", admin.describe_topics, (shorter, beginning))
    others = conflicting_topics(plan.application_id, found)
    found = {name: one for name, one in found.items() if name.startswith(beginning)}
    if stored is None:
        plan = yield from adopted(admin, plan, found, decisions)
    required = required_topics(plan, replication_factor, overrides)
    names = [topic.name for topic in required]
    existing = {name: found[name] for name in names if name in found}
    plan.topic_ids.update({name: d.topic_id for name, d in existing.items()})
    plan = accepted(plan, stored, decisions)
    plan.shared_changelogs.update(
        (name, other)
        for name in existing
        for other in others
        if is_changelog(other, name) and is_changelog(plan.application_id, name)
    )
    configs, problems, doubts = yield from compared(admin, plan, required, existing)
    for doubt in doubts:
        _LOGGER.warning(doubt)
    if problems:
        raise TopicError("; ".join(problems))
    missing = [topic for topic in required if topic.name not in existing]
    if missing:
        yield Step("create_topics", admin.create_topics, (missing,))
        existing = yield Step("describe_topics", admin.describe_topics, (names,))
        problems = mismatches(missing, existing, {})  # another instance may have been quicker
        if problems:
            raise TopicError("; ".join(problems))
        plan.topic_ids.update({name: d.topic_id for name, d in existing.items()})
    known = {**configs} | {topic.name: topic.config for topic in missing}
    plan.retentions_ms.update(
        (name, limit) for name, one in known.items() if (limit := age_limit(one)) is not None
    )
    plan.tombstone_lifetimes_ms.update(
        (name, int(config["delete.retention.ms"]))
        for name, config in configs.items()
        if "delete.retention.ms" in config
    )
    return plan


def outputs_of(
    topology: Topology, application_id: str, dead_letter_topic: str | None = None
) -> dict[str, str]:
    """The topics that are written to, and what each is; raises TopicError for our own.

    What is written to a changelog beside its store would be state after the next restore.
    """
    sinks = [ref for sub in topology.sub_topologies for ref in sub.sink_topics]
    outputs = {ref.name: "output topic" for ref in sinks if not ref.is_internal}
    if dead_letter_topic is not None:
        outputs[dead_letter_topic] = "dead letter topic"
    own = sorted(outputs.keys() & own_topics(topology, application_id))
    if own:
        raise TopicError(
            f"{', '.join(f'{outputs[name]} {name!r}' for name in own)}: this application makes that"
            " topic for itself, for its state or between its parts, and other records in it would"
            " be read as such. Write to a topic of another name"
        )
    return outputs


def _outputs(
    admin: Admin, plan: BoundPlan, dead_letter_topic: str | None
) -> Steps[Mapping[str, TopicDescription]]:
    """The topics that are written to; raises TopicError as `outputs_of`, and for what is not there.

    Not left to the first record: it would come hours later, and fail its transaction.
    """
    outputs = outputs_of(plan.topology, plan.application_id, dead_letter_topic)
    described = yield Step("describe_topics", admin.describe_topics, (sorted(outputs),))
    missing = [f"{outputs[name]} {name!r}" for name in sorted(outputs) if name not in described]
    if missing:
        raise TopicError(
            f"{', '.join(missing)}: there is no such topic. Topics of others are never created"
            " here, not even where the brokers would do it with the first record: partition count"
            " and retention are decisions. Create it, or correct the name"
        )
    return described  # type: ignore[no-any-return]
