"""Ready-made timestamp extractors (Kafka Streams' own four).

Without an extractor a record's own timestamp is its event time, and a negative one stops the
application. An extractor is called with (key, value, record timestamp, partition time), all times
in ms since the epoch; the partition time is the largest event time seen on the partition, -1 at
first. A negative result skips the record and counts it as dropped.

>>> record_time_or_partition_time("key", "value", -1, 1_700_000_000_000)
1700000000000
"""

from __future__ import annotations

import time
from typing import Any


def record_time_or_skip(_key: Any, _value: Any, record_ms: int, _partition_ms: int) -> int:
    """The record's timestamp; a record without one is skipped (LogAndSkipOnInvalidTimestamp)."""
    return record_ms


def record_time_or_partition_time(_key: Any, _value: Any, record_ms: int, partition_ms: int) -> int:
    """The record's timestamp, else the partition time (UsePartitionTimeOnInvalidTimestamp)."""
    return record_ms if record_ms >= 0 else partition_ms


def wall_clock_time(_key: Any, _value: Any, _record_ms: int, _partition_ms: int) -> int:
    """The time of processing (WallclockTimestampExtractor).

    Results then depend on when records are processed: reprocessing gives others.
    """
    return time.time_ns() // 1_000_000
