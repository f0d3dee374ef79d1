"""Drawn topologies here alone; tests/broker has Kafka Streams beside them."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator

import pytest

from .cases import drawn_case
from .verdict import differences, varied


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Without warnings of late records and deleted rows, which are wanted here."""
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [4, 8, 23])
def test_crashes_and_commit_intervals_do_not_show(seed: int) -> None:
    assert varied(drawn_case(seed)).kind == "equal"


def test_a_seed_draws_the_same_case_each_time() -> None:
    assert drawn_case(3) == drawn_case(3)
    assert drawn_case(3) != drawn_case(4)


def test_a_thousand_cases_have_every_operator_in_them() -> None:
    ops = Counter(
        step.get("kind", step["op"])
        for seed in range(1_000)
        for step in drawn_case(seed)["topology"]
    )

    assert ops.total() > 8_000
    assert min(ops.values()) > 50, ops


def test_where_results_wait_for_commits_an_aggregate_of_an_aggregate_is_often_drawn() -> None:
    cases = [drawn_case(seed, emits_on_commit=True) for seed in range(200)]
    held = {
        (case["case"], step["name"])
        for case in cases
        for step in case["topology"]
        if step.get("emit") == "on_commit"
    }
    regrouped = {
        (case["case"], step["in"])
        for case in cases
        for step in case["topology"]
        if step["op"] == "group_by"
    }
    assert len(held) > 150
    assert len(held & regrouped) > 40
    assert all({"op": "commit"} in case["events"] for case in cases)


def test_the_first_record_that_differs_is_told_with_its_event() -> None:
    given = {
        "events": [{"ts": 1}, {"ts": 2}],
        "topology": [],
        "config": {"application.id": "app"},
    }
    theirs = {"topics": {"out": [[0, "61", "01", 1]]}, "dropped": [], "describe": ""}
    ours = {"topics": {"out": [[0, "61", "01", 1], [1, "61", "02", 2]]}, "dropped": []}

    (said,) = differences(given, theirs, ours | {"describe": ""})

    assert said == ("event 1 {'ts': 2}: out[1]: expected nothing, got [1, '61', '02', 2]")
