"""The facade: a lazy table of public names, alphabetical."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

import logstate
from tests.patience import PATIENCE_S

HEAVY = ("confluent_kafka", "datasketches", "fastavro", "pyspark", "rocksdict", "typer")


def lazy_table() -> dict[str, str]:
    """The facade's table as ``name -> module``."""
    return dict(logstate._MODULES)


def test_every_public_name_is_in_the_lazy_table() -> None:
    assert set(logstate.__all__) - {"__version__"} == set(lazy_table())


def test_public_names_are_alphabetical_and_unique() -> None:
    names = list(logstate.__all__)
    assert names == sorted(set(names))


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
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=PATIENCE_S
    )
    assert answer.stdout.strip() == "[]"


#: objects that the library makes and users only read, and whose fields say everything
WITHOUT_EXAMPLE = {
    "Action",
    "KeyQueryMetadata",
    "RestoreProgress",
    "Serde",
    "Serving",
    "StreamsMetadata",
    "TaskLag",
    "Topology",
    "latest_cut",
}


def test_a_public_name_has_an_example_in_its_docstring() -> None:
    without = {
        name
        for name in lazy_table()
        if callable(one := getattr(logstate, name))
        and not (isinstance(one, type) and issubclass(one, Exception))
        and not any(mark in (one.__doc__ or "") for mark in (">>> ", "::\n"))
    }
    assert without == WITHOUT_EXAMPLE, "add an example, or remove the name from the exceptions"
