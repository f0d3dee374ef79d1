"""Committed offsets of one group, including those a transaction has not decided yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from logstate.contracts.clients import Committed
from logstate.contracts.errors import BrokerError, RetriableError
from logstate.contracts.records import TopicPartition
from logstate.testing.fake.partition_log import Transaction

#: brokers' offset.metadata.max.bytes: more is refused for ever
METADATA_BYTES_MAX = 4096


class GroupOffsets:
    """What a group committed; ``is_stable`` offsets only, as ``require_stable`` demands."""

    def __init__(self) -> None:
        self.committed: dict[TopicPartition, Committed] = {}
        #: every commit, in order, for tests that examine the group
        self.history: list[dict[TopicPartition, Committed]] = []
        self._pending: dict[Transaction, dict[TopicPartition, Committed]] = {}

    def add(
        self, transaction: Transaction, offsets: Mapping[TopicPartition, tuple[int, str]]
    ) -> None:
        """Offsets that become visible when the transaction's marker arrives."""
        for partition, (offset, metadata) in offsets.items():
            if len(metadata.encode()) > METADATA_BYTES_MAX:
                raise BrokerError(
                    f"the metadata of {partition} has {len(metadata)} bytes, over"
                    f" {METADATA_BYTES_MAX}: OFFSET_METADATA_TOO_LARGE"
                )
            assert offset >= 0, f"a negative offset was committed for {partition}: {offset}"
        pending = self._pending.setdefault(transaction, {})
        pending.update({tp: Committed(offset, text) for tp, (offset, text) in offsets.items()})

    def decide(self, transaction: Transaction) -> None:
        """The marker arrived."""
        pending = self._pending.pop(transaction, {})
        if transaction.is_committed:
            self.committed.update(pending)
            self.history.append(pending)

    def fetch(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Committed]:
        """Raises RetriableError while a transaction could still change one of them."""
        for transaction, pending in self._pending.items():
            for partition in partitions:
                if partition in pending:
                    raise RetriableError(
                        f"the offset of {partition} is not stable: a transaction of"
                        f" {transaction.owner!r} has not ended"
                    )
        return {tp: self.committed.get(tp, Committed(None, "")) for tp in partitions}
