"""Bugs of waiting for others: for offsets that are not stable, for a dead worker's transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from logstate.changelog.cut import Writer
from logstate.contracts.clients import Steps
from logstate.contracts.records import TopicPartition
from logstate.restore import open_transactions
from logstate.restore.committed_offsets import RequestPace
from logstate.restore.open_transactions import OpenTransactions
from logstate.task.owned_task import OwnedTask
from tests.campaigns.simulation.dead_owner import DeadOwner
from tests.campaigns.simulation.planted.bug import Patch, scenario_bug


@scenario_bug(DeadOwner.of)
def an_unanswered_question_is_not_repeated(patch: Patch) -> None:
    """Committed offsets that were not stable once are never asked for again beside other tasks."""

    def wrong(self: RequestPace) -> None:
        self._next_ms = float("inf")

    patch(RequestPace, "unanswered", wrong)


@scenario_bug(DeadOwner.of)
def nobody_is_fenced(patch: Patch) -> None:
    """A dead worker's transaction is not fenced, and times out."""

    def wrong(self: OpenTransactions, writer: Writer, why: str) -> Steps[None]:
        return
        yield

    patch(OpenTransactions, "_fence", wrong)


@scenario_bug(DeadOwner.of)
def the_dead_are_fenced_too_late(patch: Patch) -> None:
    """A minute of patience, where seconds tell."""
    patch(open_transactions, "_PATIENCE_MS", 60_000)


@scenario_bug(DeadOwner.of)
def the_dead_are_fenced_too_early(patch: Patch) -> None:
    """No patience: brokers that are slow for a moment cost a living worker its transaction."""
    patch(open_transactions, "_PATIENCE_MS", 0)


@scenario_bug(DeadOwner.of)
def a_look_that_fails_is_the_last(patch: Patch) -> None:
    """The time of the next look is never reached."""
    patch(open_transactions, "_LOOK_INTERVAL_MS", float("inf"))


@scenario_bug(DeadOwner.of)
def writers_of_other_partitions_are_fenced(patch: Patch) -> None:
    """Whoever committed any partition of the topic counts as the one that is waited for."""

    def wrong(self: OpenTransactions, tasks: Sequence[OwnedTask]) -> Steps[Any]:
        wrongly = [
            replace(
                owned,
                partitions=tuple(
                    TopicPartition(tp.topic, other) for tp in owned.partitions for other in (0, 1)
                ),
            )
            for owned in tasks
        ]
        return (yield from writers(self, wrongly))

    writers = OpenTransactions._writers
    patch(OpenTransactions, "_writers", wrong)
