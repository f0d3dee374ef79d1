"""The barriers of a snapshot in the tasks of one worker, as requested by the newest request.

A request is set by another thread in a single assignment; the worker follows it in its next turn.
This module decides which tasks cut with the commit that begins, and which are held after their cut.
It does not affect transactions: a commit at a barrier is like any other.

Invariants: a task that was aborted or moved has no barrier anymore; no task is held longer than the
request allows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from logstate.contracts.records import TopicPartition
from logstate.contracts.snapshots import SnapshotNote, SnapshotRequest, SubShape
from logstate.task.barrier import Barrier, barrier_at
from logstate.task.owned_task import OwnedTask


class Barriers:
    """Follows snapshot requests for the tasks of one worker."""

    def __init__(self) -> None:
        #: set by any thread: the newest request
        self.wanted: SnapshotRequest | None = None
        #: read by any thread: committed cuts; how the sub-topologies are connected
        self.notes: deque[SnapshotNote] = deque()
        self.shape: Mapping[int, SubShape] = {}
        self._order: SnapshotRequest | None = None
        self._since_ms = 0.0
        self._cutting: list[tuple[OwnedTask, Barrier]] = []

    @property
    def is_alert(self) -> bool:
        """True while a snapshot is being taken: waits must be short."""
        return self.wanted is not None

    def follow(self, running: Sequence[OwnedTask], now_ms: float) -> None:
        """Follow the newest request."""
        wanted = self.wanted
        if wanted is None and self._order is None:
            return
        if wanted is not self._order:
            self._order, self._since_ms = wanted, now_ms
        order = self._order
        if order is None or order.is_over or now_ms - self._since_ms > order.life_ms:
            self._end_barrier(running)
            return
        for owned in running:
            self._follow(order, owned, now_ms)

    def wants_commit(self, running: Iterable[OwnedTask]) -> bool:
        """Return True if a task is at its barrier."""
        return self._order is not None and any(map(_is_at_barrier, running))

    def begin(self, tasks: Iterable[OwnedTask], now_ms: float) -> None:
        """Handle that a commit of these tasks' work so far begins."""
        self._cutting = []
        if self._order is None:
            return
        for owned in tasks:
            if _is_at_barrier(owned) and owned.barrier is not None:
                owned.barrier.cut_ms = now_ms
                owned.is_held = owned.task_id.sub_topology in self._order.holding
                self._cutting.append((owned, owned.barrier))

    def committed(
        self,
        offsets: Mapping[TopicPartition, int],
        metadata: Mapping[TopicPartition, str],
        cut_records: Mapping[str, bytes],
    ) -> None:
        """Record the cuts of the finished commit."""
        cutting, self._cutting = self._cutting, []
        for owned, barrier in cutting:
            entries = {tp.topic: (offsets[tp], metadata[tp]) for tp in owned.partitions}
            task = str(owned.task_id)
            self.notes.append(SnapshotNote(barrier.snapshot, task, entries, cut_records.get(task)))

    def _follow(self, order: SnapshotRequest, owned: OwnedTask, now_ms: float) -> None:
        sub, barrier = owned.task_id.sub_topology, owned.barrier
        if barrier is not None and (barrier.snapshot != order.id or barrier.cut_ms is not None):
            barrier.release(owned.task)
        if sub in order.marks:
            if barrier is None or barrier.snapshot != order.id:
                targets = _targets(order.marks[sub], owned.partitions)
                owned.barrier = barrier_at(order.id, targets, owned.task)
        elif barrier is not None and barrier.cut_ms is None:
            barrier.release(owned.task)
            owned.barrier = None
        barrier = owned.barrier
        owned.is_held = (
            barrier is not None
            and barrier.cut_ms is not None
            and sub in order.holding
            and now_ms - barrier.cut_ms < order.hold_ms
        )

    def _end_barrier(self, running: Iterable[OwnedTask]) -> None:
        if self.wanted is self._order:
            self.wanted = None
        self._order = None
        for owned in running:
            if owned.barrier is not None:
                owned.barrier.release(owned.task)
            owned.barrier, owned.is_held = None, False


def _is_at_barrier(owned: OwnedTask) -> bool:
    barrier = owned.barrier
    return barrier is not None and barrier.cut_ms is None and barrier.is_reached(owned.task)


def _targets(
    of_sub: Mapping[str, Mapping[int, int]], partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, int]:
    return {tp: of_sub[tp.topic][tp.partition] for tp in partitions if tp.topic in of_sub}
