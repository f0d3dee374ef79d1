"""Reset an application: its offsets, the topics that it created, its local state.

In the middle of a reset, offsets and state do not fit together: offsets of the start with the state
of the end would count everything twice. So it first writes a mark in place of the manifest, which
makes every start fail, and deletes the topic of the mark last:

    1  the group has no members (otherwise nothing happens)
    2  the mark: the manifest, and the time; an interrupted reset restarts from it
    3  offsets: inputs at the target, repartition topics at 0
    4  changelogs and repartition topics
    5  local state
    6  the cuts topic, and the mark with it

Every step may be repeated. Every client that can write to the cuts topic can write a manifest, so
the manifest is not trusted: a topic is deleted only if its name also begins with the application id
and is one that the application creates, if it is not an input, and if the manifest of no other
application names it. The plan lists the topics that the manifest names and that stay.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import msgspec

from logstate.changelog.cut import MANIFEST_KEY
from logstate.changelog.stored_manifest import checked_manifest, topics_of_others
from logstate.contracts.clients import Admin, Step, Steps, TransactionalProducer
from logstate.contracts.errors import RestoreError, TopicError
from logstate.contracts.records import ProducedRecord, TopicPartition
from logstate.contracts.topic_names import cuts_topic, instances_topic, snapshots_topic
from logstate.topics.manifest_changes import OF_KAFKA_STREAMS, Manifest, is_own_log

#: where to begin: the ends of the log, the first record since a time in ms, or an offset
Target: TypeAlias = "Literal['earliest', 'latest'] | At | int"

_OF_THE_JVM = (
    "Kafka Streams wrote it, and it may belong to an application whose id begins like this one."
    " Delete it yourself if it does not"
)
_OF_OTHERS = (
    "the manifest calls it {role}, but application {application_id!r} does not create topics of"
    " such a name. Another program wrote the manifest, or it was changed. Delete the topic yourself"
    " if you are sure that nothing else uses it"
)
_SHARED = (
    "the manifest of application {other!r} names it too, and its rows may be of that application."
    " Delete it yourself if they are not, before application {application_id!r} starts again"
)


@dataclass(frozen=True)
class At:
    """The first record at or after a time."""

    timestamp_ms: int


@dataclass(frozen=True)
class Reset:
    """The exact actions of a reset."""

    application_id: str
    manifest: Manifest
    #: input partition -> the offset to begin at
    offsets: Mapping[TopicPartition, int]
    #: partitions of repartition topics, which begin at 0
    repartitions: Sequence[TopicPartition]
    #: topics to delete, except the cuts topic, which is deleted last
    topics: Sequence[str]
    #: topics that the manifest names as the application's and that are kept -> why
    left: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = [f"offset {offset} for {tp}" for tp, offset in sorted(self.offsets.items())]
        lines += [f"delete topic {name}" for name in self.topics]
        lines.append(f"delete topic {cuts_topic(self.application_id)}")
        lines += [f"leave topic {name}: {why}" for name, why in self.left.items()]
        return "\n".join(lines)


def planned_reset(
    admin: Admin,
    application_id: str,
    stored: Manifest | None,
    target: Target,
    *,
    of_other_applications: Mapping[str, str] = {},
) -> Steps[Reset]:
    """Return what a reset would do, without changes.

    ``of_other_applications``: internal topics of applications whose id begins like this one -> that
    id, by their manifests.

    Raises TopicError if the application never ran, RestoreError for a damaged manifest and for
    an offset outside a log.
    """
    if stored is None:
        raise TopicError(
            f"application {application_id!r} has no manifest in {cuts_topic(application_id)!r}: it"
            " never ran on these brokers, or was reset already. Is the application id right?"
        )
    stored = checked_manifest(stored, application_id)
    stores = stored["stores"].values()
    internal = set(stored.get("topics", {}))
    inputs = {t for entry in stores for t in entry["source_topics"]} | set(stored.get("inputs", ()))
    inputs -= internal
    kept = [*stored["stores"].items(), *stored.get("forgotten", {}).items()]
    logs = {
        entry["changelog_topic"]
        for name, entry in kept
        if is_own_log(application_id, name, entry) and entry["changelog_topic"] not in inputs
    }
    of_the_jvm = {e["changelog_topic"] for _, e in kept if e["kind"] == OF_KAFKA_STREAMS} - logs
    named = {*internal, *logs, *stored.get("resharding_topics", ())}  # of an interrupted reshard
    stay = dict.fromkeys(of_the_jvm, _OF_THE_JVM)
    for topic in sorted(named):
        if topic in of_other_applications:
            other = of_other_applications[topic]
            stay[topic] = _SHARED.format(other=other, application_id=application_id)
    for topic, role in topics_of_others(application_id, stored).items():
        stay[topic] = _OF_OTHERS.format(role=role, application_id=application_id)
    own = named - stay.keys()
    internal &= own
    own |= {instances_topic(application_id), snapshots_topic(application_id)}
    names = sorted({*own, *inputs, *stay})
    described = yield Step("describe_topics", admin.describe_topics, (names,))

    def partitions(topics: set[str]) -> list[TopicPartition]:
        found = sorted(topics & described.keys())
        return [TopicPartition(t, p) for t in found for p in range(described[t].partitions)]

    offsets = yield from offsets_of_target(admin, partitions(inputs), target)
    topics = sorted(own & described.keys())
    left = {name: why for name, why in sorted(stay.items()) if name in described}
    return Reset(application_id, stored, offsets, partitions(internal), topics, left)


def carried_out(
    reset: Reset,
    admin: Admin,
    new_producer: Callable[[], TransactionalProducer],
    delete_local_state: Callable[[], None],
    *,
    now: str,
) -> Steps[None]:
    """Carry it out. Raise MembersLiveError, without changes, while instances live.

    ``new_producer`` is that of `offline_transactional_id`: the mark fences a paused reshard or
    backfill, which then cannot commit to topics of a later start.
    """
    application_id, commit = reset.application_id, admin.commit_without_members
    cuts = TopicPartition(cuts_topic(application_id), 0)
    yield Step("commit_without_members", commit, (application_id, {cuts: 0}))
    mark = {"reset_since": now, **reset.manifest}
    value = msgspec.json.encode(mark, order="deterministic")
    producer = yield Step("transactional_producer", new_producer)
    try:
        record = ProducedRecord(cuts.topic, 0, MANIFEST_KEY, value, 0)
        yield Step("write_mark", _write, (producer, record))
    except Exception:
        yield Step("close_transactional_producer", producer.close)
        raise
    yield Step("close_transactional_producer", producer.close)
    offsets = {**reset.offsets, **dict.fromkeys(reset.repartitions, 0)}
    # Even without offsets to set: a member that joined before the mark has not seen it.
    yield Step("commit_without_members", commit, (application_id, offsets or {cuts: 0}))
    yield Step("delete_topics", admin.delete_topics, (reset.topics,))
    yield Step("delete_local_state", delete_local_state)
    yield Step("delete_topics", admin.delete_topics, ([cuts.topic],))


def _write(producer: TransactionalProducer, record: ProducedRecord) -> None:
    producer.init_transactions()
    producer.begin()
    producer.produce([record])
    producer.flush()
    producer.commit()


def internal_topics(application_id: str, stored: Manifest) -> set[str]:
    """Return the changelogs and repartition topics of an application."""
    logs = {
        entry["changelog_topic"]
        for name, entry in stored["stores"].items()
        if is_own_log(application_id, name, entry)
    }
    return logs | set(stored.get("topics", {}))


def offsets_of_target(
    admin: Admin, partitions: list[TopicPartition], target: Target
) -> Steps[dict[TopicPartition, int]]:
    """Return the offset of each partition for a target; raise RestoreError outside a log."""
    if isinstance(target, At):
        at = yield Step("offsets_at", admin.offsets_at, (partitions, target.timestamp_ms))
        return dict(at)
    starts: dict[TopicPartition, int] = yield Step(
        "start_offsets", admin.start_offsets, (partitions,)
    )
    ends: dict[TopicPartition, int] = yield Step("end_offsets", admin.end_offsets, (partitions,))
    if target == "earliest":
        return dict(starts)
    if target == "latest":
        return dict(ends)
    outside = [
        f"{tp} holds {starts[tp]} to {ends[tp]}"
        for tp in partitions
        if not starts[tp] <= target <= ends[tp]
    ]
    if outside:
        raise RestoreError(
            f"offset {target} is not in every input: {'; '.join(outside)}. Choose one that is, a"
            " time, 'earliest' or 'latest'"
        )
    return dict.fromkeys(partitions, target)


def as_plain_data(reset: Reset) -> dict[str, Any]:
    """Return the plan as data for programs."""
    return {
        "application_id": reset.application_id,
        "offsets": {str(tp): offset for tp, offset in sorted(reset.offsets.items())},
        "topics": [*reset.topics, cuts_topic(reset.application_id)],
        "left": sorted(reset.left),
    }
