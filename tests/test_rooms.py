"""The house: which room may import which, read from the syntax trees. An import counts wherever it
stands: in a function and behind TYPE_CHECKING too, because whoever reads the one file needs the
other.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from functools import cache

import pytest

from tests.syntax import syntax
from tests.test_imports import ROOT, SOURCES, all_imports, source_of

# A room may import the rooms that it names, and nothing else of ours.
CONTRACTS = "logstate/contracts"
LEAVES = {"logstate/serdes", "logstate/metrics", "logstate/kafka", "logstate/local_broker"}
TOPOLOGY = {
    "topology/declaring": {"logstate/serdes"},
    "topology/graph": {"topology/declaring"},
    "topology/processor": {"topology/declaring", "logstate/serdes"},
    "topology/pictures": {"topology/graph"},
    "topology/operators/streams": {
        "topology/declaring",
        "topology/graph",
        "topology/processor",
        "logstate/serdes",
    },
}
TOPOLOGY["topology/operators/tables"] = {
    "topology/operators/streams",
    *TOPOLOGY["topology/operators/streams"],
}
for _operators in ("topology/operators/aggregates", "topology/operators/joins"):
    TOPOLOGY[_operators] = {"topology/operators/tables", *TOPOLOGY["topology/operators/tables"]}
TOPOLOGY["topology/plan"] = {
    "topology/declaring",
    "topology/graph",
    "topology/pictures",
    "topology/processor",
    *(room for room in TOPOLOGY if room.startswith("topology/operators/")),
}
TOPOLOGY["topology/dsl"] = {"logstate/serdes", *TOPOLOGY} - {"topology/dsl"}
TOPOLOGY["topology"] = set(TOPOLOGY)
CHANGELOG = {
    "changelog/backend": set[str](),
    "changelog/rows": {"changelog/backend", "logstate/serdes"},
    "changelog/stores": {"changelog/backend", "changelog/rows", "logstate/serdes"},
    "changelog": {"changelog/backend", "changelog/rows", "changelog/stores", "logstate/serdes"},
    # From outside, without the runtime: cuts and readers read logs themselves.
    "changelog/cuts": {"changelog", "logstate/kafka", "logstate/serdes"},
    "changelog/reading": {
        "changelog",
        "changelog/cuts",
        "changelog/rows",
        "changelog/stores",
        "logstate/kafka",
        "logstate/serdes",
    },
    # State that is changed while nobody runs the application, as its own instances would.
    "changelog/offline": {
        "changelog",
        "logstate/directory",
        "logstate/kafka",
        "logstate/serdes",
        "logstate/task",
        "logstate/topics",
        "topology/graph",
        "topology/plan",
    },
    "changelog/spark": {
        "changelog",
        "changelog/cuts",
        "changelog/reading",
        "changelog/offline",
        *(LEAVES - {"logstate/metrics"}),
    },
}
FROM_OUTSIDE = {"changelog/cuts", "changelog/offline", "changelog/reading", "changelog/spark"}
BELOW_TASK = {"logstate/serdes", *TOPOLOGY, *(set(CHANGELOG) - FROM_OUTSIDE)}
BELOW_WORKER = {"logstate/task", "logstate/topics", *BELOW_TASK}
BELOW_APP = {"logstate/commit", "logstate/restore", "logstate/queries", *BELOW_WORKER}
BELOW_APP |= {"logstate/worker", "logstate/kafka", "logstate/metrics"}
ROOMS: dict[str, set[str]] = {
    CONTRACTS: set(),
    **{leaf: set() for leaf in LEAVES},
    "logstate/registry": set(),
    "logstate/serdes": {"logstate/registry"},
    **TOPOLOGY,
    **CHANGELOG,
    "logstate/task": BELOW_TASK,
    "logstate/topics": BELOW_TASK,
    "logstate/commit": BELOW_WORKER,
    "logstate/restore": BELOW_WORKER,
    "logstate/queries": BELOW_WORKER,
    "logstate/worker": BELOW_APP - {"logstate/worker", "logstate/kafka"},
    "logstate/directory": set(),
    "logstate/http": {"logstate/directory", "logstate/queries"},
    "logstate/generated": set(TOPOLOGY),
    "logstate/testing/fake": set(),
    "logstate/testing/simulation": {"logstate/testing/fake", *BELOW_APP} - {"logstate/kafka"},
    "logstate/testing": {
        "logstate/testing/fake",
        "logstate/testing/simulation",
        "logstate/metrics",
        "logstate/restore",
        *BELOW_WORKER,
    },
    # One instance: its states, its workers as threads and processes.
    "logstate/instance": BELOW_APP - {"logstate/kafka"},
    # Coming from Faust: nobody imports it, and it runs beside the application.
    "logstate/faust": BELOW_APP,
    # What the command does, but for running an application.
    "logstate/commands": {
        "changelog/cuts",
        "changelog/offline",
        "changelog/reading",
        "logstate/directory",
        "logstate/local_broker",
        *BELOW_APP,
    },
    # The root: the facade, the application, the command.
    "logstate": {
        "changelog/cuts",
        "changelog/reading",
        "logstate/commands",
        "logstate/directory",
        "logstate/generated",
        "logstate/http",
        "logstate/instance",
        "logstate/local_broker",
        "logstate/testing",
        *BELOW_APP,
    },
}
#: operators/ itself holds rooms only
EMPTY_ROOMS = {"topology/operators"}

TOPOLOGY_TESTS = ROOT / "tests" / "topology"

ARROWS_MAX = 60


def room_of(module: str) -> str:
    if module == "pyspark_logstate":  # Spark finds it by its name, which has no room
        return "changelog/spark"
    return SOURCES[module].parent.relative_to(ROOT).as_posix()


@cache
def arrows() -> Mapping[tuple[str, str], list[str]]:
    """Each pair of modules of ours of which the first imports the second, with the places."""
    found: dict[tuple[str, str], list[str]] = {}
    for one in all_imports():
        target = source_of(one.name)
        if target is not None and target != one.importer:
            found.setdefault((one.importer, target), []).append(one.where)
    return found


def circles(nodes: Iterable[str], edges: Iterable[tuple[str, str]]) -> list[list[str]]:
    """Groups of nodes that reach each other, largest first (Tarjan's algorithm, 1972)."""
    below: dict[str, list[str]] = {node: [] for node in nodes}
    for start, end in edges:
        below[start].append(end)
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    path: list[str] = []
    groups: list[list[str]] = []

    def visit(node: str) -> None:
        number[node] = lowest[node] = len(number)
        path.append(node)
        for other in below[node]:
            if other not in number:
                visit(other)
                lowest[node] = min(lowest[node], lowest[other])
            elif other in path:
                lowest[node] = min(lowest[node], number[other])
        if lowest[node] == number[node]:
            start = path.index(node)
            groups.append(sorted(path[start:]))
            del path[start:]

    for node in below:
        if node not in number:
            visit(node)
    return sorted((group for group in groups if len(group) > 1), key=len, reverse=True)


def test_a_room_imports_only_the_rooms_it_may() -> None:
    culprits = [
        f"{places[0]}: {room_of(start)} may not import {room_of(end)}"
        for (start, end), places in arrows().items()
        if room_of(start) != room_of(end)
        and room_of(end) != CONTRACTS
        and room_of(end) not in ROOMS[room_of(start)]
    ]
    assert not culprits


def test_no_arrow_between_rooms_runs_back() -> None:
    pairs = {(room_of(start), room_of(end)) for start, end in arrows()}
    assert not circles(ROOMS, ((start, end) for start, end in pairs if start != end))


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert not circles(SOURCES, arrows())


def test_few_arrows_lead_from_room_to_room() -> None:
    pairs = {(room_of(start), room_of(end)) for start, end in arrows()}
    between = [pair for pair in pairs if pair[0] != pair[1]]
    assert (
        len([1 for pair in between if all(r.startswith("logstate/") for r in pair)]) <= ARROWS_MAX
    )


def test_every_room_is_in_the_table() -> None:
    rooms = {room_of(module) for module, path in SOURCES.items() if path.name != "__init__.py"}
    assert rooms <= set(ROOMS)


def test_each_test_of_a_topology_is_in_the_room_of_what_it_tests() -> None:
    folders = {
        path.parent.relative_to(ROOT / "tests") for path in TOPOLOGY_TESTS.rglob("test_*.py")
    }
    assert len(folders) > len(TOPOLOGY) // 2
    assert {folder.as_posix() for folder in folders} <= set(TOPOLOGY) - {"topology"}


@pytest.mark.parametrize("room", sorted({*ROOMS, *EMPTY_ROOMS} - {"logstate", "topology"}))
def test_a_room_says_what_it_is_for_and_what_it_may_import(room: str) -> None:
    docstring = ast.get_docstring(syntax(ROOT / room / "__init__.py").tree)
    assert docstring is not None
    assert len(docstring.splitlines()[0]) > 20
    if room not in EMPTY_ROOMS:
        text = " ".join(docstring.split())
        assert "Start with `" in text
        assert "Imports " in text
