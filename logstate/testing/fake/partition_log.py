"""One partition: entries in offset order, with transactions, holes and a moving start.

Control records (transaction markers) occupy offsets and are never handed out. A reader with
isolation "read committed" sees nothing at or beyond the last stable offset: the first offset of the
oldest transaction whose marker has not arrived HERE, however long ago its outcome was decided.

Invariants:
1. ``start <= lso <= end``; entries are sorted by offset and lie within ``[start, end)``;
2. an entry's outcome never changes once its transaction's marker is in this log.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import Protocol

from logstate.contracts.records import Headers, TopicPartition
from logstate.testing.fake.fetched import StoredRecord

#: Kafka's default segment.ms
SEGMENT_MS = 604_800_000


class Decided(Protocol):
    """Offsets of a group that become visible, or not, when a transaction ends."""

    def decide(self, transaction: Transaction) -> None:
        """The transaction's marker arrived."""


class Transaction:
    """A transaction, compared by identity. ``is_committed`` is None until it is decided."""

    __slots__ = ("groups", "is_committed", "owner", "partitions", "started_ms")

    def __init__(self, owner: str, started_ms: int) -> None:
        #: the transactional id
        self.owner = owner
        self.started_ms = started_ms
        self.partitions: dict[TopicPartition, None] = {}
        self.groups: dict[Decided, None] = {}
        self.is_committed: bool | None = None


class LogEntry:
    """A record, a transaction marker, or what compaction left of the last record (both None)."""

    __slots__ = ("marks", "offset", "record", "transaction", "writer", "written_ms")

    def __init__(
        self,
        offset: int,
        record: StoredRecord | None,
        transaction: Transaction | None,
        written_ms: int,
        marks: Transaction | None = None,
        writer: str = "",
    ) -> None:
        self.offset = offset
        self.record = record
        #: the transaction it belongs to; None outside transactions
        self.transaction = transaction
        self.written_ms = written_ms
        #: the transaction that this entry ends here
        self.marks = marks
        #: client that wrote it, for tests that examine the log
        self.writer = writer


