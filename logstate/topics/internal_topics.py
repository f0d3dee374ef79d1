"""The topics the application makes for itself: names, configurations, checks.

Pure except for :func:`prepare`, which asks and creates through the Admin seam. Existing topics are
never altered and never deleted: what does not fit is an error that names the remedy.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace

from logstate.contracts.errors import TopicError
from logstate.contracts.seams import Admin, NewTopic, Step, Steps, TopicDescription
from logstate.contracts.stores import StoreSpec
from logstate.contracts.topic_names import changelog_topic, cuts_topic, topic_name
from logstate.topics.bound_plan import BoundPlan, bind, external_topics
from logstate.topology.graph.nodes import ProcessorNode
from logstate.topology.plan.pattern_topics import patterns_of, with_matching_topics
from logstate.topology.plan.plan import Topology

_LOGGER = logging.getLogger(__name__)

#: Kafka Streams' windowstore.changelog.additional.retention.ms
_EXTRA_RETENTION_MS = 86_400_000


def changelog_config(spec: StoreSpec) -> dict[str, str]:
    """Configuration of a store's changelog.

    As Kafka Streams', but for one thing: the broker never deletes from the changelog of a windowed
    store by time. Retention compares event time with the broker's wall clock, so reprocessing old
    data would delete live windows; their owner trims what has expired (which needs the policy
    "delete": brokers refuse DeleteRecords on topics that are only compacted).
    """
    config = {"cleanup.policy": "compact", "message.timestamp.type": "CreateTime"}
    if spec.traits.is_segmented:
        config["cleanup.policy"] = "compact,delete"
        config["retention.ms"] = "-1"
    if spec.traits.is_versioned:
        config["min.compaction.lag.ms"] = str((spec.history_ms or 0) + _EXTRA_RETENTION_MS)
    config.update(spec.changelog_config)
    return config


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
            changelog = plan.changelog_topic(spec)
            if changelog is not None and spec.source_topic is None:
                config = {**changelog_config(spec), **overrides}
                topics.append(NewTopic(changelog, plan.task_count(sub), replication_factor, config))
    return topics


def mismatches(
    required: list[NewTopic],
    existing: Mapping[str, TopicDescription],
    configs: Mapping[str, Mapping[str, str]],
) -> list[str]:
    """What is wrong with internal topics that exist already."""
    problems = []
    for topic in required:
        found = existing.get(topic.name)
        if found is None:
            continue
        if found.partitions != topic.partitions:
            problems.append(
                f"internal topic {topic.name!r} has {found.partitions} partitions and needs"
                f" {topic.partitions}; the partition count of a source changed, or the topic"
                " belongs to another application. Keys would be looked up in the wrong partition:"
                " use a new application_id, or reset this one and delete the topic"
            )
        policy = configs.get(topic.name, {}).get("cleanup.policy", topic.config["cleanup.policy"])
        if "compact" in topic.config["cleanup.policy"] and "compact" not in policy:
            problems.append(
                f"changelog topic {topic.name!r} has cleanup.policy={policy!r} and would lose"
                " state; it was probably created by hand or automatically. Set"
                " cleanup.policy=compact"
            )
    return problems


def doubts(plan: BoundPlan, configs: Mapping[str, Mapping[str, str]]) -> list[str]:
    """What is allowed of source topics that serve as changelogs, as in Kafka Streams, and risky."""
    found = []
    for spec in plan.topology.stores.values():
        if spec.source_topic is None:
            continue
        policy = configs.get(spec.source_topic, {}).get("cleanup.policy", "compact")
        if "compact" not in policy:
            found.append(
                f"topic {spec.source_topic!r} serves as the changelog of store {spec.name!r} and"
                f" has cleanup.policy={policy!r}: rows that its retention deletes are missing after"
                " a restore. Set cleanup.policy=compact, or build without 'reuse_source_topics'"
            )
        elif _needs_old_values(plan, spec):
            found.append(
                f"topic {spec.source_topic!r} serves as the changelog of store {spec.name!r}, whose"
                " old values are needed downstream: where compaction has removed what a record"
                " replaces, a restore onto an empty disk cannot know it, and aggregations subtract"
                " too little. Build without 'reuse_source_topics' to be safe"
            )
    return found


def _needs_old_values(plan: BoundPlan, spec: StoreSpec) -> bool:
    return any(
        getattr(node, "sends_old_values", False)
        and spec.name in {s.name for s in node.own_stores()}
        for sub in plan.topology.sub_topologies
        for node in sub.nodes
        if isinstance(node, ProcessorNode)
    )


def own_topics(topology: Topology, application_id: str) -> frozenset[str]:
    """Every topic that the application makes for itself; a pattern of sources never means one."""
    names = [cuts_topic(application_id)]
    names += [changelog_topic(application_id, store) for store in topology.stores]
    internal = (topic.topic.name for topic in topology.internal_topics)
    names += [topic_name(application_id, name, is_internal=True) for name in internal]
    return frozenset(names)


def prepare(
    admin: Admin,
    topology: Topology,
    application_id: str,
    *,
    replication_factor: int,
    overrides: Mapping[str, str],
    dead_letter_topic: str | None = None,
) -> Steps[BoundPlan]:
    """Check the topics of others, create our own that are missing, return the bound plan."""
    if patterns_of(topology):
        found = yield Step("topic_names", admin.topic_names, ())
        own = own_topics(topology, application_id)
        topology = with_matching_topics(topology, [name for name in found if name not in own])
    external = external_topics(topology)
    existing = yield Step("describe_topics", admin.describe_topics, (external,))
    plan = bind(topology, application_id, existing)
    described = yield from _outputs(admin, plan, dead_letter_topic)
    required = required_topics(plan, replication_factor, overrides)
    names = [topic.name for topic in required]
    reused = {s.source_topic for s in topology.stores.values() if s.source_topic is not None}
    existing = yield Step("describe_topics", admin.describe_topics, (names,))
    asked = sorted({*existing, *reused})
    configs = yield Step("topic_configs", admin.topic_configs, (asked,))
    for doubt in doubts(plan, configs):
        _LOGGER.warning(doubt)
    problems = mismatches(required, existing, configs)
    if problems:
        raise TopicError("; ".join(problems))
    missing = [topic for topic in required if topic.name not in existing]
    if missing:
        yield Step("create_topics", admin.create_topics, (missing,))
        existing = yield Step("describe_topics", admin.describe_topics, (names,))
        problems = mismatches(missing, existing, {})  # another instance may have been quicker
        if problems:
            raise TopicError("; ".join(problems))
    plan.tombstone_lifetimes_ms.update(
        (name, int(config["delete.retention.ms"]))
        for name, config in configs.items()
        if "delete.retention.ms" in config
    )
    plan.topic_ids.update({name: d.topic_id for name, d in existing.items()})
    # Partitioners of output topics are told how many partitions there are.
    return replace(
        plan,
        partition_counts={
            **{name: d.partitions for name, d in described.items()},
            **plan.partition_counts,
        },
    )


def _outputs(
    admin: Admin, plan: BoundPlan, dead_letter_topic: str | None
) -> Steps[Mapping[str, TopicDescription]]:
    """The topics that are written to; raises TopicError for those that do not exist.

    Not left to the first record: it would come hours later, and fail its transaction.
    """
    sinks = [ref for sub in plan.topology.sub_topologies for ref in sub.sink_topics]
    outputs = {ref.name: "output topic" for ref in sinks if not ref.is_internal}
    if dead_letter_topic is not None:
        outputs[dead_letter_topic] = "dead letter topic"
    described = yield Step("describe_topics", admin.describe_topics, (sorted(outputs),))
    missing = [f"{outputs[name]} {name!r}" for name in sorted(outputs) if name not in described]
    if missing:
        raise TopicError(
            f"{', '.join(missing)}: there is no such topic. Topics of others are never created"
            " here, not even where the brokers would do it with the first record: partition count"
            " and retention are decisions. Create it, or correct the name"
        )
    return described  # type: ignore[no-any-return]
