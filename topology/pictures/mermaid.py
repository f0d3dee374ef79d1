"""A topology as a Mermaid flowchart, for Markdown pages and pull requests.

Topics are stadiums (internal ones with dashed borders), operators rectangles, stores cylinders. A
dotted line ties an operator to a store that it uses. Sub-topologies, which one task runs each, are
framed. Names need no escaping: they consist of letters, digits, '.', '_' and '-'.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from logstate.topology.graph.description import Description
from logstate.topology.pictures.picture import (
    Part,
    lines_of,
    nodes_of,
    parts_of,
    title_of,
    topic_written,
    topics_of,
)


def mermaid_of(description: Description, internal_topics: Collection[str]) -> str:
    """The flowchart's text; ``internal_topics`` are drawn as such."""
    parts = parts_of(description)
    topics = {topic: f"topic{number}" for number, topic in enumerate(topics_of(parts))}
    lines = ["flowchart TD"]
    for topic, name in topics.items():
        mark = ":::internal" if topic in internal_topics else ""
        lines.append(f'    {name}(["{topic}"]){mark}')
    names: dict[tuple[str, str], str] = {}
    for part in parts:
        lines += _subgraph(part, names)
    lines += [f"    {arrow}" for part in parts for arrow in _arrows(part, names, topics)]
    if internal_topics:
        lines.append("    classDef internal stroke-dasharray: 4")
    return "\n".join(lines) + "\n"


def _subgraph(part: Part, names: dict[tuple[str, str], str]) -> Iterator[str]:
    """One sub-topology's nodes and stores; gives them their names in the text."""
    yield f'    subgraph part{part.id}["{title_of(part)}"]'
    for node in nodes_of(part):
        name = names["node", node.name] = f"node{len(names)}"
        yield f'        {name}["{"<br>".join(map(_escaped, lines_of(node)))}"]'
    for store in dict.fromkeys(store for node in nodes_of(part) for store in node.stores):
        name = names["store", store] = f"node{len(names)}"
        yield f'        {name}[("{store}")]'
    yield "    end"


def _escaped(line: str) -> str:
    return line.replace('"', "#quot;")  # a pattern of topics may hold anything


def _arrows(part: Part, names: dict[tuple[str, str], str], topics: dict[str, str]) -> Iterator[str]:
    for node in nodes_of(part):
        name = names["node", node.name]
        for topic in node.reads:
            yield f"{topics[topic]} --> {name}"
        for below in node.successors:
            yield f"{name} --> {names['node', below]}"
        for store in node.stores:
            yield f"{name} -.- {names['store', store]}"
        if (written := topic_written(node)) is not None:
            yield f"{name} --> {topics[written]}"
