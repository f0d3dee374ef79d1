"""Schedules keep every promise, fail in every way they should, and can be run again."""

from __future__ import annotations

import gc
import re
from collections import Counter

import pytest

from tests.campaigns.simulation.async_calls import AsyncCalls
from tests.campaigns.simulation.campaign import run_seeds
from tests.campaigns.simulation.collection_stores import CollectionStores
from tests.campaigns.simulation.command import simulation
from tests.campaigns.simulation.damaged_blocks import DamagedBlocks
from tests.campaigns.simulation.dead_letters import DeadLetters
from tests.campaigns.simulation.dead_owner import DeadOwner
from tests.campaigns.simulation.directories import Directories
from tests.campaigns.simulation.directory_claims import DirectoryClaims
from tests.campaigns.simulation.expiry import Expiry
from tests.campaigns.simulation.failed_ends import FailedEnds
from tests.campaigns.simulation.foreign_keys import ForeignKeys
from tests.campaigns.simulation.held_outputs import HeldOutputs
from tests.campaigns.simulation.histories import Histories
from tests.campaigns.simulation.idle_windows import IdleWindows
from tests.campaigns.simulation.indexes import Indexes
from tests.campaigns.simulation.large_cuts import LargeCuts
from tests.campaigns.simulation.late_streams import LateStreams
from tests.campaigns.simulation.named_cuts import NamedCuts
from tests.campaigns.simulation.overtaken_tables import OvertakenTables
from tests.campaigns.simulation.partition_times import PartitionTimes
from tests.campaigns.simulation.pauses import Pauses
from tests.campaigns.simulation.planted.bug import BUGS, planted
from tests.campaigns.simulation.planted.table import search  # noqa: F401  its imports register the bugs
from tests.campaigns.simulation.refused_results import RefusedResults
from tests.campaigns.simulation.reshards import Reshards
from tests.campaigns.simulation.schedule import Schedule
from tests.campaigns.simulation.slow_functions import SlowFunctions
from tests.campaigns.simulation.slow_replay import SlowReplay
from tests.campaigns.simulation.stale_copies import StaleCopies
from tests.campaigns.simulation.standbys import Standbys
from tests.campaigns.simulation.timers import Timers
from tests.campaigns.simulation.unanswered import Unanswered

#: those that the variants of the flow keep
STORE_KINDS = (
    *("key_value", "timestamped_key_value", "timestamped_window", "window", "session"),
    *("versioned", "suppress_buffer", "join_buffer", "outer_join"),
)


def shares(output: str) -> dict[str, float]:
    """In which share of the schedules each fault fired."""
    found = re.findall(r"^ +(\w+) +([\d.]+)%$", output, re.MULTILINE)
    return {name: float(percent) / 100 for name, percent in found}


def counters(output: str) -> dict[str, int]:
    found = re.findall(r"^  (\w+) +([\d,]+)$", output, re.MULTILINE)
    return {name: int(count.replace(",", "")) for name, count in found}


@pytest.mark.slow
def test_five_hundred_schedules_keep_every_promise() -> None:
    output = simulation("--seeds", "0..500")
    assert output.rstrip().endswith(" 0 wrong")
    assert "HOLE" not in output  # of faults nor of oracles: so many schedules are judged
    counted = counters(output)
    assert counted["crashes"] >= 2_500
    for kind in (
        "transaction_open",
        "committing",
        "restoring",
        "replacing_producer",
        "in_disk_write",
        "with_tail_of_disk_lost",
        "with_everything_of_disk_lost",
    ):
        assert counted[f"crashes_{kind}"] >= 10, kind
    for kind in ("zombie", "expel", "replies_lost", "late_ends", "time_out", "slow", "clock_jump"):
        assert counted[kind] >= 10, kind
    for kind in STORE_KINDS:
        assert counted[f"compared_changelog_rows_of_{kind}"] >= 250, kind
        assert counted[f"compared_directory_rows_of_{kind}"] >= 25, kind
    for what in ("inputs", "clocks", "outputs_exactly_once", "outputs_at_least_once"):
        assert counted[f"compared_{what}"] >= 500, what


