"""What a built topology says of itself, in the words of the recordings."""

from __future__ import annotations

from typing import Any

from logstate.contracts.stores import StoreSpec
from logstate.topology import Topology
from logstate.topology.graph.description import GlobalStoreDescription, NodeDescription

from .compare import Graph
from .vectors import Case


def graph_of(case: Case, topology: Topology) -> Graph:
    """Names and description of a topology of this case."""
    application_id = case.config["application.id"]
    description = topology.description()
    stores = {**topology.stores, **topology.global_stores}
    names = {
        "sub_topologies": [
            {"id": part.id, "nodes": [_node(node) for node in part.nodes]}
            for part in description.sub_topologies
        ],
        "global_stores": [_global_store(part) for part in description.global_stores],
        "changelog_topics": {
            name: changelog_topic(application_id, stores[name])
            for name in sorted(stores)
            if has_changelog(stores[name])
        },
        "internal_topics": sorted(
            f"{application_id}-{topic.topic.name}" for topic in topology.internal_topics
        ),
        "stores": sorted(stores),
    }
    return Graph(names, topology.describe())


def has_changelog(spec: StoreSpec) -> bool:
    """Whether some topic holds what the store holds."""
    return spec.is_logged or spec.source_topic is not None


def changelog_topic(application_id: str, spec: StoreSpec) -> str:
    """The topic a store is restored from."""
    return spec.source_topic or f"{application_id}-{spec.name}-changelog"


def _node(node: NodeDescription) -> dict[str, Any]:
    found: dict[str, Any] = {"name": node.name, "type": node.kind}
    if node.kind == "source":
        found["topics"] = sorted(node.topics)
    elif node.kind == "sink":
        found["topic"] = node.topic
    else:
        found["stores"] = sorted(node.stores)
    return found | {"successors": sorted(node.successors)}


def _global_store(part: GlobalStoreDescription) -> dict[str, Any]:
    return {
        "id": part.id,
        "source": part.source.name,
        "topics": sorted(part.source.topics),
        "processor": part.processor.name,
        "stores": sorted(part.processor.stores),
    }
