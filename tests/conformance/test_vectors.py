"""Every recorded run of Kafka Streams, replayed through logstate."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S

from .mutation import one_of_each_kind
from .suite import case_verdicts, file_verdicts
from .vectors import Case, case_name, read_vector, vector_files

FOLDER = Path(__file__).parent / "vectors"
COMPARED = {"describe", "names", "output", "stores", "dropped", "changelog", "internal", "error"}
#: cases that between them have every member of a recording, and keys and rows of every kind
MUTATED = (
    "suppress-closes-full",
    "headers-store-format",
    "repartition",
    "fk-left",
    "join-outer",
    "versioned-table",
    "session-count",
    "global-table-lookup",
    "tumbling-count-grace",
)


@pytest.mark.parametrize("path", vector_files(FOLDER), ids=case_name)
def test_the_result_is_kafka_streams_result(path):
    verdicts = file_verdicts(path)
    assert verdicts
    assert [verdict for verdict in verdicts if not verdict.passed] == []


def test_the_vectors_come_with_their_definition():
    assert (FOLDER / "README.md").read_text().startswith("# Conformance vectors")


def test_a_missing_folder_fails(tmp_path):
    for folder in (tmp_path / "missing", tmp_path):
        found = run_command(str(folder))
        assert found.returncode == 1
        assert found.stdout.splitlines()[-1] == "0 passed, 1 failed"


def test_the_command_prints_a_line_per_failing_case_and_counts_runs(tmp_path):
    data = read_vector(FOLDER / "filter.json.gz")
    data["runs"][1]["output"][3]["value"] = 99
    (tmp_path / "filter.json").write_text(json.dumps(data))
    found = run_command(str(tmp_path))
    first, last = found.stdout.splitlines()
    assert first.startswith("FAIL filter seed 2: output[3]: expected {'topic':")
    assert last == f"{len(data['runs']) - 1} passed, 1 failed"


@pytest.mark.parametrize("name", MUTATED)
def test_each_field_of_a_vector_is_compared(name: str) -> None:
    """One change at a time, of every field that there is: a value, or the field itself, lost."""
    data = read_vector(FOLDER / f"{name}.json.gz")
    data["runs"] = data["runs"][:1]
    chance = random.Random(7)
    for holder in (data, *data["runs"]):
        for member in sorted(COMPARED & holder.keys()):
            whole = holder[member]
            for where, changed in one_of_each_kind(whole, chance):
                holder[member] = changed
                verdicts = case_verdicts(Case.of(data))
                assert not all(verdict.passed for verdict in verdicts), f"{member}{where}"
            holder[member] = whole
    assert all(verdict.passed for verdict in case_verdicts(Case.of(data)))


def test_each_member_is_in_a_vector_that_is_changed() -> None:
    found = set()
    for name in MUTATED:
        data = read_vector(FOLDER / f"{name}.json.gz")
        for holder in (data, data["runs"][0]):
            found |= {member for member in COMPARED & holder.keys() if holder[member]}
    assert found == COMPARED


def test_each_field_of_the_partitioners_vectors_is_compared(tmp_path: Path) -> None:
    data = read_vector(FOLDER / "murmur2.json.gz")
    path = tmp_path / "murmur2.json"
    first, *others = data["vectors"]
    for where, changed in one_of_each_kind(first, random.Random(7)):
        if where != ".text lost":  # the key's bytes are there as well
            path.write_text(json.dumps({**data, "vectors": [changed, *others]}))
            assert not all(verdict.passed for verdict in file_verdicts(path)), where


def run_command(folder: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.conformance", folder],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
