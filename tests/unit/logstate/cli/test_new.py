"""``logstate new``: what it writes passes its own test."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from logstate.cli.main import app as command
from logstate.topology.dsl.topology_target import load_topology
from tests.patience import PATIENCE_S

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
def test_a_new_service_passes_its_test_in_an_empty_folder(folder: Path) -> None:
    answer = CliRunner().invoke(command, ["new", "shop-1"])
    assert answer.exit_code == 0, answer.output
    assert "cd shop-1" in answer.stdout
    tested = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder / "shop-1",
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=PATIENCE_S,
    )
    assert tested.returncode == 0, tested.stdout + tested.stderr
    assert "2 passed" in tested.stdout, tested.stdout


def test_the_container_files_name_what_exists(folder: Path) -> None:
    CliRunner().invoke(command, ["new", "Shop.eu"])
    here = folder / "Shop.eu"
    compose = yaml.safe_load((here / "compose.yaml").read_text())
    assert compose["name"] == "shop-eu"
    assert compose["services"].keys() == {"broker", "topics", "service"}
    for name in ("topics", "service"):
        one = compose["services"][name]
        assert one["environment"]["LOGSTATE_BOOTSTRAP"] == "broker:9092"
        assert one["environment"]["LOGSTATE_APPLICATION"] == "Shop.eu"
        assert one["depends_on"].keys() <= compose["services"].keys()
    words = compose["services"]["topics"]["command"].split()
    assert words[:3] == ["logstate", "topics", "create"]
    assert load_topology(words[3], directory=str(here)).stores.keys() == {"spent"}
    copied = re.findall(r"^COPY (\S+)", (here / "Dockerfile").read_text(), re.MULTILINE)
    assert all((here / name).is_file() for name in copied)


def test_a_folder_with_files_and_a_bad_name_are_refused(folder: Path) -> None:
    (folder / "shop").mkdir()
    (folder / "shop" / "notes").touch()
    refused = CliRunner().invoke(command, ["new", "shop"])
    assert refused.exit_code == 1
    assert "'shop' exists and is not an empty folder" in refused.stderr
    assert [path.name for path in (folder / "shop").iterdir()] == ["notes"]
    assert "NAME" in str(CliRunner().invoke(command, ["new", "my shop"]).exception)
