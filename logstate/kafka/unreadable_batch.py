"""Batches of records that the client cannot decompress, as one record that does not decode.

A batch of a few kilobytes may expand to gigabytes. For zstd the client stops at
``receive.message.max.bytes`` (100 MB by default), reports the first offset of the batch, and
fetches the same batch again. Its records cannot be separated, so the batch becomes one
:class:`UnreadableBatch` at its last offset, whose key cannot be read. The task handles it like
every record that does not decode: the deserialization handler fails, skips it, or sends a dead
letter.

The end of a batch is in its header, which the client does not show. :func:`end_of_batch` finds it:
a fetch inside the batch reports the batch's first offset again, one after it does not.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final, NoReturn

from confluent_kafka import Consumer, KafkaError

from logstate.contracts.errors import BrokerError, UnreadableBatchError
from logstate.contracts.records import TopicPartition
from logstate.kafka.fetching import native_at

#: for one fetch of a batch that takes long to decompress
_FETCH_S: Final = 30.0
#: error codes of a fetch at the end of the log, and beyond it
_BEHIND: Final = frozenset(
    {
        KafkaError._PARTITION_EOF,
        KafkaError.OFFSET_OUT_OF_RANGE,
        KafkaError._AUTO_OFFSET_RESET,
    }
)
#: settings that only a member of a group needs
_OF_MEMBERS: Final = ("group.instance.id", "group.protocol", "group.remote.assignor")


class UnreadableBatch:
    """A ``FetchedRecord`` in place of all records of a batch; its key and value raise."""

    def __init__(self, partition: TopicPartition, first: int, end: int, reason: str) -> None:
        """``first``: the first offset of the batch; ``end``: the offset after it."""
        self._partition, self._first, self._end, self._reason = partition, first, end, reason

    def topic(self) -> str:
        return self._partition.topic

    def partition(self) -> int:
        return self._partition.partition

    def offset(self) -> int:
        return self._end - 1

    def key(self) -> NoReturn:
        raise UnreadableBatchError(
            f"the batch of the offsets {self._first} to {self._end - 1} cannot be decompressed:"
            f" {self._reason}"
        )

    value = key

    def timestamp(self) -> tuple[int, int]:
        return 0, -1

    def headers(self) -> None:
        return None


def end_of_batch(config: Mapping[str, Any], partition: TopicPartition, first: int) -> int:
    """Return the offset after the batch that begins at ``first`` and cannot be decompressed.

    ``config``: that of the member that read it. Raises BrokerError if the brokers do not respond.
    """
    consumer = Consumer({key: value for key, value in config.items() if key not in _OF_MEMBERS})
    try:
        step, inside = 1, first
        while _is_inside(consumer, partition, first, inside + step):
            inside, step = inside + step, step * 2
        outside = inside + step
        while outside - inside > 1:
            middle = (inside + outside) // 2
            if _is_inside(consumer, partition, first, middle):
                inside = middle
            else:
                outside = middle
        return outside
    finally:
        consumer.close()


def _is_inside(consumer: Consumer, partition: TopicPartition, first: int, at: int) -> bool:
    """Return whether a fetch from this offset reads the batch that begins at ``first``."""
    consumer.assign(native_at({partition: at}))
    deadline = time.monotonic() + _FETCH_S
    while time.monotonic() < deadline:
        message = consumer.poll(max(0.0, deadline - time.monotonic()))
        if message is None:
            continue
        error = message.error()
        if error is None or error.code() in _BEHIND:
            return False
        if error.code() == KafkaError._BAD_COMPRESSION:
            return bool(message.offset() == first)
    raise BrokerError(
        f"{partition}: no answer within {_FETCH_S:g} s to a fetch from offset {at}, which looks for"
        f" the end of the batch at offset {first}: that batch cannot be decompressed"
    )
