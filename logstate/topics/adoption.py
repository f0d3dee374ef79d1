"""Take over an application from Kafka Streams: do its stores and topics have these names?

Kafka Streams writes no manifest, but its committed offsets and internal topics identify it. A store
under another name would start empty, and so would a store whose changelog the JVM kept in its
source topic; both are resolved before the first start with logstate:

    offsets of the group ──┐
                           ├─ adoption_changes ─ start with `logged_as`, or UpgradeError
    topics of the group  ──┘

Kinds, windows and serdes are not compared: the brokers do not store them.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from logstate.changelog.cut import decode_cut
from logstate.changelog.stores.kinds import kind_of
from logstate.changelog.stores.timestamped_key_value import TIMESTAMPED_KEY_VALUE
from logstate.contracts.clients import Admin, Committed, Step, Steps
from logstate.contracts.compatibility import MigrationOptions, SpecChange, Verdict
from logstate.contracts.errors import UpgradeError
from logstate.contracts.stores import StoreSpec
from logstate.contracts.topic_names import cuts_topic, is_changelog, is_repartition, store_of
from logstate.topics.bound_plan import BoundPlan
from logstate.topics.manifest_changes import OF_KAFKA_STREAMS
from logstate.topics.upgrade import check

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


_LOGGER = logging.getLogger(__name__)

_NEW = (
    "It would start empty. Take over with the existing stores, and add others with a later version"
)
_NOT_LOGGED = (
    "If Kafka Streams keeps it without a changelog (withLoggingDisabled), declare it with"
    " logged=False"
)
_UNDER_ANOTHER_NAME = "If it is one of the stores that nothing reads ({others}), say renamed="
_IN_ITS_SOURCE = (
    "With topology.optimization=all Kafka Streams keeps a source table in its source topic: build"
    " with that optimization, too"
)
_LEFT_BEHIND = (
    "Its rows would be abandoned silently: if it has another name now, say"
    " renamed={{{name!r}: ...}} (name stores of the JVM with Materialized.as); if it is not needed"
    " any more, or belongs to an application whose id begins like this one, say forget={{{name!r}}}"
)
_LOGGED = (
    "Kafka Streams wrote its changelog, but this topology reads it from its source topic: build"
    " without reuse of source topics"
)
_LOGGED_THERE_ONLY = (
    "Kafka Streams wrote its changelog, but this topology would start it empty:"
    " declare the store without logged=False. If its rows are not needed, declare it under another"
    " name, and say forget={{{name!r}}}"
)
_TOPIC_LEFT = (
    "Records in it that the JVM did not process would be lost. Give it its old name, build with"
    " the same optimization, or say forget={{{name!r}}}"
)


class KafkaStreamsLeftovers(NamedTuple):
    """The internal topics of an application, by purpose."""

    changelogs: frozenset[str]
    repartition_topics: frozenset[str]


def adopted(
    admin: Admin, plan: BoundPlan, topics: Collection[str], decisions: MigrationOptions
) -> Steps[BoundPlan]:
    """Return the plan that continues after Kafka Streams, if it ran here; or raise UpgradeError."""
    left = yield from left_by_kafka_streams(admin, plan, topics)
    if left is None:
        refuse_tables_left_by_faust(plan, topics)
        return plan
    plan = adopting(plan, left, decisions)
    check(plan.application_id, adoption_changes(plan, left, decisions))
    _LOGGER.info(
        "application %s: Kafka Streams on the JVM ran it before; continuing with its offsets and"
        " the changelogs %s",
        plan.application_id,
        sorted(left.changelogs),
    )
    return plan


def left_by_kafka_streams(
    admin: Admin, plan: BoundPlan, topics: Collection[str]
) -> Steps[KafkaStreamsLeftovers | None]:
    """Return what the JVM library left under this application id; None if it never ran here.

    ``topics``: every topic whose name begins with it.
    """
    application_id = plan.application_id
    found = KafkaStreamsLeftovers(
        frozenset(name for name in topics if is_changelog(application_id, name)),
        frozenset(name for name in topics if is_repartition(application_id, name)),
    )
    if cuts_topic(application_id) in topics or not any(found):
        return None
    inputs = [tp for task_id in plan.task_ids() for tp in plan.input_partitions(task_id)]
    committed: Mapping[object, Committed] = yield Step(
        "committed_so_far", admin.committed_so_far, (application_id, inputs)
    )
    return found if has_kafka_streams_times(committed.values()) else None


def has_kafka_streams_times(committed: Iterable[Committed]) -> bool:
    """Return whether any of the offsets has the stream times of Kafka Streams as metadata."""
    return any(
        decode_cut(one.metadata, committed_offset=one.offset).is_of_kafka_streams
        for one in committed
        if one.offset is not None
    )


def adopting(
    plan: BoundPlan, left: KafkaStreamsLeftovers, decisions: MigrationOptions
) -> BoundPlan:
    """Return the plan whose renamed stores use existing changelogs, and its forgotten stores."""
    stores = plan.topology.stores
    known = {store_of(plan.application_id, topic): topic for topic in left.changelogs}
    logged_as = {
        new: old
        for old, new in decisions.renamed.items()
        if old in known and new in stores and new not in known
    }
    forgotten = {
        name: {"kind": OF_KAFKA_STREAMS, "changelog_topic": topic}
        for name, topic in known.items()
        if name in decisions.forget and name not in stores
    }
    formerly = {new: (old,) for new, old in logged_as.items()}
    return replace(plan, logged_as=logged_as, formerly=formerly, forgotten=forgotten)


def adoption_changes(
    plan: BoundPlan, left: KafkaStreamsLeftovers, decisions: MigrationOptions
) -> list[SpecChange]:
    """Return what does not fit; ``plan`` is already the result of `adopting`."""
    return [
        *_missing(plan, left),
        *_unread_stores(plan, left, decisions),
        *_unread_repartition_topics(plan, left, decisions),
    ]


def _missing(plan: BoundPlan, left: KafkaStreamsLeftovers) -> Iterator[SpecChange]:
    others = ", ".join(repr(name) for name in _strange_stores(plan, left))
    for spec in plan.topology.stores.values():
        changelog = plan.changelog_topic(spec)
        if changelog is None or spec.source_topic is not None or changelog in left.changelogs:
            continue
        hints = [_UNDER_ANOTHER_NAME.format(others=others)] if others else []
        hints += [_IN_ITS_SOURCE] if kind_of(spec) is TIMESTAMPED_KEY_VALUE else []
        verdict = Verdict.DECISION if others else Verdict.REFUSED
        hints.append(_NOT_LOGGED)
        meaning = ". ".join((f"There is no {changelog!r}", *hints, _NEW))
        yield SpecChange(verdict, f"store {spec.name!r}", "store", None, spec.kind, meaning)


def _unread_stores(
    plan: BoundPlan, left: KafkaStreamsLeftovers, decisions: MigrationOptions
) -> Iterator[SpecChange]:
    for name in _strange_stores(plan, left):
        spec = plan.topology.stores.get(name)
        if spec is None and name in decisions.forget:
            continue
        verdict = Verdict.DECISION if spec is None else Verdict.REFUSED
        declared, meaning = _declared_otherwise(name, spec)
        yield SpecChange(verdict, f"store {name!r}", "changelog", "written", declared, meaning)


def _declared_otherwise(name: str, spec: StoreSpec | None) -> tuple[str | None, str]:
    """Return how it is declared, and what to do."""
    if spec is None:
        return None, _LEFT_BEHIND.format(name=name)
    if spec.source_topic is None:
        return "not logged", _LOGGED_THERE_ONLY.format(name=name)
    return f"in {spec.source_topic!r}", _LOGGED


def _unread_repartition_topics(
    plan: BoundPlan, left: KafkaStreamsLeftovers, decisions: MigrationOptions
) -> Iterator[SpecChange]:
    unread = left.repartition_topics - plan.repartition_topics - set(decisions.forget)
    for name in sorted(unread):
        meaning = _TOPIC_LEFT.format(name=name)
        yield SpecChange(Verdict.DECISION, f"topic {name!r}", "topic", "repartition", None, meaning)


def _strange_stores(plan: BoundPlan, left: KafkaStreamsLeftovers) -> list[str]:
    """Return stores that the JVM logged, and whose changelogs this topology does not use."""
    read = {
        plan.changelog_topic(spec)
        for spec in plan.topology.stores.values()
        if spec.source_topic is None
    }
    return sorted(store_of(plan.application_id, topic) for topic in left.changelogs - read)
