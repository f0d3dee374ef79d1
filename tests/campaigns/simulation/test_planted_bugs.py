"""The simulation notices what it is there to notice."""

from __future__ import annotations

import pytest

from tests.campaigns.simulation.command import simulation
from tests.campaigns.simulation.planted.bug import BUGS, planted
from tests.campaigns.simulation.planted.table import finders, search
from tests.campaigns.simulation.shrink import replay, replay_command, shrink
from tests.campaigns.simulation.swarm import draw

#: the suite looks for one planted bug in six; --mutants without --only looks for all
SHARE = 6
#: each of them well below a minute
PARTS = 2

#: one per kind of rule, each found within a few schedules
QUICK = (
    "offsets_are_not_in_the_transaction",
    "one_task_commits_alone",
    "buffered_records_count_as_consumed",
    "internal_records_leave_the_transaction",
    "uncommitted_records_are_restored",
    "a_restore_ends_with_the_first_empty_poll",
    "a_replay_starts_one_too_late",
    "rows_are_written_before_the_commit",
    "clocks_of_operators_are_forgotten",
    "due_times_are_forgotten",
    "a_move_goes_on_with_a_producer_whose_commit_may_come_twice",
    "a_handover_is_two_transactions",
    "a_move_copies_final_results_that_were_sent",
    "a_slot_is_held_by_its_lock_file_alone",
    "a_deleted_lock_file_is_not_made_again",
    "a_directory_counts_as_used_by_its_own_worker_only",
    "a_cut_is_the_end_of_the_log",
    "the_claim_of_a_cut_stays_when_it_is_complete",
    "the_copies_of_a_cut_expire",
)


@pytest.mark.parametrize("name", QUICK)
def test_a_planted_bug_is_found(name: str) -> None:
    assert search(BUGS[name], schedules_max=60).seed is not None


def test_there_are_enough_planted_bugs_and_each_says_what_it_is() -> None:
    assert len(BUGS) >= 160
    assert finders().keys() == BUGS.keys()
    assert all(bug.says.endswith(".") for bug in BUGS.values())


def test_a_planted_bug_that_shows_in_no_schedule_is_found_by_its_test() -> None:
    found = search(BUGS["a_changelog_is_trimmed_to_its_last_segment"])
    assert found.seed == finders()[found.bug]
    assert found.failure.startswith("FAILED tests/")


def test_every_planted_bug_fits_the_code_that_it_changes() -> None:
    for bug in BUGS.values():
        with planted(bug):
            pass


def test_a_planted_bug_leaves_no_trace() -> None:
    from logstate.task.task import Task

    before = Task.freeze
    with planted(BUGS["rows_are_written_before_the_commit"]):
        assert Task.freeze is not before
    assert Task.freeze is before


def test_a_failing_schedule_is_made_small_and_can_be_replayed() -> None:
    with planted(BUGS["the_tasks_stream_time_is_forgotten"]):
        seed = search(BUGS["the_tasks_stream_time_is_forgotten"], schedules_max=60).seed
        assert seed is not None
        dropped, outcome = shrink(seed)
        assert outcome.failure is not None
        assert 0 < len(dropped) <= len(draw(seed).faults)
        lines = replay(seed, dropped)
    assert "Wrong" in lines[-1]
    assert (
        replay_command(seed, {3, 1})
        == f"python -m tests.campaigns.simulation --seed {seed} --without 1,3"
    )


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_one_planted_bug_in_six_is_found(part: int) -> None:
    names = list(BUGS)[::SHARE][part::PARTS]
    output = simulation("--mutants", "--only", ",".join(names))
    assert output.rstrip().endswith(f"{len(names)} planted bugs, {len(names)} found")
