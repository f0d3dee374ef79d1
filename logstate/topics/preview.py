"""Show what a start would report about the stored state, without changing anything."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from logstate.contracts.clients import Admin, Step, Steps, TopicDescription
from logstate.contracts.compatibility import (
    NOTHING_DECIDED,
    MigrationOptions,
    SpecChange,
    Verdict,
    worst,
)
from logstate.topics.adoption import (
    adopting,
    adoption_changes,
    left_by_faust,
    left_by_kafka_streams,
)
from logstate.topics.bound_plan import bind, external_topics
from logstate.topics.internal_topics import check_topics_of_others, compared, required_topics
from logstate.topics.manifest import manifest
from logstate.topics.manifest_changes import Manifest, manifest_changes
from logstate.topics.upgrade import logged_as_stored
from logstate.topology.plan.plan import Topology


@dataclass(frozen=True)
class Preview:
    """The comparison; ``is_new`` if nothing is stored yet."""

    is_new: bool
    changes: tuple[SpecChange, ...]
    #: other reasons to refuse a start: topics that do not fit, Faust's tables
    problems: tuple[str, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """The worst verdict of all changes."""
        return Verdict.REFUSED if self.problems else worst(self.changes)


def preview(
    admin: Admin,
    topology: Topology,
    application_id: str,
    stored: Manifest | None,
    decisions: MigrationOptions,
) -> Steps[Preview]:
    """Compare with the newest manifest.

    Raises TopicError like a start, and UpgradeError if no comparison is possible.
    """
    plan = yield from check_topics_of_others(admin, topology, application_id)
    plan = logged_as_stored(plan, stored, decisions)
    beginning = f"{application_id}-"
    found = yield Step("describe_topics", admin.describe_topics, ((), beginning))
    is_new, changes, problems = False, [], []
    if stored is None:
        left = yield from left_by_kafka_streams(admin, plan, found)
        is_new = left is None
        if left is None:
            problems += left_by_faust(plan, found)
        else:
            plan = adopting(plan, left, decisions)
            changes = adoption_changes(plan, left, decisions)
    required = required_topics(plan, -1, {})
    existing = {one.name: found[one.name] for one in required if one.name in found}
    plan.topic_ids.update({name: d.topic_id for name, d in existing.items()})
    if stored is not None:
        changes = manifest_changes(stored, manifest(plan), decisions)
    topics = yield from compared(admin, plan, required, existing)
    return Preview(is_new, tuple(changes), (*problems, *topics.problems))


def difference(before: Topology, after: Topology) -> list[SpecChange]:
    """Compare two topologies, as if all their inputs had one partition."""
    stored, declared = manifest_of_one_partition(before), manifest_of_one_partition(after)
    return manifest_changes(stored, declared, NOTHING_DECIDED)


def as_plain_data(changes: Iterable[SpecChange]) -> list[dict[str, Any]]:
    """Return changes as data for programs."""
    return [{**change._asdict(), "verdict": str(change.verdict)} for change in changes]


def manifest_of_one_partition(
    topology: Topology, application_id: str = "application"
) -> dict[str, Any]:
    """Return the manifest of a topology whose inputs have one partition each, without a cluster."""
    existing = {name: TopicDescription("", 1) for name in external_topics(topology)}
    return manifest(bind(topology, application_id, existing))
