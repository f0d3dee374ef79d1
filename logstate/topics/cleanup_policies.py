"""The cleanup settings of changelogs: those of new topics, and checks of existing ones.

Existing topics are never altered: a setting that certainly loses rows is a problem, one that loses
rows only with old data is a doubt.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from logstate.changelog.stores.kinds import kind_of
from logstate.contracts.internal_topic_config import retention_limits
from logstate.contracts.stores import StoreSpec
from logstate.topics.bound_plan import BoundPlan
from logstate.topology.graph.nodes import ProcessorNode

Configs = Mapping[str, Mapping[str, str]]

#: Kafka Streams' windowstore.changelog.additional.retention.ms
_EXTRA_RETENTION_MS = 86_400_000
#: Kafka's maximum
_NEVER_MS = 2**63 - 1


def changelog_config(spec: StoreSpec) -> dict[str, str]:
    """Return the configuration of a store's changelog.

    It equals Kafka Streams' except for the effects of old event times. Brokers compare them with
    their wall clock, so reprocessing would lose live rows:

    - of windowed stores, by retention: nothing is deleted by time; the owner of the partition
      deletes expired rows (which needs the policy "delete": brokers refuse DeleteRecords on topics
      that are only compacted);
    - of versioned stores, by compaction: a segment ends where timestamps jump back, and versions in
      it whose history has not ended are compacted at once. Here, no segment ends by time.
    """
    kind = kind_of(spec)
    config = {"cleanup.policy": "compact", "message.timestamp.type": "CreateTime"}
    if kind.is_segmented:
        config["cleanup.policy"] = "compact,delete"
        config["retention.ms"] = "-1"
    if kind.is_versioned:
        # Brokers measure the lag by the youngest timestamp of a segment. Records have event times,
        # which may be old; a transaction marker in the same segment has the current time.
        config["min.compaction.lag.ms"] = str((spec.history_ms or 0) + _EXTRA_RETENTION_MS)
        config["segment.ms"] = str(_NEVER_MS)
    config.update(spec.changelog_config)
    return config


def cleanup_of_changelogs(plan: BoundPlan, configs: Configs) -> tuple[list[str], list[str]]:
    """Return problems and doubts; ``configs`` is of the existing topics."""
    problems: list[str] = []
    doubts: list[str] = []
    for spec in plan.topology.stores.values():
        topic = plan.changelog_topics[spec.name]
        config = None if topic is None else configs.get(topic)
        if topic is None or config is None:
            continue
        if spec.source_topic is not None:
            doubts += _of_source_topic(plan, spec, config)
        elif kind_of(spec).is_segmented:
            for is_certain, what in _of_windows(spec, topic, config):
                (problems if is_certain else doubts).append(what)
        elif kind_of(spec).is_versioned:
            problems += _of_lag(spec, topic, config)
            doubts += _of_versions(spec, topic, config)
    return problems, doubts


def cleanup_of_repartitions(plan: BoundPlan, configs: Configs) -> list[str]:
    """Return problems of existing repartition topics: records must stay until they are read."""
    return [
        problem
        for topic in sorted(plan.repartition_topics & configs.keys())
        for problem in repartition_problems(topic, configs[topic])
    ]


def repartition_problems(topic: str, config: Mapping[str, str]) -> Iterator[str]:
    """Yield the settings by which brokers delete unprocessed records of a repartition topic."""
    policy = config.get("cleanup.policy", "delete")
    if "compact" in policy:
        yield (
            f"repartition topic {topic!r} has cleanup.policy={policy!r}: brokers would remove"
            " unprocessed records if a later one has the same key, and refuse to delete"
            f" processed ones. {_alter(topic, 'cleanup.policy=delete')}"
        )
    if "delete" not in policy:
        return
    for limit in retention_limits(config, 0):
        found = f"repartition topic {topic!r} has {limit.setting}={limit.value}"
        why = "brokers delete records beyond it whether they are processed or not"
        if limit.is_of_age:
            why += ", and compare event time with their own clock, so they delete all old data"
        yield (
            f"{found}: {why}. Records are deleted once they are processed."
            f" {_alter(topic, f'{limit.setting}=-1')}"
        )


def _alter(topic: str, setting: str) -> str:
    return (
        "The topic was probably created by a tool, by hand or automatically. Set it with"
        f" `kafka-configs --alter --entity-type topics --entity-name {topic} --add-config"
        f" {setting}`"
    )


def policy_problem(topic: str, policy: str) -> str:
    """Return why a topic whose records never expire must not have this policy; empty if it may."""
    if {part.strip() for part in policy.split(",")} == {"compact"}:
        return ""
    return (
        f"topic {topic!r} has cleanup.policy={policy!r} and would lose state: records in it never"
        " expire, and brokers delete those beyond retention.ms (seven days by default) or"
        f" retention.bytes. {_alter(topic, 'cleanup.policy=compact')}; deleted records are not"
        " recovered"
    )


def _of_windows(
    spec: StoreSpec, topic: str, config: Mapping[str, str]
) -> Iterator[tuple[bool, str]]:
    """Yield whether rows are certainly lost, and how."""
    policy = config.get("cleanup.policy", "delete")
    if "delete" not in policy:
        grows = (
            f"changelog topic {topic!r} has cleanup.policy={policy!r}: brokers refuse to delete"
            f" expired rows of store {spec.name!r}, so the topic grows, and restores take"
            f" longer. {_alter(topic, 'cleanup.policy=[compact,delete],retention.ms=-1')}"
        )
        yield False, grows
        return
    for limit in retention_limits(config, spec.retention_ms or 0):
        found = f"changelog topic {topic!r} has {limit.setting}={limit.value}"
        remedy = f"Set {limit.setting}=-1; the owner of the partition deletes expired rows"
        is_certain = limit.deletes_rows
        if is_certain and limit.is_of_age:
            how = (
                f", and store {spec.name!r} keeps its rows for {spec.retention_ms} ms: those in"
                " between would be missing after a restore"
            )
        elif limit.is_of_age and limit.setting in spec.changelog_config:
            continue
        else:
            why = "brokers delete records beyond it, whatever their age, so"
            if limit.is_of_age:
                why = "brokers compare event time with their own clock, so of older data,"
            how = (
                f": {why} rows of store {spec.name!r} that are still needed are missing after a"
                " restore"
            )
        yield is_certain, f"{found}{how}. {remedy}"


def _of_lag(spec: StoreSpec, topic: str, config: Mapping[str, str]) -> Iterator[str]:
    lag_ms, history_ms = int(config.get("min.compaction.lag.ms", _NEVER_MS)), spec.history_ms or 0
    if lag_ms < history_ms:
        yield (
            f"changelog topic {topic!r} has min.compaction.lag.ms={lag_ms}, and store"
            f" {spec.name!r} keeps the versions of {history_ms} ms: versions that are compacted"
            " earlier would be missing after a restore."
            f" {_alter(topic, f'min.compaction.lag.ms={history_ms + _EXTRA_RETENTION_MS}')}"
        )


def _of_versions(spec: StoreSpec, topic: str, config: Mapping[str, str]) -> Iterator[str]:
    segment_ms = int(config.get("segment.ms", _NEVER_MS))
    if segment_ms < _NEVER_MS and "segment.ms" not in spec.changelog_config:
        yield (
            f"changelog topic {topic!r} has segment.ms={segment_ms}, like those of Kafka Streams:"
            f" of older data, versions in store {spec.name!r} whose history has not ended"
            f" may be compacted and are missing after a restore. Set segment.ms={_NEVER_MS}"
        )


def _of_source_topic(plan: BoundPlan, spec: StoreSpec, config: Mapping[str, str]) -> Iterator[str]:
    """Yield risky settings of source topics that serve as changelogs, allowed in Kafka Streams."""
    policy = config.get("cleanup.policy", "compact")
    serves = f"topic {spec.source_topic!r} serves as the changelog of store {spec.name!r}"
    if "delete" in policy:
        yield (
            f"{serves} and has cleanup.policy={policy!r}: rows that its retention deletes are"
            " missing after a restore. Set cleanup.policy=compact, or build without"
            " 'reuse_source_topics'"
        )
    elif _needs_old_values(plan, spec):
        yield (
            f"{serves}, whose old values are needed downstream: if compaction has removed the value"
            " that a record replaces, a restore onto an empty disk cannot know it, and aggregations"
            " subtract too little. Build without 'reuse_source_topics' to be safe"
        )


def _needs_old_values(plan: BoundPlan, spec: StoreSpec) -> bool:
    return any(
        getattr(node, "sends_old_values", False)
        and spec.name in {s.name for s in node.own_stores()}
        for sub in plan.topology.sub_topologies
        for node in sub.nodes
        if isinstance(node, ProcessorNode)
    )
