"""`logstate topology MODULE:ATTRIBUTE`: what it finds, prints and refuses."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path

import pytest
from typer.testing import CliRunner

from logstate.cli.main import app
from logstate.contracts.errors import ConfigError
from logstate.topology.dsl.topology_target import load_topology

MODULE = """
from logstate.topology import StreamsBuilder

builder = StreamsBuilder()
builder.stream("in", value=str, name="source").to("out", name="sink")

def topology():
    other = StreamsBuilder()
    other.stream("in", value=str, name="source").to("out", name="sink")
    return other.build()

def of_size(size):
    return topology()

finished = topology()
number = 7
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """A module of its own for each test, because a builder builds once."""
    name = f"shop_{abs(hash(request.node.name))}"
    (tmp_path / f"{name}.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return name


@pytest.mark.parametrize("attribute", ["builder", "topology", "finished"])
def test_a_topology_is_found_as_object_builder_or_function(module: str, attribute: str) -> None:
    assert "Source: source (topics: [in])" in load_topology(f"{module}:{attribute}").describe()


@pytest.mark.parametrize(
    ("form", "beginning"),
    [("text", "Topologies:\n"), ("mermaid", "flowchart TD\n"), ("svg", "<svg xmlns=")],
)
def test_the_command_prints_each_format(module: str, form: str, beginning: str) -> None:
    answer = CliRunner().invoke(app, ["topology", f"{module}:topology", "--format", form])
    assert answer.exit_code == 0, answer.output
    assert answer.stdout.startswith(beginning)


def test_text_is_the_default_format(module: str) -> None:
    answer = CliRunner().invoke(app, ["topology", f"{module}:topology"])
    assert answer.stdout == load_topology(f"{module}:topology").describe()


def test_programs_read_it_as_json(module: str) -> None:
    answer = CliRunner().invoke(app, ["topology", f"{module}:topology", "--json"])
    (sub,) = json.loads(answer.stdout)["sub_topologies"]
    assert sub["nodes"][0]["kind"] == "source"
    assert sub["nodes"][0]["topics"] == ["in"]


@pytest.mark.parametrize(
    ("attribute", "message"),
    [
        (":number", "is a int, not a topology"),
        (":of_size", "without arguments.*'size'"),
        (":missing", "What may be a topology in it: builder, topology, of_size, finished"),
        ("", "names no attribute"),
    ],
)
def test_what_is_no_topology_is_refused(module: str, attribute: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_topology(module + attribute)


def test_a_module_that_is_not_there_is_said_with_the_directory(module: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Module 'shp' was not found") as caught:
        load_topology("shp:topology")
    assert str(tmp_path) in str(caught.value)


def test_what_a_module_cannot_import_is_not_taken_for_the_module(tmp_path: Path) -> None:
    (tmp_path / "needs_more.py").write_text("import not_there_at_all\n", encoding="utf-8")
    with pytest.raises(ModuleNotFoundError, match="not_there_at_all"):
        load_topology("needs_more:topology", directory=str(tmp_path))


def test_the_command_tells_its_version() -> None:
    answer = CliRunner().invoke(app, ["--version"])
    assert (answer.exit_code, answer.stdout.strip()) == (0, version("logstate"))


@pytest.mark.parametrize("module", ["../shop", "shop.py ", "./shop", "a-b", "shop..spending", "1a"])
def test_what_is_no_module_s_name_is_told_before_anything_is_imported(
    tmp_path: Path, module: str
) -> None:
    with pytest.raises(ConfigError, match=r"is not a valid module name: write shop\.spending"):
        load_topology(f"{module}:topology", directory=str(tmp_path))


def test_a_module_that_ends_the_process_is_told_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "ends_at_once.py").write_text("import sys\nsys.exit(7)\n")
    with pytest.raises(ConfigError, match=r"SystemExit 7, in .*ends_at_once\.py:2") as told:
        load_topology("ends_at_once:topology", directory=str(tmp_path))
    assert "__main__" in str(told.value)