class PartitionLog:
    """The log of one partition."""

    def __init__(self, topic: str, partition: int) -> None:
        self.topic = topic
        self.partition = partition
        self.start = 0
        self.end = 0
        self._entries: list[LogEntry] = []
        self._offsets: list[int] = []
        #: every entry ever written, including deleted ones, for tests that examine the log
        self.history: list[LogEntry] = []
        #: transactions without a marker here -> their first offset
        self._undecided: dict[Transaction, int] = {}

    # ------------------------------------------------------------------ writing

    def append(
        self,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        headers: Headers,
        now_ms: int,
        *,
        transaction: Transaction | None = None,
        writer: str = "",
    ) -> int:
        """Append a record; returns its offset."""
        offset = self.end
        record = StoredRecord(self.topic, self.partition, offset, key, value, timestamp, headers)
        if transaction is not None and transaction not in self._undecided:
            self._undecided[transaction] = offset
        self._add(LogEntry(offset, record, transaction, now_ms, None, writer))
        return offset

    def append_marker(self, transaction: Transaction, now_ms: int) -> None:
        """End a transaction in this partition."""
        self._undecided.pop(transaction, None)
        self._add(LogEntry(self.end, None, transaction, now_ms, transaction))

    def _add(self, entry: LogEntry) -> None:
        self._entries.append(entry)
        self.history.append(entry)
        self._offsets.append(entry.offset)
        self.end = entry.offset + 1

    # ------------------------------------------------------------------ reading

    @property
    def lso(self) -> int:
        """Last stable offset: read-committed readers stop before it."""
        return min(self._undecided.values()) if self._undecided else self.end

    def read(
        self, position: int, max_records: int, *, is_committed: bool = True
    ) -> tuple[list[StoredRecord], int]:
        """Return up to ``max_records`` records from ``position``; skip markers and aborted records.

        Also returns the position of the next read. ``position`` must be within the log.
        """
        limit = self.lso if is_committed else self.end
        records: list[StoredRecord] = []
        entries = self._entries
        i = bisect_left(self._offsets, position)
        while i < len(entries):
            entry = entries[i]
            if entry.offset >= limit:
                break
            if entry.record is not None and (
                not is_committed or entry.transaction is None or entry.transaction.is_committed
            ):
                if len(records) == max_records:
                    return records, position
                records.append(entry.record)
            position = entry.offset + 1
            i += 1
        return records, max(position, limit)

    def entries(self) -> Iterator[LogEntry]:
        """Everything that is in the log now, control records included."""
        return iter(self._entries)

    def committed(self) -> list[StoredRecord]:
        """All records that committed, also those whose marker is still under way."""
        return [
            e.record
            for e in self._entries
            if e.record is not None and (e.transaction is None or e.transaction.is_committed)
        ]

    def last_committed_offset(self) -> int:
        """Offset of the last committed record in the log; -1 where there is none."""
        for entry in reversed(self._entries):
            if entry.record is not None and _is_visible(entry):
                return entry.offset
        return -1

    def offset_at(self, timestamp_ms: int) -> int:
        """First offset of a record at or after a time; the end where there is none."""
        for entry in self._entries:
            if entry.record is not None and entry.record.timestamp()[1] >= timestamp_ms:
                return entry.offset
        return self.end

    # ------------------------------------------------------------------ what brokers do to logs

    def delete_before(self, offset: int) -> None:
        """Move the start, as DeleteRecords and retention do; -1 means the end."""
        offset = self.end if offset == -1 else min(offset, self.end)
        if offset <= self.start:
            return
        self.start = offset
        self._replace_entries([e for e in self._entries if e.offset >= offset])

    def truncate(self, end: int) -> None:
        """Lose the tail, as an unclean leader election does."""
        self._replace_entries([e for e in self._entries if e.offset < end])
        self.end = max(end, self.start)
        self._undecided = {t: o for t, o in self._undecided.items() if o < end}

    def expire(self, now_ms: int, retention_ms: int) -> None:
        """Delete the leading records whose event time is older than the retention."""
        for entry in self._entries:
            if entry.offset >= self.lso:
                break
            record = entry.record
            if record is not None and record.timestamp()[1] >= now_ms - retention_ms:
                self.delete_before(entry.offset)
                return
        self.delete_before(self.lso)

    def compact(
        self,
        now_ms: int,
        *,
        tombstone_lifetime_ms: int,
        lag_ms: int = 0,
        segment_ms: int = SEGMENT_MS,
    ) -> None:
        """Keep the last record of each key below the LSO.

        Nothing goes from the first segment on that holds an entry younger than ``lag_ms``, by a
        record's own timestamp and a marker's time of writing. A segment ends where these are
        ``segment_ms`` apart; here it may be of any size else, and the last one is compacted, too.
        Aborted records go; markers and tombstones go when they are older than
        ``tombstone_lifetime_ms``. The last offset of the log stays occupied, as in Kafka, where the
        active segment is never compacted.
        """
        limit = self.lso
        if lag_ms:
            limit = min(limit, self._first_young_segment(now_ms - lag_ms, segment_ms))
        last: dict[bytes | None, int] = {}
        for entry in self._entries:
            if entry.offset < limit and entry.record is not None and _is_visible(entry):
                last[entry.record.key()] = entry.offset
        kept = []
        for entry in self._entries:
            if entry.offset >= limit or self._survives(entry, last, now_ms - tombstone_lifetime_ms):
                kept.append(entry)
            elif entry.offset == self.end - 1:
                kept.append(LogEntry(entry.offset, None, None, entry.written_ms))
        self._replace_entries(kept)

    def _first_young_segment(self, since_ms: int, segment_ms: int) -> int:
        """Where the first segment begins that has an entry younger than that; else the end."""
        start, first_ms = 0, None
        for entry in self._entries:
            at_ms = _time_of(entry)
            if first_ms is None or at_ms - first_ms > segment_ms:
                start, first_ms = entry.offset, at_ms
            if at_ms > since_ms:
                return start
        return self.end

    @staticmethod
    def _survives(entry: LogEntry, last: dict[bytes | None, int], horizon_ms: int) -> bool:
        if entry.record is None:
            return entry.written_ms >= horizon_ms
        if not _is_visible(entry) or last[entry.record.key()] != entry.offset:
            return False
        return entry.record.value() is not None or entry.written_ms >= horizon_ms

    def _replace_entries(self, entries: list[LogEntry]) -> None:
        self._entries = entries
        self._offsets = [entry.offset for entry in entries]


def _time_of(entry: LogEntry) -> int:
    return entry.written_ms if entry.record is None else entry.record.timestamp()[1]


def _is_visible(entry: LogEntry) -> bool:
    return entry.transaction is None or bool(entry.transaction.is_committed)
