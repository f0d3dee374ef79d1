"""A random graph from a seed, and what networkx computes of it."""

from __future__ import annotations

import random

import networkx as nx

#: edges connect vertices of the same part only
PARTS, VERTICES, EDGES = 3, 9, 42


def edges(seed: int) -> list[tuple[str, str]]:
    """Return different edges, drawn from a seed, in the order of their arrival."""
    rng = random.Random(seed)  # noqa: S311  drawn again from the seed, not secret
    drawn = set()
    for number in range(EDGES):
        first, second = sorted(rng.sample(range(VERTICES), 2))
        drawn.add((f"{number % PARTS}.{first}", f"{number % PARTS}.{second}"))
    found = sorted(drawn)
    rng.shuffle(found)
    return found


def triangles_of(graph: nx.Graph) -> set[str]:
    cliques = nx.enumerate_all_cliques(graph)
    return {"-".join(sorted(clique)) for clique in cliques if len(clique) == 3}


def neighbors_of(graph: nx.Graph) -> dict[str, set[str]]:
    return {vertex: set(graph[vertex]) for vertex in graph if graph[vertex]}


def components_of(graph: nx.Graph) -> set[frozenset[str]]:
    return set(map(frozenset, nx.connected_components(graph)))
