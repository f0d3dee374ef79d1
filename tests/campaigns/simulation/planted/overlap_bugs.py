"""Bugs in what goes on while a commit is under way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import logstate.commit.maintenance
from logstate.commit.commit import Committer
from logstate.commit.output_buffer import OutputBuffer
from logstate.contracts.clients import Steps
from logstate.task.owned_task import OwnedTask
from logstate.task.task_commit import TaskCommit
from logstate.topics.bound_plan import BoundPlan
from logstate.worker.commits import Commits
from tests.campaigns.simulation.planted.bug import Patch, bug


@bug
def outputs_slip_into_the_commit_under_way(patch: Patch) -> None:
    """What is processed while a commit waits is produced into its transaction."""
    patch(OutputBuffer, "defer", lambda self: None)


@bug
def outputs_that_waited_are_forgotten(patch: Patch) -> None:
    """What was held back for the end of a commit is dropped there."""

    def wrong(self: OutputBuffer) -> Steps[None]:
        self.discard()
        yield from ()

    patch(OutputBuffer, "release", wrong)


@bug
def outputs_that_waited_survive_an_abort(patch: Patch) -> None:
    """What was held back is sent although it is undone, and made again."""
    defer = OutputBuffer.defer

    def wrong(self: OutputBuffer) -> None:
        kept = self.__dict__.pop("kept", None)
        defer(self)
        if kept and self._deferred is not None:
            self._deferred += kept

    patch(OutputBuffer, "defer", wrong)
    patch(
        OutputBuffer,
        "discard",
        lambda self: self.__dict__.update(kept=self._deferred, _deferred=None),
    )


@bug
def the_commit_covers_what_came_after_it(patch: Patch) -> None:
    """Offsets are taken when the transaction ends instead of when the commit began."""
    offsets_of = Committer._offsets

    def wrong(
        self: Committer,
        tasks: Sequence[OwnedTask],
        commits: Sequence[TaskCommit],
        positions: Sequence[Any],
    ) -> Steps[Any]:
        late = [
            replace(commit, offsets=dict(owned.task.consumed))
            for owned, commit in zip(tasks, commits, strict=True)
        ]
        return offsets_of(self, tasks, late, positions)

    patch(Committer, "_offsets", wrong)


@bug
def a_second_commit_begins_beside_the_first(patch: Patch) -> None:
    """A handover does not wait for the commit under way."""

    def wrong(self: Commits) -> Steps[None]:
        yield from ()

    patch(Commits, "finish", wrong)


@bug
def a_commit_under_way_survives_an_abort(patch: Patch) -> None:
    """After an abort the commit that was under way goes on where it stood."""
    abandon = Commits.abandon

    def wrong(self: Commits) -> Steps[None]:
        under_way, self._under_way = self._under_way, None
        yield from abandon(self)
        self._under_way = under_way

    patch(Commits, "abandon", wrong)


@bug
def internal_records_are_purged_when_processed(patch: Patch) -> None:
    """What was processed during a commit is deleted with what it covers."""

    def wrong(plan: BoundPlan, owned: OwnedTask) -> Any:
        consumed = owned.task.consumed.items()
        return [(tp, at) for tp, at in consumed if tp.topic in plan.repartition_topics]

    patch(logstate.commit.maintenance, "_consumed_repartition_offsets", wrong)
