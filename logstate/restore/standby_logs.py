"""Read the offsets and cuts of the changelogs that a standby follows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from logstate.changelog.cut import Cut
from logstate.contracts.clients import Admin, Step, Steps
from logstate.contracts.records import TaskId, TopicPartition
from logstate.restore.missing_records import LogRange
from logstate.restore.restore_plan import (
    clocks_under_new_names,
    counting_cuts,
    decoded,
    joined_cut,
)
from logstate.task.owned_task import OwnedTask
from logstate.topics.bound_plan import BoundPlan

#: rows are kept as current as possible for this long after a query: queries see the last second
READ_MS = 60_000.0
#: committed offsets of input partitions, and the ends of these
InputOffsets: TypeAlias = tuple[Mapping[TopicPartition, int], Mapping[TopicPartition, int]]


class StandbyLogs:
    """Reads offsets of the changelogs of tasks that another member owns."""

    def __init__(self, plan: BoundPlan, application_id: str, admin: Admin) -> None:
        self._plan = plan
        self._application_id = application_id
        self._admin = admin
        #: task -> when the rows at its current targets included everything in its inputs; of a task
        #: that is followed again, an earlier time
        self.caught_up: dict[TaskId, float] = {}

    def before_opening(
        self, owned: OwnedTask
    ) -> Steps[tuple[Mapping[TopicPartition, LogRange], dict[TopicPartition, int], Cut | None]]:
        """Return the ranges of a task's logs, :meth:`committed`, and the last cut of its owner.

        The cut is read after the starts, because the owner deletes below the positions of an
        earlier cut, and before the ends, because a log reaches the positions of an earlier cut.
        """
        changelogs = list(self._plan.changelogs(owned.task_id))
        starts = yield Step("start_offsets", self._admin.start_offsets, (changelogs,))
        cut = yield from self._cut(owned)
        ends = yield Step("end_offsets", self._admin.end_offsets, (changelogs,))
        logs = {tp: LogRange(starts[tp], ends[tp]) for tp in changelogs}
        return logs, (yield from self.committed(owned)), cut

    def committed(self, owned: OwnedTask) -> Steps[dict[TopicPartition, int]]:
        """Return how far the owner has processed source topics that serve as changelogs.

        A standby may read them up to there. An open transaction can only raise this offset.
        """
        changelogs = self._plan.changelogs(owned.task_id)
        sources = [tp for tp, spec in changelogs.items() if spec.source_topic]
        if not sources:
            return {}
        arguments = (self._application_id, sources)
        found = yield Step("committed_so_far", self._admin.committed_so_far, arguments)
        return {tp: found[tp].offset or 0 for tp in sources}

    def inputs(self, owned: Iterable[OwnedTask], unread_ms: float) -> Steps[InputOffsets]:
        """Return the committed offset of every input of the tasks, and the ends of the inputs.

        The offsets are read first: rows that the changelogs have afterwards include what they say.
        Nothing is returned if no query has needed them for long (``unread_ms``).
        """
        inputs = [tp for one in owned for tp in one.partitions]
        if unread_ms >= READ_MS:
            return {}, {}
        arguments = (self._application_id, inputs)
        found = yield Step("committed_so_far", self._admin.committed_so_far, arguments)
        committed = {tp: found[tp].offset or 0 for tp in inputs}
        return committed, (yield Step("input_ends", self._admin.end_offsets, (inputs,)))

    def look_at_inputs(self, owned: OwnedTask, asked_ms: float, inputs: InputOffsets) -> None:
        """Note how current the rows will be that are at the ends which were requested then."""
        committed, ends = inputs
        own = owned.partitions
        if not own or own[0] not in ends:
            return
        positions, own_ends = ({tp: found[tp] for tp in own} for found in (committed, ends))
        at_end = dict.fromkeys(own, True)
        caught_up_ms = owned.input_ends.check(asked_ms, own_ends, positions, at_end)
        if caught_up_ms is not None:
            self.caught_up[owned.task_id] = caught_up_ms

    def _cut(self, owned: OwnedTask) -> Steps[Cut | None]:
        """Return the owner's last cut; None if it is in the cuts topic."""
        inputs = owned.partitions
        arguments = (self._application_id, inputs)
        found = yield Step("committed_so_far", self._admin.committed_so_far, arguments)
        cuts = counting_cuts({tp: decoded(found[tp]) for tp in inputs}, found)
        cut = joined_cut(cut for cut in cuts.values() if not cut.is_in_cuts_topic)
        if cut is None:
            return None
        clocks = clocks_under_new_names(cut.clocks, self._plan.formerly)
        return cut._replace(clocks=clocks, local_rows={})  # only the owner has the local rows
