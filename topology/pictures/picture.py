"""What every picture of a topology shows: its parts, their titles, and the topics between them."""

from __future__ import annotations

from collections.abc import Sequence

from logstate.topology.graph.description import (
    Description,
    GlobalStoreDescription,
    NodeDescription,
    SubTopologyDescription,
)

Part = SubTopologyDescription | GlobalStoreDescription


def parts_of(description: Description) -> list[Part]:
    """Sub-topologies and global stores by their numbers."""
    parts: list[Part] = [*description.sub_topologies, *description.global_stores]
    return sorted(parts, key=lambda part: part.id)


def nodes_of(part: Part) -> tuple[NodeDescription, ...]:
    """The nodes of either kind of part."""
    if isinstance(part, GlobalStoreDescription):
        return (part.source, part.processor)
    return part.nodes


def lines_of(node: NodeDescription) -> tuple[str, ...]:
    """What an operator's box shows: what it does if it has a generated name, and its name."""
    return (node.name,) if node.label is None else (node.label, f"({node.name})")


def title_of(part: Part) -> str:
    """What a part is called."""
    in_every_instance = " (in every instance)" if isinstance(part, GlobalStoreDescription) else ""
    return f"Sub-topology {part.id}{in_every_instance}"


def topic_written(node: NodeDescription) -> str | None:
    """Return the topic of a sink, or a text for topics that a function chooses."""
    if node.kind != "sink" or node.topic is not None:
        return node.topic
    is_nameless = node.chooser is None or not node.chooser.isidentifier()
    return "chosen per record" if is_nameless else f"chosen by {node.chooser}"


def topics_of(parts: Sequence[Part]) -> list[str]:
    """All topics, in the order in which they are met."""
    seen: dict[str, None] = {}
    for part in parts:
        for node in nodes_of(part):
            seen |= dict.fromkeys(node.reads)
            if (written := topic_written(node)) is not None:
                seen[written] = None
    return list(seen)
