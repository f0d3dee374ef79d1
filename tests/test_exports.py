"""The facade: a lazy table of public names, mirrored for type checkers, alphabetical."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import logstate

FACADE = Path(__file__).resolve().parent.parent / "logstate" / "__init__.py"
HEAVY = ("confluent_kafka", "fastavro", "pyspark", "rocksdict", "typer")


def lazy_table() -> dict[str, str]:
    """The facade's table as ``name -> module``."""
    return dict(logstate._MODULES)


def mirrored_names() -> dict[str, str]:
    """What the facade imports under ``if TYPE_CHECKING``."""
    found: dict[str, str] = {}
    for node in ast.parse(FACADE.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for statement in node.body:
                assert isinstance(statement, ast.ImportFrom), ast.unparse(statement)
                for alias in statement.names:
                    # Only a name that is repeated is public for them.
                    assert alias.asname == alias.name, alias.name
                    found[alias.name] = statement.module or ""
    return found


def test_every_public_name_is_in_the_lazy_table() -> None:
    assert set(logstate.__all__) - {"__version__"} == set(lazy_table())


def test_public_names_are_alphabetical_and_unique() -> None:
    names = list(logstate.__all__)
    assert names == sorted(set(names))


def test_type_checkers_see_the_same_names_from_the_same_modules() -> None:
    assert mirrored_names() == lazy_table()


def test_every_public_name_can_be_had() -> None:
    for name, module in lazy_table().items():
        assert getattr(logstate, name) is getattr(importlib.import_module(module), name), name


def test_dir_lists_the_public_names() -> None:
    assert set(logstate.__all__) <= set(dir(logstate))


def test_an_unknown_name_is_an_attribute_error_that_names_it() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        logstate.no_such_name  # noqa: B018


def test_importing_the_facade_loads_no_heavy_library() -> None:
    code = f"import logstate, sys; print([m for m in {HEAVY} if m in sys.modules])"
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert answer.stdout.strip() == "[]"
