"""How many fetched records of a partition may wait: a share of what all partitions may hold.

The bound is in bytes over all partitions of the worker. The size of records is sampled, a few of
each fetch, so that nothing is added per record. Pausing takes place after a fetch: what one fetch
brings comes on top.
"""

from __future__ import annotations

from collections.abc import Sequence

from logstate.contracts.errors import UnreadableBatchError
from logstate.contracts.records import FetchedRecord

#: memory of a waiting record without its key and value: an object of Python, one of the client
_RECORD_BYTES = 400
_SAMPLES = 4
#: how much of the average the newest fetch is
_NEWEST_SHARE = 0.2


class BufferLimit:
    """See the module. ``records_max`` is the most of one partition, however small they are.

    >>> limit = BufferLimit(records_max=10_000, bytes_max=64 << 20)
    >>> limit.per_partition(partitions=4), limit.per_partition(partitions=100)
    (10000, 1677)
    """

    def __init__(self, records_max: int, bytes_max: int) -> None:
        self._records_max = records_max
        self._bytes_max = bytes_max
        #: average of keys and values; None before the first record
        self._data_bytes: float | None = None

    def fetched(self, records: Sequence[FetchedRecord]) -> None:
        """Records of one partition have come."""
        sampled = records[:: max(1, len(records) // _SAMPLES)]
        size = sum(map(_size, sampled)) / len(sampled)
        if self._data_bytes is None:
            self._data_bytes = size
        else:
            self._data_bytes += _NEWEST_SHARE * (size - self._data_bytes)

    def per_partition(self, partitions: int) -> int:
        """More than so many records pause a partition, where there are so many partitions."""
        record_bytes = _RECORD_BYTES + (self._data_bytes or 0.0)
        share = int(self._bytes_max / max(1, partitions) / record_bytes)
        return max(1, min(self._records_max, share))


def _size(record: FetchedRecord) -> int:
    try:
        return len(record.value() or b"") + len(record.key() or b"")
    except UnreadableBatchError:  # in place of a batch; the task reports it
        return 0
