"""The test driver's broker data: outputs, internal records, changelogs, offsets.

A mark taken at a commit makes it possible to return there, like an aborted transaction.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from logstate.changelog.rows.writes import LoggedFields
from logstate.contracts.records import ProducedRecord


@dataclass(frozen=True)
class LogMark:
    """The positions at a commit."""

    next_offsets: Mapping[str, int] = field(default_factory=dict)
    #: including outputs that were taken or read meanwhile
    outputs: int = 0
    by_topic: Mapping[str, int] = field(default_factory=dict)
    internal: Mapping[str, int] = field(default_factory=dict)


class DriverLog:
    """Append-only, except for ``rollback``."""

    def __init__(self) -> None:
        self.next_offsets: dict[str, int] = defaultdict(int)
        #: output records over all topics, since the last ``take``
        self.outputs: list[ProducedRecord] = []
        self.taken = 0
        #: the same by topic, since they were read
        self.by_topic: dict[str, list[ProducedRecord]] = defaultdict(list)
        self.already_read: Counter[str] = Counter()
        self.internal: dict[str, list[ProducedRecord]] = defaultdict(list)
        #: all records that were ever delivered to a source topic
        self.inputs: dict[str, list[ProducedRecord]] = defaultdict(list)
        self.changelogs: dict[str, list[ProducedRecord]] = defaultdict(list)

    def take(self) -> list[ProducedRecord]:
        """Return the outputs and start over."""
        outputs, self.outputs = self.outputs, []
        self.taken += len(outputs)
        for topic in list(self.by_topic):
            self.read(topic)
        return outputs

    def read(self, topic: str, limit: int | None = None) -> list[ProducedRecord]:
        """Remove and return the first records of a topic, or all of them."""
        waiting = self.by_topic.get(topic, [])
        records = waiting[:limit]
        del waiting[:limit]
        self.already_read[topic] += len(records)
        return records

    @property
    def produced_topics(self) -> set[str]:
        """Return every topic that was written to, repartition and changelog topics included."""
        read = {topic for topic, count in self.already_read.items() if count}
        logs = (self.by_topic, self.internal, self.changelogs)
        return read.union(*({topic for topic, records in log.items() if records} for log in logs))

    def add(self, record: ProducedRecord, *, is_internal: bool) -> None:
        """Add a record that the task sent."""
        if is_internal:
            self.internal[record.topic].append(record)
        else:
            self.outputs.append(record)
            self.by_topic[record.topic].append(record)

    def log(self, topic: str, writes: list[LoggedFields]) -> int:
        """Append to a changelog; return its end."""
        log = self.changelogs[topic]
        for key, value, timestamp, headers in writes:
            when = -1 if timestamp is None else timestamp
            log.append(ProducedRecord(topic, 0, key, value, when, headers))
        return len(log)

    def mark(self) -> LogMark:
        """Return the current positions."""
        return LogMark(
            dict(self.next_offsets),
            self.taken + len(self.outputs),
            {topic: self._end_of(topic) for topic in self.by_topic},
            {topic: len(records) for topic, records in self.internal.items()},
        )

    def rollback(self, mark: LogMark) -> None:
        """Drop everything after the mark; outputs that were read since cannot be dropped."""
        is_read_beyond = any(n > mark.by_topic.get(t, 0) for t, n in self.already_read.items())
        if self.taken > mark.outputs or is_read_beyond:
            raise ValueError(
                "outputs were read since the last commit and would appear twice: read outputs"
                " after a commit only, or use commit_every=1"
            )
        self.next_offsets = defaultdict(int, mark.next_offsets)
        del self.outputs[mark.outputs - self.taken :]
        for topic, records in self.by_topic.items():
            del records[mark.by_topic.get(topic, 0) - self.already_read[topic] :]
        for topic, records in self.internal.items():
            del records[mark.internal.get(topic, 0) :]
        for topic, records in self.inputs.items():
            del records[self.next_offsets.get(topic, 0) :]

    def _end_of(self, topic: str) -> int:
        return self.already_read[topic] + len(self.by_topic.get(topic, ()))
