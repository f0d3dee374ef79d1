"""Every recorded run of Kafka Streams, replayed through logstate."""

from __future__ import annotations

import gzip
import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from .mutation import mutations
from .suite import file_verdicts
from .vectors import case_name, read_vector, vector_files

FOLDER = Path(__file__).parent / "vectors"
#: small cases that between them have every member of a recording
MUTATED = ("repartition", "suppress-closes-full", "murmur2")


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
def test_each_member_of_a_vector_is_compared(name, tmp_path):
    """One change at a time, in a file that is then run as a whole."""
    data = read_vector(FOLDER / f"{name}.json.gz")
    path = tmp_path / f"{name}.json.gz"
    members = [data] if name == "murmur2" else [data, *data["runs"][:1]]
    compared = {"describe", "names", "vectors", "output", "stores", "dropped", "changelog"}
    compared |= {"internal", "error"}
    chance = random.Random(7)
    tried = set()
    for holder in members:
        for member in sorted(compared & holder.keys()):
            whole = holder[member]
            changes = list(mutations(whole))
            for where, changed in chance.sample(changes, min(5, len(changes))):
                holder[member] = changed
                path.write_bytes(gzip.compress(json.dumps(data).encode()))
                assert not all(v.passed for v in file_verdicts(path)), f"{member}{where}"
                tried.add(member)
            holder[member] = whole
    assert tried


def run_command(folder: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.conformance", folder],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
