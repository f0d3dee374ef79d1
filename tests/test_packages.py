"""Which package may import which, read from the syntax trees.

Imports in functions and behind TYPE_CHECKING count too: to read the one file, one needs the other.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from functools import cache

import pytest

from tests.syntax import syntax
from tests.test_imports import ROOT, SOURCES, all_imports, source_of

# A package may import the packages named here and ``logstate.contracts``, nothing else of logstate.
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
    *(package for package in TOPOLOGY if package.startswith("topology/operators/")),
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
    "changelog/spark": {
        "changelog",
        "changelog/cuts",
        "changelog/reading",
        "changelog/stores",
        "logstate/admin",
        *(LEAVES - {"logstate/metrics"}),
    },
}
FROM_OUTSIDE = {"changelog/cuts", "logstate/admin", "changelog/reading", "changelog/spark"}
BELOW_TASK = {"logstate/serdes", *TOPOLOGY, *(set(CHANGELOG) - FROM_OUTSIDE)}
BELOW_WORKER = {"logstate/task", "logstate/topics", *BELOW_TASK}
BELOW_APP = {"logstate/commit", "logstate/restore", "logstate/queries", *BELOW_WORKER}
BELOW_APP |= {"logstate/worker", "logstate/kafka", "logstate/metrics"}
CLI_GROUPS = ("deployment", "diagnosis", "stores")
PACKAGES: dict[str, set[str]] = {
    CONTRACTS: set(),
    **{leaf: set() for leaf in LEAVES},
    "logstate/kafka": {"logstate/kafka/native"},
    "logstate/kafka/native": set(),
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
    "logstate/http": {
        "changelog/stores",
        "logstate/directory",
        "logstate/metrics",
        "logstate/queries",
        "logstate/serdes",
        "topology/graph",
        "topology/plan",
    },
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
    "logstate/app/instance": BELOW_APP - {"logstate/kafka"},
    "logstate/app": {
        "changelog/cuts",
        "logstate/app/instance",
        "logstate/directory",
        "logstate/http",
        *BELOW_APP,
    },
    # Moves tables from Faust while the application runs; no other package imports it.
    "logstate/faust": BELOW_APP,
    "logstate/admin": {
        "changelog/reading",
        "changelog/spark",
        "logstate/directory",
        "logstate/kafka",
        *BELOW_WORKER,
    },
    "logstate/cli/shared": {"changelog/cuts", "logstate/admin", "logstate/directory", *BELOW_APP},
    "logstate/cli/engine": {
        "logstate/app",
        "logstate/app/instance",
        "logstate/cli/shared",
        "logstate/generated",
        "logstate/local_broker",
        "logstate/testing",
        *BELOW_APP,
    },
    "logstate/cli": {
        "logstate/cli/shared",
        *(f"logstate/cli/{group}" for group in ("engine", *CLI_GROUPS)),
        "logstate/local_broker",
    },
    # Only the names that users import.
    "logstate": {
        "changelog/cuts",
        "changelog/reading",
        "logstate/app",
        "logstate/app/instance",
        "logstate/cli",
        "logstate/directory",
        "logstate/testing",
        *BELOW_APP,
    },
}
for _group in CLI_GROUPS:
    PACKAGES[f"logstate/cli/{_group}"] = {
        "changelog/cuts",
        "changelog/reading",
        "logstate/admin",
        "logstate/cli/shared",
        "logstate/directory",
        "logstate/local_broker",
        *BELOW_APP,
    }
#: operators/ itself holds packages only
PACKAGES_WITHOUT_MODULES = {"topology/operators"}

UNIT_TESTS = ROOT / "tests" / "unit"

PAIRS_MAX = 240


def package_of(module: str) -> str:
    if module == "pyspark_logstate":  # Spark finds it by its name, which has no package
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


def test_a_package_imports_only_the_packages_it_may() -> None:
    culprits = [
        f"{places[0]}: {package_of(start)} may not import {package_of(end)}"
        for (start, end), places in arrows().items()
        if package_of(start) != package_of(end)
        and package_of(end) != CONTRACTS
        and package_of(end) not in PACKAGES[package_of(start)]
    ]
    assert not culprits


def test_no_arrow_between_packages_runs_back() -> None:
    pairs = {(package_of(start), package_of(end)) for start, end in arrows()}
    assert not circles(PACKAGES, ((start, end) for start, end in pairs if start != end))


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert not circles(SOURCES, arrows())


def test_few_packages_import_each_other() -> None:
    """Counted between folders of the first two levels, such as ``logstate/cli``."""
    pairs = {tuple(two_levels(package_of(name)) for name in pair) for pair in arrows()}
    assert len([1 for start, end in pairs if start != end]) <= PAIRS_MAX


def two_levels(package: str) -> str:
    return "/".join(package.split("/")[:2])


def test_every_package_is_in_the_table() -> None:
    packages = {
        package_of(module) for module, path in SOURCES.items() if path.name != "__init__.py"
    }
    assert packages <= set(PACKAGES)


def test_each_test_of_a_topology_is_in_the_package_of_what_it_tests() -> None:
    folders = {
        path.parent.relative_to(UNIT_TESTS) for path in (UNIT_TESTS / "topology").rglob("test_*.py")
    }
    assert len(folders) > len(TOPOLOGY) // 2
    assert {folder.as_posix() for folder in folders} <= set(TOPOLOGY) - {"topology"}


@pytest.mark.parametrize(
    "package", sorted({*PACKAGES, *PACKAGES_WITHOUT_MODULES} - {"logstate", "topology"})
)
def test_a_package_says_what_it_is_for_and_what_it_may_import(package: str) -> None:
    docstring = ast.get_docstring(syntax(ROOT / package / "__init__.py").tree)
    assert docstring is not None
    assert len(docstring.splitlines()[0]) > 20
    if package not in PACKAGES_WITHOUT_MODULES:
        text = " ".join(docstring.split())
        assert "Start with `" in text
        assert "Imports " in text
