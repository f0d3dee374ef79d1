"""Results do not depend on commits, on the disk, or on crashes.

Samples; ``python -m tests.conformance --vary DIR`` takes every run through every variation.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from .suite import varied_verdicts
from .vary import VARIATIONS, Variation
from .vectors import MURMUR2, Case, case_name, read_vector, vector_files

FOLDER = Path(__file__).parent / "vectors"
#: one of each family
CASES = (
    "stream-aggregate-concat",
    "tumbling-close-grace",
    "session-count",
    "suppress-closes-tumbling",
    "join-outer",
    "fk-inner",
    "versioned-table",
    "process-punctuate-stream-time",
)
#: a few, for speed
SOME = (
    Variation(1, 1, "crash, disk lost"),
    Variation(7, 5, "no crash"),
    Variation(7, 5, "crash, disk kept"),
    Variation(1000, 1, "crash, disk lost"),
)


def one_run(name: str) -> Case:
    case = Case.of(read_vector(FOLDER / f"{name}.json.gz"))
    return replace(case, runs=case.runs[:1])


@pytest.mark.parametrize("name", CASES)
def test_nothing_shows_of_commits_disks_and_crashes(name: str) -> None:
    verdicts = varied_verdicts(one_run(name), SOME)
    assert len(verdicts) == len(SOME)
    assert [verdict for verdict in verdicts if not verdict.passed] == []


#: but runs with a cache: what they send depends on the commits that they record
EVERY_CASE = [
    name
    for path in vector_files(FOLDER)
    if (name := case_name(path)) != MURMUR2 and not name.startswith("on-commit-")
]


@pytest.mark.slow
@pytest.mark.parametrize(("number", "name"), list(enumerate(EVERY_CASE)), ids=EVERY_CASE)
def test_nothing_shows_in_any_case(number: int, name: str) -> None:
    """Two variations per case, others for each, so that every one has its turn ten times."""
    count = len(VARIATIONS)
    chosen = [VARIATIONS[7 * number % count], VARIATIONS[(7 * number + 11) % count]]
    verdicts = varied_verdicts(one_run(name), chosen)
    assert [verdict for verdict in verdicts if not verdict.passed] == []


@pytest.mark.parametrize("member", ["output", "stores", "dropped"])
def test_each_member_is_compared_under_every_variation(member: str) -> None:
    case = one_run("tumbling-count-grace")
    changed = json.loads(json.dumps(getattr(case.runs[0], member)))
    if member == "stores":
        changed["agg-store"]["rows"].pop()
    else:
        changed.pop()
    wrong = replace(case, runs=[replace(case.runs[0], **{member: changed})])
    verdicts = varied_verdicts(wrong, SOME)
    assert not any(verdict.passed for verdict in verdicts)
    assert all(verdict.problems[0].startswith(member) for verdict in verdicts)
