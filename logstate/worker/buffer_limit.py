"""Limit the fetched records of a partition in memory to a share of the worker's total.

The limit is in bytes over all partitions of the worker. The size of records is sampled, a few of
each fetch, so there is no cost per record. Partitions are paused after a fetch: the records of one
fetch may exceed the limit.
"""

from __future__ import annotations

from collections.abc import Sequence

from logstate.contracts.errors import UnreadableBatchError
from logstate.contracts.records import FetchedRecord

#: memory of a buffered record without its key and value: one object of Python, one of the client
_RECORD_BYTES = 400
_SAMPLES = 4
#: weight of the newest fetch in the average
_NEWEST_SHARE = 0.2


class BufferLimit:
    """Computes the limit. ``records_max`` limits one partition, even if its records are small.

    >>> limit = BufferLimit(records_max=10_000, bytes_max=64 << 20)
    >>> limit.per_partition(partitions=4), limit.per_partition(partitions=100)
    (10000, 1677)
    """

    def __init__(self, records_max: int, bytes_max: int) -> None:
        self._records_max = records_max
        self._bytes_max = bytes_max
        #: average size of key and value; None before the first record
        self._data_bytes: float | None = None

    def fetched(self, records: Sequence[FetchedRecord]) -> None:
        """Update the average size with records of one partition."""
        sampled = records[:: max(1, len(records) // _SAMPLES)]
        size = sum(map(_size, sampled)) / len(sampled)
        if self._data_bytes is None:
            self._data_bytes = size
        else:
            self._data_bytes += _NEWEST_SHARE * (size - self._data_bytes)

    def per_partition(self, partitions: int) -> int:
        """Return the number of buffered records above which a partition is paused."""
        record_bytes = _RECORD_BYTES + (self._data_bytes or 0.0)
        share = int(self._bytes_max / max(1, partitions) / record_bytes)
        return max(1, min(self._records_max, share))


def _size(record: FetchedRecord) -> int:
    try:
        return len(record.value() or b"") + len(record.key() or b"")
    except UnreadableBatchError:  # a placeholder for a batch; the task reports it
        return 0
