"""Bugs of a start: the manifest, and what is looked at before."""

from __future__ import annotations

from logstate.commit.transaction import Transactions
from logstate.topics.manifest_log import ManifestLog
from logstate.worker.worker_start import WorkerStart
from tests.campaigns.simulation.planted.bug import Patch, bug, faults, rare_bug
from tests.campaigns.simulation.planted.edit import edit


@rare_bug(lambda s: faults(s, "lost_reply", ("begin", "produce", "commit")))
def a_manifest_that_failed_counts_as_written(patch: Patch) -> None:
    """Whatever becomes of the transaction of a manifest, the start goes on."""
    old = "if attempt == _ALONE_ATTEMPTS_MAX:\n                raise"
    new = "if attempt:\n                yield from self.abandon()\n                return"
    edit(patch, Transactions, "commit_alone", old, new)


@bug
def a_manifest_behind_an_open_transaction_is_not_waited_for(patch: Patch) -> None:
    """A look at the manifests ends with the first that brings nothing."""
    old = "elif now_ms - moved_ms > _PATIENCE_MS:"
    edit(
        patch,
        ManifestLog,
        "_read_to",
        old,
        "else:\n                return found\n            if False:",
    )


@bug
def nobody_gives_way_to_a_rival(patch: Patch) -> None:
    """Two topologies that do not fit start at the same moment, and both go on."""
    edit(
        patch,
        WorkerStart,
        "_write_manifest",
        "yield from self._give_way(plan, own, rivals)",
        "pass",
    )


@bug
def who_wrote_first_gives_way_too(patch: Patch) -> None:
    """Of two topologies that do not fit neither goes on."""
    edit(patch, WorkerStart, "_give_way", "rivals.pop()", "break")


@bug
def who_gives_way_leaves_its_manifest(patch: Patch) -> None:
    """The manifest of an instance that gave way is what the next start compares with."""
    old = "yield from self.transactions.commit_alone([own._replace(value=rival)])"
    edit(patch, WorkerStart, "_give_way", old, "yield from ()")


@bug
def the_stored_manifest_is_the_first(patch: Patch) -> None:
    """A topology is compared with the oldest manifest, not with the last."""
    edit(patch, WorkerStart, "_upgraded", "decoded(found[-1]", "decoded(found[0]")
