"""The manifest: what an application stores, for readers that do not have its code.

One JSON record under the key ``manifest`` in the compacted topic ``<application id>-cuts``. An
instance writes it before its first commit, so every reader of the state can interpret it. The next
start compares it with its own topology (:mod:`logstate.topics.upgrade`).

    version, application_id, describe
    stores        store -> its fingerprint (:mod:`logstate.changelog.store_fingerprint`), and
                  changelog_topic, changelog_topic_id, logged_as, formerly (all of its former
                  names), partitions, sub_topology,
                  source_topics, fed_by (the source topics that its rows come from, for each
                  operator that writes it), placed_by (the hash that places its keys, if one does),
                  hashed_windows (how many windows of its rows' keys are hashed, if any)
    topics        repartition topic -> partitions, key, value; usual_name if its state was moved
                  to other partitions; hashes_windows if keys have windows
    inputs        every external topic that is read
    formats       external topic that is read, or written whatever the record -> key, value
    forgotten     forgotten store, or its topic -> its former entry
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from logstate.changelog.cut import MANIFEST_KEY
from logstate.changelog.store_fingerprint import fingerprint
from logstate.changelog.stored_manifest import (
    NESTING_MAX,
    NEWEST_VERSION,
    VERSION,
    check_manifest,
    check_nesting,
)
from logstate.contracts.records import ProducedRecord
from logstate.contracts.serde import Serde
from logstate.contracts.stores import StoreSpec
from logstate.contracts.topic_names import TOPIC_NAME_PATTERN, cuts_topic, topic_name
from logstate.topics.bound_plan import BoundPlan
from logstate.topics.placement import hashed_windows, is_placed_whole, placed_by
from logstate.topics.row_places import windows_of
from logstate.topology.graph.nodes import SinkNode, SourceNode
from logstate.topology.graph.sub_topology import SubTopology

#: in the entry of a repartition topic
HASHES_WINDOWS = "hashes_windows"


def manifest(plan: BoundPlan) -> dict[str, Any]:
    """Return the manifest as plain data, as decoded from JSON."""
    return msgspec.json.decode(msgspec.json.encode(content(plan)))  # type: ignore[no-any-return]


def manifest_record(plan: BoundPlan) -> ProducedRecord:
    """Return the manifest as a record of the cuts topic.

    Raises ConfigError for a manifest that could not be read back.
    """
    # In the order of construction, which is the same each time. The fields of a declared type are
    # in the order of their declaration, and so are its columns for a reader.
    plain = content(plan)
    check_manifest(plain)
    encoded = msgspec.json.encode(plain)
    return ProducedRecord(cuts_topic(plan.application_id), 0, MANIFEST_KEY, encoded, 0)


def content(plan: BoundPlan) -> dict[str, Any]:
    """Return the content of the manifest, for JSON."""
    stores: dict[str, Any] = {}
    topics: dict[str, Any] = {}
    formats: dict[str, Any] = {}
    for sub_topology in plan.topology.sub_topologies:
        for spec in sub_topology.stores:
            stores[spec.name] = _store(plan, sub_topology, spec)
        for source in sub_topology.sources:
            for ref in source.topics:
                name = plan.resolved(ref.name, ref.is_internal)
                if name in plan.repartition_topics:
                    usual = topic_name(plan.application_id, ref.name, is_internal=ref.is_internal)
                    key = source.key.describe()
                    is_hashed = windows_of(key) and is_placed_whole(plan.topology, ref)
                    topics[name] = {
                        **({} if usual == name else {"usual_name": usual}),
                        **({HASHES_WINDOWS: True} if is_hashed else {}),
                        "partitions": plan.partition_counts[name],
                        "key": key,
                        "value": source.value.describe(),
                    }
    for name, node in external_topics_of(plan):
        if re.fullmatch(TOPIC_NAME_PATTERN, name):
            formats[name] = {"key": _described(node.key), "value": _described(node.value)}
    hashes_windows = any(HASHES_WINDOWS in one for one in topics.values())
    return {
        "version": NEWEST_VERSION if hashes_windows else VERSION,
        "application_id": plan.application_id,
        "describe": plan.topology.describe(),
        "stores": dict(sorted(stores.items())),
        "topics": dict(sorted(topics.items())),
        "inputs": [t for t in plan.subscription if t not in plan.repartition_topics],
        "formats": dict(sorted(formats.items())),
        "forgotten": dict(sorted(plan.forgotten.items())),
    }


def _described(serde: Serde[Any]) -> Any:
    """Return what describes a serde of topics only; None if that cannot be stored.

    Unlike the serde of a store, a start does not depend on it.
    """
    try:
        found = msgspec.json.decode(msgspec.json.encode(serde.describe()))
        check_nesting(found, NESTING_MAX // 2)
        return found if isinstance(found["format"], str) else None
    except Exception:  # noqa: BLE001  it may be of the user, and records can be shown without it
        return None


def external_topics_of(plan: BoundPlan) -> Iterator[tuple[str, SourceNode | SinkNode]]:
    """Yield the topics of others that are read or written, with the node that has their serdes.

    Not topics that a function chooses per record. Of several nodes of a topic the last one counts,
    and sources are last.
    """
    topology = plan.topology
    subs = (*topology.sub_topologies, *topology.global_sub_topologies)
    for sub in subs:
        for ref, sinks in sub.sinks_into.items():
            name = plan.resolved(ref.name, ref.is_internal)
            if name not in plan.repartition_topics:
                yield name, sinks[0]
    for sub in subs:
        for source in sub.sources:
            for ref in source.topics:
                name = plan.resolved(ref.name, ref.is_internal)
                if name not in plan.repartition_topics and not ref.is_pattern:
                    yield name, source


def _store(plan: BoundPlan, sub_topology: SubTopology, spec: StoreSpec) -> dict[str, Any]:
    changelog = plan.changelog_topics[spec.name]
    hashed = hashed_windows(plan.topology, sub_topology, spec)
    # A reader looks up a key without its windows, but the hash includes them in that case.
    placed = placed_by(plan.topology, sub_topology, spec) if hashed == 0 else None
    return {
        **fingerprint(spec),
        "changelog_topic": changelog,
        "changelog_topic_id": None if changelog is None else plan.topic_ids.get(changelog),
        "logged_as": plan.logged_as.get(spec.name, spec.name),
        "formerly": list(plan.formerly.get(spec.name, ())),
        "partitions": plan.task_count(sub_topology),
        "sub_topology": sub_topology.id,
        "source_topics": list(plan.source_topics(sub_topology)),
        "fed_by": [
            sorted(plan.resolved(ref.name, ref.is_internal) for ref in topics)
            for topics in sub_topology.fed_by(spec.name)
        ],
        "placed_by": placed,
        **({"hashed_windows": hashed} if hashed else {}),
    }
