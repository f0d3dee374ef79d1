"""A graph that changes: the neighbors of each vertex, all triangles, and connected components.

    edges (table) ── changes ── both ends ─┬─ neighbors (map store) ── pairs with a common neighbor
                                           │        │                            │
                                           │        │      pairs (map store) ────┴── triangles
                                           │        │
               ┌─ labels ◄─ smaller label ─┴────────┘
               └──► component of each vertex (table) ── its changes, to all neighbors

An edge has the key ``a-b``, with a before b, and any value; a tombstone removes it.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from logstate import (
    Change,
    KStream,
    Processor,
    Record,
    StreamsBuilder,
    Topology,
    map_store,
)

NEIGHBORS = map_store("neighbors", key=str, map_key=str, value=bool)
#: of a pair of vertices: itself if it is an edge, and each vertex that is a neighbor of both
PAIRS = map_store("pairs", key=str, map_key=str, value=bool)
EDGE = ""


class End(msgspec.Struct, frozen=True):
    """An edge as one of its two vertices sees it."""

    other: str
    is_there: bool


class Apex(msgspec.Struct, frozen=True):
    """A common neighbor of a pair, or EDGE: the pair itself is an edge."""

    vertex: str
    is_there: bool


def pair(a: str, b: str) -> str:
    return "-".join(sorted((a, b)))


def both_ends(edge: str, change: Change[str]) -> Iterator[tuple[str, End]]:
    """Yield an edge that came or went, once for each of its vertices."""
    if (change.old is None) != (change.new is None):
        a, b = edge.split("-")
        yield a, End(b, change.new is not None)
        yield b, End(a, change.new is not None)


class Neighbors(Processor[str, End, str, Apex]):
    """Keeps the neighbors of a vertex, and sends each pair of them that appears or disappears."""

    def process(self, record: Record[str, End]) -> None:
        vertex, end = record.key, record.value
        neighbors = self.context.store(NEIGHBORS)
        if end.is_there:
            neighbors.put(vertex, end.other, True)
        else:
            neighbors.delete(vertex, end.other)
        if vertex < end.other:
            edge = Apex(EDGE, end.is_there)
            self.context.forward(Record(pair(vertex, end.other), edge, record.timestamp))
        apex = Apex(vertex, end.is_there)
        for other, _ in neighbors.items(vertex):
            if other != end.other:
                self.context.forward(Record(pair(other, end.other), apex, record.timestamp))


class Triangles(Processor[str, Apex, str, bool]):
    """Sends a triangle that appears, and a tombstone for one that disappears.

    Each has three pairs with an apex; it belongs to the one whose apex is the last of the three.
    """

    def process(self, record: Record[str, Apex]) -> None:
        corners, apex = record.key, record.value
        if apex.vertex != EDGE and apex.vertex < corners.split("-")[1]:
            return
        pairs = self.context.store(PAIRS)
        was_edge = pairs.get(corners, EDGE) is not None
        if apex.is_there:
            pairs.put(corners, apex.vertex, True)
        else:
            pairs.delete(corners, apex.vertex)
        if apex.vertex == EDGE:
            changed = [vertex for vertex, _ in pairs.items(corners) if vertex != EDGE]
        else:
            changed = [apex.vertex] if was_edge else []
        value = True if apex.is_there else None
        for vertex in changed:
            self.context.forward(Record(f"{corners}-{vertex}", value, record.timestamp))  # type: ignore[arg-type]  # a tombstone


class Spread(Processor[str, str, str, str]):
    """Sends the label of a vertex to all its neighbors."""

    def process(self, record: Record[str, str]) -> None:
        for other, _ in self.context.store(NEIGHBORS).items(record.key):
            self.context.forward(Record(other, record.value, record.timestamp))


def topology(prefix: str = "") -> Topology:
    builder = StreamsBuilder()
    edges = builder.table(f"{prefix}edges", key=str, value=str, store="edges")
    ends: KStream[str, End] = (
        edges.to_change_stream()
        .flat_map(both_ends, key=str, value=End)
        .repartition(name="ends", key=str, value=End)
    )
    apexes = ends.process(Neighbors, stores=NEIGHBORS, key=str, value=Apex, name="neighbors-of")
    by_pair = apexes.repartition(name="pairs", key=str, value=Apex)
    triangles = by_pair.process(Triangles, stores=PAIRS, key=str, value=bool, name="triangles-of")
    triangles.to(f"{prefix}triangles")

    labels = builder.stream(f"{prefix}labels", key=str, value=str)
    components = labels.group_by_key().reduce(
        lambda least, label: label if label < least else least, store="components"
    )
    smaller = (
        components.to_change_stream()
        .filter(lambda change: change.new != change.old)
        .map_values(lambda change: change.new or "", value=str)
    )
    spread = smaller.process(Spread, stores=NEIGHBORS, key=str, value=str, name="spread")
    added = ends.filter(lambda end: end.is_there)
    first = added.map_values(lambda vertex, _: vertex, value=str)
    known = added.left_join(
        components, lambda vertex, end, label: (end.other, label or vertex), value=tuple[str, str]
    ).map(lambda known: known, key=str, value=str)
    first.merge(known, spread).to(f"{prefix}labels")
    return builder.build()


if __name__ == "__main__":
    from examples.playground import play

    play(topology(), application_id="graph")
