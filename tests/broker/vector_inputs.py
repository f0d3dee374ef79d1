"""Larger inputs of the shape of a case's recorded runs, over several partitions.

The runs follow one another in time, and several copies of them, told apart by their keys, at the
same time. Late and early records, nulls and tombstones are the recorded ones.

What a task reads from two topics it reads by the smallest time of the two heads; equal times are
read in an order that depends on how the records arrived. So the times of a case's topics are kept
apart here, and ``in_reading_order`` says in which order a task reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from logstate.contracts.partitioner import partition_of
from logstate.contracts.records import ProducedRecord
from tests.conformance.vectors import Case
from tests.conformance.wire import encode_headers, topic_types

PARTITIONS = 3
_FIRST_MS = 10_000
#: between the end of a run and the begin of the next
_PAUSE_MS = 500


@dataclass(frozen=True)
class Inputs:
    """Records by topic, in the order of their offsets; each names its partition."""

    by_topic: Mapping[str, Sequence[ProducedRecord]]
    #: when the second half of the runs begins
    second_half_ms: int

    def halves(self) -> tuple[list[ProducedRecord], list[ProducedRecord]]:
        """What comes before a time and what comes after it: some runs, and the others."""
        by_half: tuple[list[ProducedRecord], list[ProducedRecord]] = ([], [])
        for records in self.by_topic.values():
            for record in records:
                by_half[record.timestamp >= self.second_half_ms].append(record)
        return by_half

    def of_partition(self, partition: int) -> list[ProducedRecord]:
        """What a task reads, in the order in which it does."""
        queues = [
            [record for record in records if record.partition == partition]
            for records in self.by_topic.values()
        ]
        return in_reading_order(queues)

    def of_all(self) -> list[ProducedRecord]:
        """Everything, in one of the orders in which it may be read."""
        return in_reading_order([list(records) for records in self.by_topic.values()])


def in_reading_order(queues: Iterable[list[ProducedRecord]]) -> list[ProducedRecord]:
    """Records of several partitions by the smallest time of their heads."""
    waiting = [list(reversed(queue)) for queue in queues if queue]
    ordered = []
    while waiting:
        queue = min(waiting, key=lambda queue: queue[-1].timestamp)
        ordered.append(queue.pop())
        waiting = [queue for queue in waiting if queue]
    return ordered


def inputs_of(case: Case, prefix: str, *, copies: int, fixed_keys: set[str]) -> Inputs:
    """Inputs for a case on topics with a prefix. ``fixed_keys``: topics whose keys are referred to.

    Their records come once, not once per copy.
    """
    topics = list(case.inputs)
    found: dict[str, list[ProducedRecord]] = {topic: [] for topic in topics}
    begins_ms = [_FIRST_MS]
    for run in case.runs:
        begin_ms = begins_ms[-1]
        events = [event for event in run.events if event["op"] == "pipe"]
        for number, event in enumerate(events):
            topic = f"{prefix}-{event['topic']}"
            # Times of different topics differ: see the module's docstring.
            time_ms = begin_ms + event["ts"] * len(topics) + topics.index(topic)
            record = _record(case, topic, event, time_ms)
            if event["topic"] in fixed_keys or record.key is None:
                found[topic].append(_placed(record, number))
                continue
            found[topic] += [
                _placed(record._replace(key=record.key + b"%d" % copy), number)
                for copy in range(copies)
            ]
        length_ms = max(event["ts"] for event in events) * len(topics)
        begins_ms.append(begin_ms + length_ms + _PAUSE_MS)
    return Inputs(found, begins_ms[len(case.runs) // 2])


def _record(case: Case, topic: str, event: dict[str, Any], time_ms: int) -> ProducedRecord:
    key_type, value_type = topic_types(case.inputs[topic])
    return ProducedRecord(
        topic,
        None,
        key_type.encode(event["key"]),
        value_type.encode(event["value"]),
        time_ms,
        encode_headers(event.get("headers")),
    )


def _placed(record: ProducedRecord, number: int) -> ProducedRecord:
    """On the partition of its key, as a producer would place it; without a key on any."""
    by_key = None if record.key is None else partition_of(record.key, PARTITIONS)
    return record._replace(partition=number % PARTITIONS if by_key is None else by_key)