@pytest.mark.slow
def test_what_can_go_wrong_around_the_end_of_a_transaction_does() -> None:
    output = simulation("--story", "failed_ends", "--seeds", "0..125")
    assert output.rstrip().endswith(" 0 wrong")
    assert min(shares(output).values()) >= 0.05


@pytest.mark.slow
def test_a_range_run_again_has_the_same_trace() -> None:
    traces = [
        re.findall(r"^trace (\w+),", simulation("--seeds", "0..10", hash_seed=seed), re.MULTILINE)
        for seed in ("1", "2")
    ]
    assert traces[0] == traces[1] != []


@pytest.mark.slow
@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
def test_a_crash_at_every_step_and_at_many_pairs_of_steps_keeps_every_promise(
    guarantee: str,
) -> None:
    output = simulation("--systematic", "--pairs", "60", "--only", guarantee)
    rows = [line.split() for line in output.splitlines()[1:]]
    assert [row[:2] for row in rows] == [[guarantee, "table"], [guarantee, "streams"]]
    assert all(int(row[3]) >= 50 and int(row[4]) >= 50 and row[6] == "0" for row in rows)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "compares"),
    [
        (AsyncCalls, ["results"]),
        (DeadOwner, ["inputs"]),
        (RefusedResults, ["inputs"]),
        (ForeignKeys, ["results"]),
        (FailedEnds, ["outputs_at_least_once"]),
        (PartitionTimes, ["changelog_rows_of_timestamped_window"]),
        (LargeCuts, ["large_cuts", "changelog_rows_of_key_value_lru"]),
        (HeldOutputs, ["outputs_at_least_once"]),
        (SlowFunctions, ["outputs_exactly_once"]),
        (DeadLetters, ["dead_letters"]),
        (Histories, ["directory_rows_of_versioned"]),
        (Pauses, ["paused_steps"]),
        (Unanswered, ["outputs_exactly_once"]),
        (Timers, ["changelog_rows_of_key_value"]),
        (LateStreams, ["changelog_rows_of_session"]),
        (IdleWindows, ["results"]),
        (CollectionStores, ["changelog_rows_of_set", "directory_rows_of_list"]),
        (Indexes, ["changelog_rows_of_key_value", "directory_rows_of_timestamped_key_value"]),
        (Expiry, ["changelog_rows_of_key_value", "directory_rows_of_timestamped_key_value"]),
    ],
)
def test_every_promise_holds_in_other_kinds_of_schedules(
    kind: type[Schedule], compares: list[str]
) -> None:
    outcomes = list(run_seeds(range(24), kind.of))
    assert [f"{o.seed}: {o.failure}" for o in outcomes if o.failure is not None] == []
    assert sum(o.counters["crashes"] for o in outcomes) >= 24
    for what in compares:
        assert sum(o.counters[f"compared_{what}"] for o in outcomes) >= 24, what


@pytest.mark.slow
def test_deleted_rows_stay_deleted_where_a_replay_is_slower_than_the_cleaner() -> None:
    outcomes = list(run_seeds(range(24), SlowReplay.of))
    assert [f"{o.seed}: {o.failure}" for o in outcomes if o.failure is not None] == []
    assert all(o.counters["slow_replays"] > 0 for o in outcomes)


@pytest.mark.slow
def test_standbys_hold_what_was_committed_and_are_promoted_by_every_fault() -> None:
    totals = Counter[str]()
    for outcome in run_seeds(range(30), Standbys.of):
        assert outcome.failure is None, f"{outcome.seed}: {outcome.failure}"
        totals += outcome.counters
    assert totals["promotions"] >= 100
    for kind in ("true", "old", "lacking", "joining"):
        assert totals[f"told_{kind}"] >= 100, kind


@pytest.mark.slow
def test_copies_that_fail_or_are_old_have_what_their_time_says_and_lose_nothing() -> None:
    totals = Counter[str]()
    for outcome in run_seeds(range(20), StaleCopies.of):
        assert outcome.failure is None, f"{outcome.seed}: {outcome.failure}"
        totals += outcome.counters
    assert totals["promotions"] >= 60
    assert totals["failed_copies"] >= 20
    assert totals["stopped_workers"] >= 20
    assert totals["compared_times"] >= 5_000


