"""The marks of a snapshot at the tasks of one worker: what the newest order means for each. Pure.

The order comes from another thread, by a single assignment; the worker follows with its next turn.
What it decides here is which tasks cut with the commit that begins, and which stand still behind
their cut. Nothing of it decides about a transaction: a commit at a mark is a commit as every other.

Invariants: a task that was aborted or moved has no mark any more; nobody stands still for longer
than an order says.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from logstate.contracts.records import TopicPartition
from logstate.contracts.snapshots import SnapshotNote, SnapshotRequest, SubShape
from logstate.task.barrier import Barrier, mark_at
from logstate.task.owned_task import OwnedTask


class Barriers:
    """See the module."""

    def __init__(self) -> None:
        #: from any thread: what was ordered last
        self.wanted: SnapshotRequest | None = None
        #: for any thread: what was cut and committed; how the sub-topologies are connected
        self.notes: deque[SnapshotNote] = deque()
        self.shape: Mapping[int, SubShape] = {}
        self._order: SnapshotRequest | None = None
        self._since_ms = 0.0
        self._cutting: list[tuple[OwnedTask, Barrier]] = []

    @property
    def is_alert(self) -> bool:
        """A snapshot is being taken: nobody may wait for long."""
        return self.wanted is not None

    def follow(self, running: Sequence[OwnedTask], now_ms: float) -> None:
        """Follow the newest order."""
        wanted = self.wanted
        if wanted is None and self._order is None:
            return
        if wanted is not self._order:
            self._order, self._since_ms = wanted, now_ms
        order = self._order
        if order is None or order.is_over or now_ms - self._since_ms > order.life_ms:
            self._end(running)
            return
        for owned in running:
            self._follow(order, owned, now_ms)

    def wants_commit(self, running: Iterable[OwnedTask]) -> bool:
        """Whether a task stands at its mark."""
        return self._order is not None and any(map(_is_at_mark, running))

    def begin(self, tasks: Iterable[OwnedTask], now_ms: float) -> None:
        """A commit of these tasks begins, with what they have done until now."""
        self._cutting = []
        if self._order is None:
            return
        for owned in tasks:
            if _is_at_mark(owned) and owned.mark is not None:
                owned.mark.cut_ms = now_ms
                owned.is_held = owned.task_id.sub_topology in self._order.holding
                self._cutting.append((owned, owned.mark))

    def committed(
        self,
        offsets: Mapping[TopicPartition, int],
        metadata: Mapping[TopicPartition, str],
        cut_records: Mapping[str, bytes],
    ) -> None:
        """It is committed."""
        cutting, self._cutting = self._cutting, []
        for owned, mark in cutting:
            told = {tp.topic: (offsets[tp], metadata[tp]) for tp in owned.partitions}
            task = str(owned.task_id)
            self.notes.append(SnapshotNote(mark.snapshot, task, told, cut_records.get(task)))

    def _follow(self, order: SnapshotRequest, owned: OwnedTask, now_ms: float) -> None:
        sub, mark = owned.task_id.sub_topology, owned.mark
        if mark is not None and (mark.snapshot != order.id or mark.cut_ms is not None):
            mark.let_go(owned.task)
        if sub in order.marks:
            if mark is None or mark.snapshot != order.id:
                targets = _targets(order.marks[sub], owned.partitions)
                owned.mark = mark_at(order.id, targets, owned.task)
        elif mark is not None and mark.cut_ms is None:
            mark.let_go(owned.task)
            owned.mark = None
        mark = owned.mark
        owned.is_held = (
            mark is not None
            and mark.cut_ms is not None
            and sub in order.holding
            and now_ms - mark.cut_ms < order.hold_ms
        )

    def _end(self, running: Iterable[OwnedTask]) -> None:
        if self.wanted is self._order:
            self.wanted = None
        self._order = None
        for owned in running:
            if owned.mark is not None:
                owned.mark.let_go(owned.task)
            owned.mark, owned.is_held = None, False


def _is_at_mark(owned: OwnedTask) -> bool:
    mark = owned.mark
    return mark is not None and mark.cut_ms is None and mark.is_reached(owned.task)


def _targets(
    of_sub: Mapping[str, Mapping[int, int]], partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, int]:
    return {tp: of_sub[tp.topic][tp.partition] for tp in partitions if tp.topic in of_sub}
