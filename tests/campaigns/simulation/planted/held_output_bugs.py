"""Bugs of at-least-once outputs that wait beside a commit, and of commits under way."""

from __future__ import annotations

from logstate.commit.in_flight_commit import InFlightCommit
from logstate.commit.output_buffer import OutputBuffer
from logstate.task.task import Task
from logstate.worker.commits import Commits
from tests.campaigns.simulation.held_outputs import HeldOutputs
from tests.campaigns.simulation.planted.bug import Patch, bug, scenario_bug
from tests.campaigns.simulation.planted.edit import edit


@scenario_bug(HeldOutputs.of)
def plain_outputs_that_waited_are_forgotten(patch: Patch) -> None:
    """What waited behind a delivery is never sent."""
    edit(patch, OutputBuffer, "flush", "if deferred:", "if not deferred and deferred:")


@scenario_bug(HeldOutputs.of)
def plain_outputs_that_waited_survive_an_abort(patch: Patch) -> None:
    """What waited behind a delivery is sent though it is undone, and made again."""
    old = "self._deferred = self._deferred_plain = None"
    edit(patch, OutputBuffer, "discard", old, "self._deferred = None")


@scenario_bug(HeldOutputs.of)
def plain_outputs_wait_for_the_next_commit(patch: Patch) -> None:
    """What waited behind a delivery waits on, with offsets that are committed without it."""
    old = "deferred, self._deferred_plain = self._deferred_plain, None"
    edit(patch, OutputBuffer, "flush", old, "deferred = None")


@bug
def the_offsets_of_a_commit_are_those_of_now(patch: Patch) -> None:
    """What came after a commit that was under way counts as committed."""
    old = "self.committed_offsets = commit.offsets"
    edit(patch, Task, "committed", old, "self.committed_offsets = dict(self.consumed)")


@bug
def a_call_that_is_given_up_runs_on(patch: Patch) -> None:
    """A transaction is aborted while its commit is on its way."""
    edit(patch, InFlightCommit, "abandon", "pending is not None", "pending is Ellipsis")


@bug
def an_abort_keeps_what_waits_for_the_next_transaction(patch: Patch) -> None:
    """Outputs held back by a commit that is given up are not dropped."""
    edit(patch, Commits, "abandon", "self.live.committer.output_buffer.discard()", "pass")


@bug
def what_waits_for_the_brokers_holds_up_what_is_due(patch: Patch) -> None:
    """An interval begins with the commit before, whatever was aborted since."""
    edit(patch, Commits, "abandon", "self._begin_interval()", "self._interval_began_ms = 1e15")
