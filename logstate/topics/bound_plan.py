"""A topology bound to an application id and to the cluster's partition counts.

From here on every name is the topic's real name and every count is known: the tasks, the
partitions that each one reads, the required changelog and repartition topics and their partition
counts. The input are descriptions of topics, the result a plan or one error with all problems.

Rules (Kafka Streams' unless said otherwise):
- a repartition topic has as many partitions as the largest source of the sub-topologies that write
  to it, unless the user enforced a number or it is co-partitioned with an external topic;
- external topics that are joined must have equal counts; a stateful sub-topology over sources of
  unequal counts is refused (ours: range assignment would split its tasks);
- a changelog has one partition per task of its sub-topology.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from logstate.contracts.clients import TopicDescription
from logstate.contracts.errors import TopicError
from logstate.contracts.records import TaskId, TopicPartition
from logstate.contracts.stores import StoreSpec
from logstate.contracts.topic_names import changelog_topic, is_changelog, topic_name
from logstate.topology.graph.nodes import TopicRef
from logstate.topology.graph.sub_topology import SubTopology
from logstate.topology.plan.plan import Topology


@dataclass(frozen=True)
class BoundPlan:
    """The plan that the workers run."""

    application_id: str
    topology: Topology
    partition_counts: Mapping[str, int]
    topic_ids: dict[str, str] = field(default_factory=dict)
    #: changelog -> guaranteed lifetime of a tombstone; only for topics whose settings limit it
    tombstone_lifetimes_ms: dict[str, int] = field(default_factory=dict)
    #: changelog -> the age at which brokers delete its records; only where they do
    retentions_ms: dict[str, int] = field(default_factory=dict)
    #: changelog -> an existing application that can have a changelog of the same name
    shared_changelogs: dict[str, str] = field(default_factory=dict)
    #: store -> its name when its changelog was created; only for stores renamed since
    logged_as: Mapping[str, str] = field(default_factory=dict)
    #: store -> all of its former names, oldest first; cuts may have its clocks under each
    formerly: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    #: internal topic by its usual name -> its name since the state was moved to other partitions
    moved_topics: Mapping[str, str] = field(default_factory=dict)
    #: name -> manifest entry of forgotten stores, whose changelogs still exist
    forgotten: Mapping[str, Any] = field(default_factory=dict)
    #: cache: sub-topology -> tasks
    _task_counts: dict[int, int] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    #: cache: topics of the topology -> their real names
    _resolved: dict[tuple[TopicRef, ...], tuple[str, ...]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    #: cache: task -> its inputs and its changelogs
    _inputs: dict[TaskId, tuple[TopicPartition, ...]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    _changelogs: dict[TaskId, Mapping[TopicPartition, StoreSpec]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def resolved(self, name: str, is_internal: bool) -> str:
        """Return the real name of a topic of the plan."""
        usual = topic_name(self.application_id, name, is_internal=is_internal)
        return self.moved_topics.get(usual, usual)

    def source_topics(self, sub_topology: SubTopology) -> tuple[str, ...]:
        """Return the real names of the topics that a sub-topology reads."""
        topics = sub_topology.source_topics
        names = self._resolved.get(topics)
        if names is None:
            names = tuple(self.resolved(ref.name, ref.is_internal) for ref in topics)
            self._resolved[topics] = names
        return names

    @property
    def subscription(self) -> list[str]:
        """Return every topic that the consumer group reads."""
        return sorted({t for sub in self.topology.sub_topologies for t in self.source_topics(sub)})

    def sub_topology(self, task_id: TaskId) -> SubTopology:
        """Return the sub-topology of a task."""
        return self._by_id[task_id.sub_topology]

    @cached_property
    def _by_id(self) -> Mapping[int, SubTopology]:
        return {sub.id: sub for sub in self.topology.sub_topologies}

    def task_count(self, sub_topology: SubTopology) -> int:
        """Return the number of tasks: the largest partition count of a sub-topology's sources."""
        # By number: the caller's sub-topology may have patterns instead of this plan's topics.
        count = self._task_counts.get(sub_topology.id)
        if count is None:
            topics = self.source_topics(self._by_id[sub_topology.id])
            count = max((self.partition_counts[topic] for topic in topics), default=0)
            self._task_counts[sub_topology.id] = count
        return count

    def input_partitions(self, task_id: TaskId) -> tuple[TopicPartition, ...]:
        """Return all partitions that a task reads."""
        found = self._inputs.get(task_id)
        if found is None:
            found = self._inputs[task_id] = tuple(
                TopicPartition(topic, task_id.partition)
                for topic in self.source_topics(self.sub_topology(task_id))
                if task_id.partition < self.partition_counts[topic]
            )
        return found

    def global_inputs(self) -> list[tuple[SubTopology, list[TopicPartition]]]:
        """Return the global sub-topologies, each with all partitions that it reads."""
        return [
            (sub, [TopicPartition(t, p) for t in topics for p in range(self.partition_counts[t])])
            for sub in self.topology.global_sub_topologies
            if (topics := self.source_topics(sub))
        ]

    def task_ids(self) -> list[TaskId]:
        """Return every task of the application."""
        return [
            TaskId(sub.id, partition)
            for sub in self.topology.sub_topologies
            for partition in range(self.task_count(sub))
        ]

    def changelog_topic(self, spec: StoreSpec) -> str | None:
        """Return the changelog topic of a store; None if it is not logged."""
        if not spec.is_logged:
            return None
        logged_as = self.logged_as.get(spec.name, spec.name)
        return spec.source_topic or changelog_topic(self.application_id, logged_as)

    def changelogs(self, task_id: TaskId) -> Mapping[TopicPartition, StoreSpec]:
        """Return the changelog partitions of a task, with their stores."""
        found = self._changelogs.get(task_id)
        if found is None:
            found = self._changelogs[task_id] = {
                TopicPartition(topic, task_id.partition): spec
                for spec in self.sub_topology(task_id).stores
                if (topic := self.changelog_topics[spec.name]) is not None
            }
        return found

    @cached_property
    def changelog_topics(self) -> Mapping[str, str | None]:
        """Store -> its changelog topic; None if it is not logged."""
        return {
            spec.name: self.changelog_topic(spec)
            for sub in self.topology.sub_topologies
            for spec in sub.stores
        }

    @cached_property
    def repartition_topics(self) -> frozenset[str]:
        """Internal topics that are both written and read, and purged after commits."""
        return frozenset(
            self.resolved(t.topic.name, t.topic.is_internal) for t in self.topology.internal_topics
        )

    def is_internal(self, topic: str) -> bool:
        """Return True for changelog, repartition and foreign-key topics."""
        return topic in self.repartition_topics or is_changelog(self.application_id, topic)

    def with_moved_topics(self, moved: Mapping[str, str]) -> BoundPlan:
        """Return the plan with the names that internal topics got when state was moved."""
        if not moved:
            return self
        counts = dict(self.partition_counts)
        counts.update({name: counts.pop(usual) for usual, name in moved.items() if usual in counts})
        return replace(self, moved_topics=moved, partition_counts=counts)


