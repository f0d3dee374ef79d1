"""The topics that the application creates for itself: names, configurations, checks.

Existing topics are never altered and never deleted: what does not fit is an error that names the
remedy.
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
    policy_problem,
)
from logstate.topics.manifest_changes import Manifest
from logstate.topics.upgrade import accepted, logged_as_stored
from logstate.topology.plan.pattern_topics import patterns_of, with_matching_topics
from logstate.topology.plan.plan import Topology

_LOGGER = logging.getLogger(__name__)


def repartition_config() -> dict[str, str]:
    """Repartition topics keep every record until it is processed and committed."""
    return {
        "cleanup.policy": "delete",
        "segment.bytes": "52428800",
        "retention.ms": "-1",
        "message.timestamp.type": "CreateTime",
    }


def required_topics(
    plan: BoundPlan, replication_factor: int, overrides: Mapping[str, str]
) -> list[NewTopic]:
    """Return every internal topic with its partition count and configuration."""
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


def _how_to_keep_partition_count(name: str, found: TopicDescription) -> str:
    """Kafka Streams may have computed another count; keeping it avoids a move of the state."""
    if not name.endswith(REPARTITION_SUFFIX):
        return ""
    return (
        ". If the topology did not change, and Kafka Streams created the topic, keep its count:"
        f" repartition(name=..., partitions={found.partitions})"
    )


def mismatches(
    required: list[NewTopic],
    existing: Mapping[str, TopicDescription],
    configs: Mapping[str, Mapping[str, str]],
) -> list[str]:
    """Return what is wrong with existing internal topics."""
    problems = []
    for topic in required:
        if not is_topic(topic.name):
            problems.append(
                f"internal topic {topic.name!r} cannot be created: its name has {len(topic.name)}"
                " characters, and brokers allow 1 to 249. Shorten the application_id, or the name"
                " of the store or operator that the topic is named after"
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
                " `logstate reset` would delete the"
                f" state{_how_to_keep_partition_count(topic.name, found)}"
            )
        config = configs.get(topic.name, {})
        if config.get("message.timestamp.type", "CreateTime") != "CreateTime":
            problems.append(
                f"internal topic {topic.name!r} has message.timestamp.type="
                f"{config['message.timestamp.type']!r}: brokers replace event time by their"
                " time, so restored rows and repartitioned records have other timestamps. It"
                " was probably created by hand. Set message.timestamp.type=CreateTime; existing"
                " records keep their times"
            )
        wanted = topic.config["cleanup.policy"]
        policy = config.get("cleanup.policy", wanted)
        # Expiring rows need no compaction: Kafka Streams creates its join topics that way.
        if "delete" not in wanted and (problem := policy_problem(topic.name, policy)):
            problems.append(problem)
    return problems


class Compared(NamedTuple):
    """Existing topics that hold state."""

    configs: Configs
    #: reasons to refuse a start
    problems: list[str]
    #: warnings of a start
    doubts: list[str]


def compared(
    admin: Admin,
    plan: BoundPlan,
    required: list[NewTopic],
    existing: Mapping[str, TopicDescription],
) -> Steps[Compared]:
    """Return the problems of existing internal topics and source topics that hold a store."""
    reused = {s.source_topic for s in plan.topology.stores.values() if s.source_topic is not None}
    asked = sorted({*existing, *reused})
    configs = yield Step("topic_configs", admin.topic_configs, (asked,))
    problems, doubts = cleanup_of_changelogs(plan, configs)
    problems += cleanup_of_repartitions(plan, configs)
    return Compared(configs, problems + mismatches(required, existing, configs), doubts)


def own_topics(topology: Topology, application_id: str) -> frozenset[str]:
    """Return every topic that the application creates; source patterns never match them."""
    names = [cuts_topic(application_id), instances_topic(application_id)]
    names.append(snapshots_topic(application_id))
    names += [changelog_topic(application_id, store) for store in topology.stores]
    internal = (topic.topic.name for topic in topology.internal_topics)
    names += [topic_name(application_id, name, is_internal=True) for name in internal]
    return frozenset(names)


def with_topics_of_patterns(
    admin: Admin, topology: Topology, application_id: str
) -> Steps[Topology]:
    """Return the topology with patterns replaced by matching topics, without its own topics."""
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
    """Return the plan, bound to the topics that are read and written; raise TopicError."""
    topology = yield from with_topics_of_patterns(admin, topology, application_id)
    external = external_topics(topology)
    existing = yield Step("describe_topics", admin.describe_topics, (external,))
    plan = bind(topology, application_id, existing)
    described = yield from _outputs(admin, plan, dead_letter_topic)
    # Partitioners of output topics receive the partition count.
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
    """Check internal topics and the stored state; create missing topics.

    ``stored`` is the newest manifest; None if there is none. Raises TopicError, or UpgradeError if
    the plan does not fit the stored state; then nothing was created.
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
        problems = mismatches(missing, existing, {})  # another instance may have created them
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
    """Return the output topics with their purpose; raise TopicError for the application's own.

    Records that others write to a changelog would become state at the next restore.
    """
    sinks = [ref for sub in topology.sub_topologies for ref in sub.sink_topics]
    outputs = {ref.name: "output topic" for ref in sinks if not ref.is_internal}
    if dead_letter_topic is not None:
        outputs[dead_letter_topic] = "dead letter topic"
    own = sorted(outputs.keys() & own_topics(topology, application_id))
    if own:
        raise TopicError(
            f"{', '.join(f'{outputs[name]} {name!r}' for name in own)}: the application creates"
            " that topic for its state or between its sub-topologies, and would read other records"
            " in it as such. Write to a topic of another name"
        )
    return outputs


def _outputs(
    admin: Admin, plan: BoundPlan, dead_letter_topic: str | None
) -> Steps[Mapping[str, TopicDescription]]:
    """Return the output topics; raise TopicError like `outputs_of`, and for missing ones.

    The first record would only fail hours later, together with its transaction.
    """
    outputs = outputs_of(plan.topology, plan.application_id, dead_letter_topic)
    described = yield Step("describe_topics", admin.describe_topics, (sorted(outputs),))
    missing = [f"{outputs[name]} {name!r}" for name in sorted(outputs) if name not in described]
    if missing:
        raise TopicError(
            f"{', '.join(missing)}: the topic does not exist. logstate never creates input and"
            " output topics, not even if the brokers would do it with the first record: choose the"
            " partition count and the retention. Create it, or correct the name"
        )
    return described  # type: ignore[no-any-return]
