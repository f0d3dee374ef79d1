"""docs/support.md names the versions that the project declares and that the tests install."""

from __future__ import annotations

import re
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml

from logstate.local_broker.jar_list import KAFKA_VERSION
from tests.campaigns.spark_versions.environments import RELEASES

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "support.md").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def row(subject: str) -> tuple[str, str]:
    """The supported versions, and those of the tests."""
    (line,) = re.findall(rf"^\| {re.escape(subject)}[^|]*\|(.*)\|(.*)\|$", PAGE, re.MULTILINE)
    return line[0], line[1]


def least(package: str) -> str:
    """The version that the project or one of its extras requires."""
    extras = [one for extra in PROJECT["optional-dependencies"].values() for one in extra]
    pattern = re.compile(rf"{re.escape(package)}(?:\[.*\])?>=([\d.]+)")
    found = {m[1] for one in [*PROJECT["dependencies"], *extras] if (m := pattern.match(one))}
    (only,) = found
    return only


def test_the_python_versions_are_those_of_the_classifiers() -> None:
    declared = re.findall(r"Python :: (3\.\d+)", " ".join(PROJECT["classifiers"]))
    assert f"{declared[0]} to {declared[-1]}" in row("Python")[0]
    assert PROJECT["requires-python"] == f">={declared[0]}"
    assert f"{sys.version_info[0]}.{sys.version_info[1]}" in declared


def test_the_broker_is_that_of_the_tests() -> None:
    assert KAFKA_VERSION in row("Apache Kafka brokers")[1]
    assert KAFKA_VERSION in row("Kafka Streams")[1]


@pytest.mark.parametrize(
    ("subject", "package"),
    [
        ("confluent-kafka", "confluent-kafka"),
        ("rocksdict", "rocksdict"),
        ("pyarrow", "pyarrow"),
    ],
)
def test_a_library_has_the_required_version_and_the_installed_one(
    subject: str, package: str
) -> None:
    supported, tested = row(subject)
    assert f"{least(package)} and later" in supported
    assert version(package) in tested


@pytest.mark.slow
def test_spark_has_the_versions_of_the_campaign() -> None:
    supported, tested = row("PySpark")
    assert f"{RELEASES[0]} to {RELEASES[-1]}" in supported
    assert f"{RELEASES[0]} to {RELEASES[-1]}" in tested
    assert version("pyspark") in tested


@pytest.mark.slow
@pytest.mark.parametrize("package", ["Polars", "DuckDB", "pandas"])
def test_readers_of_arrow_have_the_installed_version(package: str) -> None:
    assert f"{package} {version(package.lower())}" in row("Polars")[1]


def test_the_files_of_the_repository_are_valid_and_have_the_version_of_the_project() -> None:
    found = {
        path.relative_to(ROOT).as_posix(): yaml.safe_load(path.read_text(encoding="utf-8"))
        for path in [*ROOT.glob(".github/**/*.yml"), ROOT / "CITATION.cff"]
    }
    assert found["CITATION.cff"]["version"] == PROJECT["version"]
    assert found["CITATION.cff"]["license"] == PROJECT["license"]
    steps = found[".github/workflows/ci.yml"]["jobs"]["everything"]["steps"]
    assert steps[-1] == {"run": ".ci/run"}
    for form in ("bug", "feature"):
        assert found[f".github/ISSUE_TEMPLATE/{form}.yml"]["body"]