def external_topics(topology: Topology) -> list[str]:
    """Return the topics that must exist before the application starts."""
    every = (*topology.sub_topologies, *topology.global_sub_topologies)
    return sorted({ref.name for s in every for ref in s.source_topics if not ref.is_internal})


def bind(
    topology: Topology, application_id: str, existing: Mapping[str, TopicDescription]
) -> BoundPlan:
    """Bind to existing topics; raise TopicError that lists every problem."""
    problems = _read_twice(topology, application_id) or _missing(topology, existing)
    if problems:
        raise _error(problems)
    counts = {name: d.partitions for name, d in existing.items()}
    plan = BoundPlan(
        application_id,
        topology,
        _with_internal_counts(topology, application_id, counts),
        {name: d.topic_id for name, d in existing.items()},
    )
    problems = [*_copartition_problems(plan), *_enforce_counts(plan)]
    if problems:
        raise _error(problems)
    return plan


def check_sources(topology: Topology, application_id: str) -> None:
    """Raise TopicError if a repartition topic of the application is also read as a source."""
    problems = _read_twice(topology, application_id)
    if problems:
        raise _error(problems)


def _read_twice(topology: Topology, application_id: str) -> list[str]:
    made = {
        topic_name(application_id, one.topic.name, is_internal=one.topic.is_internal)
        for one in topology.internal_topics
    }
    return [
        f"source topic {name!r}: the application creates that topic for itself, between its"
        " sub-topologies. They would lose the records that another reader in their group gets, and"
        " processed records are deleted from it. Read the stream that repartition() returns, or"
        " write the records to a separate topic too"
        for name in external_topics(topology)
        if name in made
    ]


