"""The transaction coordinator: producer epochs, open transactions, and markers under way.

Ending a transaction decides its outcome at once, but every partition (and the group's offsets)
learns of it by a separate marker. With ``delays_markers`` these wait in ``pending`` until
:meth:`TransactionCoordinator.deliver` is called, one at a time and in any order, as between real
brokers.

Like a client without KIP-890 part 2, the epoch grows only with ``initialise`` and a time-out: a
late duplicate of "end this transaction" can end the NEXT transaction of the same epoch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from logstate.contracts.errors import BrokerError, FencedError
from logstate.contracts.records import TopicPartition
from logstate.testing.fake.group_offsets import GroupOffsets
from logstate.testing.fake.partition_log import Decided, PartitionLog, Transaction


@dataclass
class ProducerState:
    """What the coordinator knows of a transactional id."""

    epoch: int = -1
    open: Transaction | None = None


class Marker(NamedTuple):
    """A transaction's end on its way to one log or to a group's offsets."""

    transaction: Transaction
    target: PartitionLog | Decided


class LateEnd(NamedTuple):
    """A repeated request to end a transaction that has not reached the coordinator yet."""

    owner: str
    epoch: int
    commits: bool


class TransactionCoordinator:
    """All transactional ids of a cluster."""

    def __init__(self, timeout_ms: int, *, delays_markers: bool) -> None:
        self.timeout_ms = timeout_ms
        self.delays_markers = delays_markers
        self.producers: dict[str, ProducerState] = {}
        self.pending: list[Marker] = []
        self.late: list[LateEnd] = []
        self._logs: dict[TopicPartition, PartitionLog] = {}

    # ------------------------------------------------------------------ requests of producers

    def initialise(self, owner: str, now_ms: int) -> int:
        """Fence earlier producers of the id, finish their transaction; returns the new epoch."""
        state = self.producers.setdefault(owner, ProducerState())
        self._finish_markers(owner, now_ms)
        if state.open is not None:
            self._decide(state, now_ms, commits=False)
            self._finish_markers(owner, now_ms)
        state.epoch += 1
        return state.epoch

    def check(self, owner: str, epoch: int) -> ProducerState:
        """Raises FencedError for an epoch that is not the current one."""
        state = self.producers.get(owner)
        if state is None or state.epoch != epoch:
            raise FencedError(
                f"transactional id {owner!r} was taken over or timed out: epoch {epoch} is fenced"
            )
        return state

    def add_partition(
        self, owner: str, epoch: int, partition: TopicPartition, log: PartitionLog, now_ms: int
    ) -> Transaction:
        """The partition belongs to the open transaction from now on."""
        transaction = self._open_transaction(owner, epoch, now_ms)
        transaction.partitions[partition] = None
        self._logs[partition] = log
        return transaction

    def add_offsets(
        self,
        owner: str,
        epoch: int,
        group: GroupOffsets,
        offsets: Mapping[TopicPartition, tuple[int, str]],
        now_ms: int,
    ) -> None:
        """The group's offsets belong to the open transaction."""
        transaction = self._open_transaction(owner, epoch, now_ms)
        group.add(transaction, offsets)
        transaction.groups[group] = None

    def end(self, owner: str, epoch: int, now_ms: int, *, commits: bool) -> None:
        """Decide the open transaction; one without any partition ends silently."""
        state = self.check(owner, epoch)
        if state.open is not None:
            self._decide(state, now_ms, commits=commits)

    def _open_transaction(self, owner: str, epoch: int, now_ms: int) -> Transaction:
        state = self.check(owner, epoch)
        if state.open is None:
            # The coordinator answers CONCURRENT_TRANSACTIONS until the last one is complete.
            self._finish_markers(owner, now_ms)
            state.open = Transaction(owner, now_ms)
        return state.open

    # ------------------------------------------------------------------ the background

    def deliver(self, now_ms: int, index: int = 0) -> None:
        """One pending marker arrives; the index chooses which."""
        marker = self.pending.pop(index)
        if isinstance(marker.target, PartitionLog):
            marker.target.append_marker(marker.transaction, now_ms)
        else:
            marker.target.decide(marker.transaction)

    def deliver_late_end(self, now_ms: int, index: int = 0) -> None:
        """A repeated request arrives; a fenced one is refused, which is all the protection."""
        late = self.late.pop(index)
        state = self.producers[late.owner]
        if state.epoch == late.epoch and state.open is not None:
            self._decide(state, now_ms, commits=late.commits)

    def expire(self, now_ms: int) -> None:
        """Abort transactions that have been open too long, and fence their producers."""
        for state in self.producers.values():
            if state.open is not None and now_ms - state.open.started_ms > self.timeout_ms:
                self._decide(state, now_ms, commits=False)
                state.epoch += 1

    def open_transactions(self) -> list[Transaction]:
        """Transactions without an outcome."""
        return [s.open for s in self.producers.values() if s.open is not None]

    def _decide(self, state: ProducerState, now_ms: int, *, commits: bool) -> None:
        transaction, state.open = state.open, None
        assert transaction is not None
        if transaction.is_committed is not None:
            raise BrokerError(f"the transaction of {transaction.owner!r} ended already")
        transaction.is_committed = commits
        self.pending += [Marker(transaction, self._logs[tp]) for tp in transaction.partitions]
        self.pending += [Marker(transaction, group) for group in transaction.groups]
        if not self.delays_markers:
            self._finish_markers(transaction.owner, now_ms)

    def _finish_markers(self, owner: str, now_ms: int) -> None:
        for index in reversed(
            [i for i, marker in enumerate(self.pending) if marker.transaction.owner == owner]
        ):
            self.deliver(now_ms, index)
