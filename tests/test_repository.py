"""The files of the repository that are not code: their versions are those of the project."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import pytest
import yaml

import logstate
from logstate.local_broker.jar_list import KAFKA_VERSION
from tests.pages import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
SUPPORT = (ROOT / "docs" / "support.md").read_text(encoding="utf-8")


def constraint(name: str) -> str:
    text = (ROOT / ".ci" / "constraints.txt").read_text(encoding="utf-8")
    found = re.search(rf"^{name}==(.*)$", text, re.MULTILINE)
    assert found is not None
    return found.group(1)


def row(name: str) -> str:
    found = re.search(rf"^\| {re.escape(name)}.*$", SUPPORT, re.MULTILINE)
    assert found is not None, f"the support matrix has no row {name}"
    return found.group(0)


def lowest(package: str) -> str:
    """The version of a package from which on the project, or an extra of it, accepts it."""
    extras = [need for needs in PROJECT["optional-dependencies"].values() for need in needs]
    for need in (*PROJECT["dependencies"], *extras):
        if found := re.fullmatch(rf"{package}(?:\[.*\])?>=([\d.]+)", need):
            return found.group(1)
    raise AssertionError(package)


def pythons() -> list[str]:
    prefix = "Programming Language :: Python :: 3."
    return [one.rpartition(" ")[2] for one in PROJECT["classifiers"] if one.startswith(prefix)]


def test_the_support_matrix_has_the_versions_that_are_installed_and_tested() -> None:
    assert f"| {', '.join(pythons())};" in row("Python")
    assert f"| {KAFKA_VERSION} |" in row("Kafka brokers")
    assert f"| {KAFKA_VERSION} |" in row("Kafka Streams")
    for package, name in (("confluent-kafka", "confluent-kafka"), ("pyarrow", "pyarrow")):
        assert f"| {lowest(package)} and newer | {constraint(name)} |" in row(name)
    newest = constraint("pyspark")
    assert f"| {lowest('pyspark')} to {newest.rpartition('.')[0]}," in row("PySpark")
    assert f"| {newest} in every test run" in row("PySpark")


def test_the_workflow_runs_the_tests_on_every_python_of_the_project() -> None:
    loaded: dict[str, Any] = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text())
    jobs = loaded["jobs"]
    assert jobs["test"]["strategy"]["matrix"]["python"] == pythons()
    assert ".ci/run" in [step.get("run") for step in jobs["test"]["steps"]]
    assert "./dev docs" in [step.get("run") for step in jobs["docs"]["steps"]]


def test_the_version_is_the_same_everywhere() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert PROJECT["version"] == logstate.__version__ == citation["version"]
    assert citation["license"] == PROJECT["license"]
    assert f"## [{PROJECT['version']}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("template", sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.md")))
def test_an_issue_template_has_a_name_and_a_description(template: Any) -> None:
    front = yaml.safe_load(template.read_text(encoding="utf-8").split("---")[1])
    assert front["name"]
    assert front["about"]
