"""A random graph that grows and shrinks, compared with networkx."""

from __future__ import annotations

from collections.abc import Iterator

import networkx as nx
import pytest

from examples.graph.app import NEIGHBORS, topology
from examples.graph.reference import PARTS, components_of, edges, neighbors_of, triangles_of
from logstate import TopologyTestDriver

SEED = 11


@pytest.fixture
def driver() -> Iterator[TopologyTestDriver]:
    with TopologyTestDriver(topology(), commit_every=7) as made:
        yield made


def put(driver: TopologyTestDriver, edge: tuple[str, str], value: str | None = "road") -> None:
    driver.pipe("edges", "-".join(edge), value)


def neighbors(driver: TopologyTestDriver) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for (vertex, other), _ in driver.store(NEIGHBORS).all():
        found.setdefault(vertex, set()).add(other)
    return found


def triangles(driver: TopologyTestDriver, known: dict[str, bool | None]) -> set[str]:
    known.update((corners or "", value) for corners, value in driver.read("triangles", value=bool))
    return {corners for corners, is_there in known.items() if is_there}


def components(driver: TopologyTestDriver) -> set[frozenset[str]]:
    found: dict[str, set[str]] = {}
    for vertex, row in driver.store("components").all():
        found.setdefault(row.value, set()).add(vertex)
    return {frozenset(vertices) for vertices in found.values()}


def test_neighbors_triangles_and_components_are_those_of_networkx(
    driver: TopologyTestDriver,
) -> None:
    graph, known = nx.Graph(), dict[str, bool | None]()
    for number, edge in enumerate(edges(SEED)):
        put(driver, edge)
        graph.add_edge(*edge)
        if number % 10 == 9:
            driver.crash(loses_disk=number % 20 == 19)
        assert triangles(driver, known) == triangles_of(graph)
        assert components(driver) == components_of(graph)
    assert neighbors(driver) == neighbors_of(graph)
    assert triangles_of(graph)
    assert len(components(driver)) == PARTS

    for edge in edges(SEED)[::2]:
        put(driver, edge, None)
        graph.remove_edge(*edge)
        assert triangles(driver, known) == triangles_of(graph)
    assert neighbors(driver) == neighbors_of(graph)


def test_an_edge_that_comes_twice_or_goes_twice_changes_nothing(driver: TopologyTestDriver) -> None:
    for edge in (("a", "b"), ("b", "c"), ("a", "c")):
        put(driver, edge)
        put(driver, edge, "path")
    assert driver.read("triangles", value=bool) == [("a-b-c", True)]
    put(driver, ("a", "b"), None)
    put(driver, ("a", "b"), None)
    assert driver.read("triangles", value=bool) == [("a-b-c", None)]