def test_state_that_moves_by_attempts_that_die_is_that_of_an_application_that_never_moved() -> None:
    totals = Counter[str]()
    for outcome in run_seeds(range(16), Reshards.of):
        assert outcome.failure is None, f"{outcome.seed}: {outcome.failure}"
        totals += outcome.counters
    for what in ("rows_of_totals", "rows_of_windows", "outputs_finals", "outputs_joined"):
        assert totals[f"compared_{what}"] >= 100, what
    for what in ("moves_killed", "moves_refused", "moves_failed", "starts_refused"):
        assert totals[what] > 0, what


def test_a_campaign_leaves_frozen_what_the_tests_froze() -> None:
    assert gc.get_freeze_count() > 10_000, "of tests/conftest.py"
    assert [outcome.failure for outcome in run_seeds(range(1))] == [None]
    assert gc.get_freeze_count() > 10_000
    assert gc.isenabled()


def test_a_slot_has_one_holder_and_open_rows_stay_whatever_is_deleted() -> None:
    totals = Counter[str]()
    for outcome in run_seeds(range(6), DirectoryClaims.of):
        assert outcome.failure is None, f"{outcome.seed}: {outcome.failure}"
        totals += outcome.counters
    assert totals["compared_open_directories"] >= 1_000
    for what in ("compared_claims", "noticed", "removed_rows", "deleted_files"):
        assert totals[what] > 0, what


def test_a_named_cut_has_the_rows_of_its_commits_whatever_happened_while_it_was_made() -> None:
    totals = Counter[str]()
    for outcome in run_seeds(range(6), NamedCuts.of):
        assert outcome.failure is None, f"{outcome.seed}: {outcome.failure}"
        totals += outcome.counters
    assert totals["compared_rows_of_cuts"] >= 500
    assert totals["compared_commits_of_cuts"] >= 50
    for what in ("cuts_made", "cuts_deleted", "cuts_whose_maker_died"):
        assert totals[what] > 0, what


@pytest.mark.slow
def test_damaged_blocks_cost_a_replay_and_nobody_a_task() -> None:
    totals = Counter[str]()
    for outcome in run_seeds(range(24), DamagedBlocks.of):
        assert outcome.failure is None, f"{outcome.seed}: {outcome.failure}"
        totals += outcome.counters
    assert totals["damaged"] >= 24
    assert totals["promotions"] >= 60


@pytest.mark.slow
def test_an_answer_is_right_and_not_overtaken_however_late_the_directory_is() -> None:
    totals = Counter[str]()
    for outcome in run_seeds(range(24), Directories.of):
        assert outcome.failure is None, f"{outcome.seed}: {outcome.failure}"
        totals += outcome.counters
    for what in ("compared_answers", "compared_last_answers", "answers_from_elsewhere"):
        assert totals[what] >= 200, what
    for what in ("promotions", "machines_that_died", "answers_lost_to_an_address"):
        assert totals[what] >= 10, what


def test_an_instance_whose_global_table_was_cut_off_begins_again_and_finds_the_same_rows() -> None:
    totals = Counter[str]()
    for outcome in run_seeds(range(8), OvertakenTables.of):
        assert outcome.failure is None, f"{outcome.seed}: {outcome.failure}"
        totals += outcome.counters
    assert totals["tables_cut_off"] >= 50
    assert totals["exits"] >= 40


@pytest.mark.slow
def test_a_foreign_key_join_is_compared_with_the_join_of_the_last_rows() -> None:
    totals = Counter[str]()
    for outcome in run_seeds(range(24, 48), ForeignKeys.of):
        assert outcome.failure is None, f"{outcome.seed}: {outcome.failure}"
        totals += outcome.counters
    assert totals["compared_results"] >= 100
    assert totals["compared_changelog_rows_of_foreign_key_subscription"] >= 100
    with planted(BUGS["a_replay_starts_one_too_late"]):
        assert any(o.failure is not None for o in run_seeds(range(24), ForeignKeys.of))