def _error(problems: list[str]) -> TopicError:
    if len(problems) == 1:
        return TopicError(problems[0])
    lines = "".join(f"\n  {i}. {p}" for i, p in enumerate(problems, 1))
    return TopicError(f"{len(problems)} problems with the topics:{lines}")


def _missing(topology: Topology, existing: Mapping[str, TopicDescription]) -> list[str]:
    return [
        f"source topic {name!r} does not exist; source topics are never created by the application:"
        " create it with the partition count you want, or correct the name"
        for name in external_topics(topology)
        if name not in existing
    ]


def _with_internal_counts(
    topology: Topology, application_id: str, external: Mapping[str, int]
) -> dict[str, int]:
    """Compute the counts of repartition topics from the topics that feed them."""
    counts = dict(external)

    def real(name: str, is_internal: bool) -> str:
        return topic_name(application_id, name, is_internal=is_internal)

    enforced = {
        real(t.topic.name, t.topic.is_internal): t.partitions for t in topology.internal_topics
    }
    counts.update({name: n for name, n in enforced.items() if n is not None})
    open_topics = {name for name, n in enforced.items() if n is None}
    for _ in range(len(open_topics) + 1):
        for sub in topology.sub_topologies:
            sources = [counts.get(real(r.name, r.is_internal), 0) for r in sub.source_topics]
            for ref in sub.sink_topics:
                name = real(ref.name, ref.is_internal)
                if name in open_topics:
                    counts[name] = max(counts.get(name, 0), *sources)
    for group in topology.copartition_groups:
        names = [real(r.name, r.is_internal) for r in group]
        fixed = [counts[n] for n in names if n not in open_topics and n in counts]
        wanted = fixed[0] if fixed else max((counts.get(n, 0) for n in names), default=0)
        for name in names:
            if name in open_topics:
                counts[name] = wanted
    return counts


def _copartition_problems(plan: BoundPlan) -> list[str]:
    problems = []
    for group in plan.topology.copartition_groups:
        counts = {
            (t := plan.resolved(r.name, r.is_internal)): plan.partition_counts[t] for r in group
        }
        if len(set(counts.values())) > 1:
            problems.append(
                f"topics that are joined or share a store have different partition counts: {counts}"
                "; records of one key would meet in different tasks. Recreate one with the other's"
                " count, or route it through repartition(partitions=...)"
            )
    if problems:
        return problems
    for sub in plan.topology.sub_topologies:
        counts = {t: plan.partition_counts[t] for t in plan.source_topics(sub)}
        if sub.stores and len(set(counts.values())) > 1:
            problems.append(
                f"sub-topology {sub.id} keeps state and reads topics of different partition counts:"
                f" {counts}. Partitions of one task could be given to different instances. Route"
                " the odd one through repartition(partitions=...)"
            )
    return problems


def _enforce_counts(plan: BoundPlan) -> list[str]:
    return [
        f"topic {name!r} would have no partitions: nothing that writes to it reads a topic"
        for name in plan.repartition_topics
        if plan.partition_counts.get(name, 0) < 1
    ]
