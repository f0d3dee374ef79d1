"""What a start would say about what is stored, without a start: changes nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from logstate.contracts.compatibility import NOTHING_DECIDED, Change, Decisions, Verdict, worst
from logstate.contracts.seams import Admin, Step, Steps, TopicDescription
from logstate.topics.adoption import adopting, adoption_changes, left_by_kafka_streams
from logstate.topics.bound_plan import bind, external_topics
from logstate.topics.internal_topics import check_topics_of_others
from logstate.topics.manifest import manifest
from logstate.topics.manifest_changes import Manifest, manifest_changes
from logstate.topics.upgrade import logged_as_stored
from logstate.topology.plan.plan import Topology


@dataclass(frozen=True)
class Preview:
    """The comparison; ``is_new`` where nothing is stored yet."""

    is_new: bool
    changes: tuple[Change, ...]

    @property
    def verdict(self) -> Verdict:
        """The worst of all."""
        return worst(self.changes)


def preview(
    admin: Admin,
    topology: Topology,
    application_id: str,
    stored: Manifest | None,
    decisions: Decisions,
) -> Steps[Preview]:
    """Compare with the manifest that was written last.

    Raises TopicError as a start does, and UpgradeError where no comparison is possible.
    """
    plan = yield from check_topics_of_others(admin, topology, application_id)
    if stored is None:
        beginning = f"{application_id}-"
        topics = yield Step("describe_topics", admin.describe_topics, ((), beginning))
        left = yield from left_by_kafka_streams(admin, plan, topics)
        if left is None:
            return Preview(is_new=True, changes=())
        plan = adopting(plan, left, decisions)
        return Preview(is_new=False, changes=tuple(adoption_changes(plan, left, decisions)))
    plan = logged_as_stored(plan, stored, decisions)
    changelogs = sorted({name for name in plan.changelog_topics.values() if name is not None})
    existing = yield Step("describe_topics", admin.describe_topics, (changelogs,))
    plan.topic_ids.update({name: d.topic_id for name, d in existing.items()})
    changes = manifest_changes(stored, manifest(plan), decisions)
    return Preview(is_new=False, changes=tuple(changes))


def difference(before: Topology, after: Topology) -> list[Change]:
    """Compare two topologies, as if all their inputs had one partition."""
    stored, declared = manifest_of_one_partition(before), manifest_of_one_partition(after)
    return manifest_changes(stored, declared, NOTHING_DECIDED)


def as_plain_data(changes: Iterable[Change]) -> list[dict[str, Any]]:
    """Changes for programs."""
    return [{**change._asdict(), "verdict": str(change.verdict)} for change in changes]


def manifest_of_one_partition(
    topology: Topology, application_id: str = "application"
) -> dict[str, Any]:
    """The manifest of a topology whose inputs have one partition each, on no cluster."""
    existing = {name: TopicDescription("", 1) for name in external_topics(topology)}
    return manifest(bind(topology, application_id, existing))
