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
    """The record's own timestamp; a record without one is skipped and counted.

    >>> from logstate import StreamsBuilder, TopologyTestDriver
    >>> from logstate.topology.processor.timestamp_extractors import record_time_or_skip
    >>> builder = StreamsBuilder()
    >>> builder.stream("in", value=str, timestamp_extractor=record_time_or_skip).to("out")
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.pipe_all("in", [("ada", "x", -1), ("ada", "y", 5)])
    ...     driver.read("out", value=str), driver.dropped_total
    ([('ada', 'y')], 1)

    Returns:
        Event time in ms, or -1 to skip the record.

    Source: Kafka Streams' ``LogAndSkipOnInvalidTimestamp``.
    """
    return record_ms


def record_time_or_partition_time(_key: Any, _value: Any, record_ms: int, partition_ms: int) -> int:
    """The record's own timestamp, else the largest seen on its partition so far.

    >>> from logstate.topology.processor.timestamp_extractors import record_time_or_partition_time
    >>> record_time_or_partition_time("key", "value", -1, 1_700_000_000_000)
    1700000000000

    Returns:
        Event time in ms.

    Raises:
        ValueError: no record of the partition had a time so far.

    Source: Kafka Streams' ``UsePartitionTimeOnInvalidTimestamp``.
    """
    if record_ms >= 0:
        return record_ms
    if partition_ms < 0:
        raise ValueError(
            "the record has no timestamp, and neither had any before it on its partition, so no"
            " event time is known yet. Skip such records (record_time_or_skip), or extract a time"
            " from the value."
        )
    return partition_ms


def wall_clock_time(_key: Any, _value: Any, _record_ms: int, _partition_ms: int) -> int:
    """The time of processing.

    >>> from logstate.topology.processor.timestamp_extractors import wall_clock_time
    >>> wall_clock_time("key", "value", 5, 5) > 1_700_000_000_000
    True

    Semantics: in a topology the task's clock is asked, which is that of the driver in tests:

    >>> from logstate import StreamsBuilder, TopologyTestDriver
    >>> builder = StreamsBuilder()
    >>> builder.stream("in", value=str, timestamp_extractor=wall_clock_time).to("out")
    >>> with TopologyTestDriver(builder.build(), wall_clock_start_ms=7_000) as driver:
    ...     driver.pipe("in", "ada", "x", timestamp=5)
    ...     driver.read_with_timestamps("out", value=str)
    [('ada', 'x', 7000)]

    Results depend on when records are processed: processing them again gives others.

    Returns:
        Milliseconds since the epoch.

    Source: Kafka Streams' ``WallclockTimestampExtractor``.
    """
    return time.time_ns() // 1_000_000
