"""Schedules keep every promise, fail in every way they should, and can be run again."""

from __future__ import annotations

import re

import pytest

from tests.simulation.campaign import run_seeds
from tests.simulation.command import simulation
from tests.simulation.dead_owner import DeadOwner
from tests.simulation.refused_results import RefusedResults
from tests.simulation.schedule import Schedule
from tests.simulation.slow_replay import SlowReplay


def counters(output: str) -> dict[str, int]:
    found = re.findall(r"^  (\w+) +([\d,]+)$", output, re.MULTILINE)
    return {name: int(count.replace(",", "")) for name, count in found}


def test_a_thousand_schedules_keep_every_promise() -> None:
    output = simulation("--seeds", "0..1000")
    assert output.rstrip().endswith(" 0 wrong")
    counted = counters(output)
    assert counted["crashes"] >= 5_000
    for kind in (
        "transaction_open",
        "committing",
        "restoring",
        "replacing_producer",
        "in_disk_write",
        "with_tail_of_disk_lost",
        "with_everything_of_disk_lost",
    ):
        assert counted[f"crashes_{kind}"] >= 20, kind
    for kind in ("zombie", "expel", "replies_lost", "late_ends", "time_out", "slow", "clock_jump"):
        assert counted[kind] >= 20, kind


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1_000, 5_000, 500))
def test_so_do_five_hundred_more(first: int) -> None:
    output = simulation("--seeds", f"{first}..{first + 500}")
    assert output.rstrip().endswith(" 0 wrong")
    assert counters(output)["crashes"] >= 2_500


def test_a_range_run_again_has_the_same_trace() -> None:
    traces = [
        re.findall(r"^trace (\w+),", simulation("--seeds", "0..20", hash_seed=seed), re.MULTILINE)
        for seed in ("1", "2")
    ]
    assert traces[0] == traces[1] != []


def test_a_crash_at_every_step_of_a_small_scenario_keeps_every_promise() -> None:
    output = simulation("--systematic", "--pairs", "60")
    rows = [line.split() for line in output.splitlines()[1:]]
    assert [row[:2] for row in rows] == [
        ["exactly_once", "table"],
        ["exactly_once", "streams"],
        ["at_least_once", "table"],
        ["at_least_once", "streams"],
    ]
    assert all(int(row[3]) >= 100 and row[6] == "0" for row in rows)


@pytest.mark.slow
def test_so_does_a_crash_at_thousands_of_pairs_of_steps() -> None:
    simulation("--systematic", "--pairs", "1000")


@pytest.mark.parametrize("kind", [DeadOwner, RefusedResults])
def test_every_promise_holds_in_other_kinds_of_schedules(kind: type[Schedule]) -> None:
    outcomes = list(run_seeds(range(24), kind.of))
    assert [f"{o.seed}: {o.failure}" for o in outcomes if o.failure is not None] == []
    assert sum(o.counters["crashes"] for o in outcomes) >= 24


def test_deleted_rows_stay_deleted_where_a_replay_is_slower_than_the_cleaner() -> None:
    outcomes = list(run_seeds(range(24), SlowReplay.of))
    assert [f"{o.seed}: {o.failure}" for o in outcomes if o.failure is not None] == []
    assert all(o.counters["slow_replays"] > 0 for o in outcomes)
