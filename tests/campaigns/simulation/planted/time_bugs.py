"""Bugs of partition times, of cuts, and of what a worker with several tasks commits."""

from __future__ import annotations

from logstate.changelog import cut
from logstate.commit.commit import Committer
from logstate.restore import committed_offsets, restore_plan, task_starter
from logstate.restore.committed_offsets import CutsReader
from logstate.task import batch_loop, task
from tests.campaigns.simulation.large_cuts import LargeCuts
from tests.campaigns.simulation.partition_times import PartitionTimes
from tests.campaigns.simulation.planted.bug import Patch, bug, scenario_bug
from tests.campaigns.simulation.planted.edit import edit


@scenario_bug(PartitionTimes.of)
def partition_times_start_anew(patch: Patch) -> None:
    """After a restart a timestamp extractor is told that its partition had no record yet."""
    old = "self.partition_times = dict(partition_times)"
    edit(patch, task.Task, "set_clocks", old, "self.partition_times = {}")


@scenario_bug(PartitionTimes.of)
def partition_times_go_on_in_a_commit(patch: Patch) -> None:
    """The times of a commit under way are those of what is processed meanwhile."""
    edit(patch, task.Task, "freeze", "dict(self.partition_times)", "self.partition_times")


@scenario_bug(PartitionTimes.of)
def a_record_that_is_looked_at_moves_its_partitions_time(patch: Patch) -> None:
    """The head of a queue moves the partition's time before it is processed."""
    old = "if is_bounded and timestamp >= before:"
    new = f"partition_time = max(partition_time, timestamp)\n                {old}"
    edit(patch, batch_loop, "run_queue", old, new, also=task)


@scenario_bug(PartitionTimes.of)
def inputs_share_a_partition_time(patch: Patch) -> None:
    """Each input of a task is committed with the time of the last."""
    old = "commit.partition_times.get(tp, -1)"
    new = "max(commit.partition_times.values(), default=-1)"
    edit(patch, Committer, "_offsets", old, new)


@scenario_bug(LargeCuts.of)
def a_large_cut_is_not_written(patch: Patch) -> None:
    """Offsets point to a cut that nobody wrote."""
    edit(patch, Committer, "_offsets", "if overflow:", "if overflow is None:")


@scenario_bug(LargeCuts.of)
def a_large_cut_of_another_commit_counts(patch: Patch) -> None:
    """The last cut that was read is taken, whichever offset it was written for."""
    old = "_inputs(fields).get(topic) != committed_offset"
    edit(patch, cut, "decode_cut_record", old, "False", also=committed_offsets)


@scenario_bug(LargeCuts.of)
def a_large_cut_leaves_its_transaction(patch: Patch) -> None:
    """Cuts are written by whoever asks first, one for all tasks."""
    old = "key = cut_key(owned.task_id)"
    edit(patch, Committer, "_offsets", old, "key = cut_key(tasks[0].task_id)")


@scenario_bug(LargeCuts.of)
def large_cuts_are_read_once(patch: Patch) -> None:
    """What was committed since the first look at the cuts is not looked for."""
    old = "if self._position >= end:\n        return\n    if self._consumer is None:"
    new = "if self._is_assigned:\n        return\n    if self._consumer is None:"
    edit(patch, CutsReader, "_read_on", old, new)


@bug
def tasks_share_the_clocks_of_the_first(patch: Patch) -> None:
    """Of the tasks of a worker all are committed with the clocks of one."""
    old = "in commit.changes.clocks.items() if"
    edit(patch, Committer, "_offsets", old, "in commits[0].changes.clocks.items() if")


@bug
def tasks_share_the_positions_of_the_first(patch: Patch) -> None:
    """Of the tasks of a worker all learn where the changelogs of one end."""
    old = "positions = [self._positions(commit, delivered) for commit in commits]"
    new = "positions = [self._positions(commits[0], delivered) for commit in commits]"
    edit(patch, Committer, "commit", old, new)


@bug
def a_stale_cut_counts(patch: Patch) -> None:
    """A cut counts for whatever offset it is found with."""
    old = "if fields.o == committed_offset else None"
    edit(patch, cut, "decode_cut", old, "", also=restore_plan)


@bug
def the_cut_of_one_input_is_enough(patch: Patch) -> None:
    """Clocks of a past commit count where another program has committed some inputs since."""
    old = "elif committed[tp].offset is not None:\n            return {}"
    edit(patch, restore_plan, "counting_cuts", old, "", also=task_starter)
