"""The manifest: what the stores of an application are, for readers that do not have its code.

One JSON record under the key ``manifest`` in the compacted topic ``<application id>-cuts``. An
instance writes it before its first commit, so whoever sees state can also read what it means.
"""

from __future__ import annotations

from typing import Any

import msgspec

from logstate.changelog.cut import MANIFEST_KEY
from logstate.contracts.records import ProducedRecord
from logstate.contracts.topic_names import cuts_topic
from logstate.topics.bound_plan import BoundPlan

VERSION = 1


def manifest(plan: BoundPlan) -> dict[str, Any]:
    """The manifest as plain data."""
    stores: dict[str, Any] = {}
    for sub_topology in plan.topology.sub_topologies:
        for spec in sub_topology.stores:
            stores[spec.name] = {
                "kind": spec.kind,
                "changelog_topic": plan.changelog_topic(spec),
                "partitions": plan.task_count(sub_topology),
                "sub_topology": sub_topology.id,
                "source_topics": list(plan.source_topics(sub_topology)),
                "key": spec.key.describe(),
                "value": spec.value.describe(),
                "window_size_ms": spec.window_size_ms,
                "retention_ms": spec.retention_ms,
                "history_ms": spec.history_ms,
            }
    return {
        "version": VERSION,
        "application_id": plan.application_id,
        "describe": plan.topology.describe(),
        "stores": stores,
    }


def manifest_record(plan: BoundPlan) -> ProducedRecord:
    """The manifest as a record of the cuts topic."""
    return ProducedRecord(
        cuts_topic(plan.application_id),
        0,
        MANIFEST_KEY,
        msgspec.json.encode(manifest(plan), order="deterministic"),
        0,
    )
