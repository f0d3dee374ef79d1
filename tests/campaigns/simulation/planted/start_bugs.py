"""Bugs of a start: the manifest, what is looked at before, and new topics of a pattern."""

from __future__ import annotations

from logstate.commit.transaction import Transactions
from logstate.restore.task_starter import TaskStarter
from logstate.topics.manifest_log import ManifestLog
from logstate.worker.new_topics import NewTopics
from logstate.worker.worker_start import WorkerStart
from tests.campaigns.simulation import new_topics
from tests.campaigns.simulation.planted.bug import Patch, bug, faults, rare_bug, scenario_bug
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


@scenario_bug(new_topics.NewTopics.of)
def new_topics_are_not_looked_for(patch: Patch) -> None:
    """A worker never sees that a topic was created."""
    edit(patch, NewTopics, "look", "if not self._has_patterns:", "if True:")


@scenario_bug(new_topics.NewTopics.of)
def a_new_topic_is_read_from_its_end(patch: Patch) -> None:
    """Records that a new topic had before a worker found it are not read."""
    patch(TaskStarter, "_reset_of", lambda _, tp: "latest" if "-" in tp.topic else "earliest")
