"""The versioned store (KIP-889): the history of each key, and joins as of any time in it.

Writes follow Kafka Streams step by step, because its answers show how it keeps versions: what a put
returns as the version's end depends on which segments still exist and on deletions that left no
trace (deleting the latest version at its own timestamp forgets it).

Changelog: the plain value, stamped with the version's start. A put older than the history is
dropped and counted. Kafka Streams logs it nevertheless; here it is logged only if every write
is, since a restore from a compacted log could not detect that it was dropped. For the same reason
only plain replacements share a place in the log: deletions are logged one by one.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, TypeVar

from logstate.changelog.rows.row_codec import PLAIN_ROWS, row_codec, serde_topic
from logstate.changelog.rows.rows import Rows
from logstate.changelog.rows.segments import SegmentClock, pack_segment
from logstate.changelog.rows.serialization_errors import (
    key_serialization_error,
    value_serialization_error,
)
from logstate.changelog.rows.writes import ChangelogWrites, LoggedFields, LoggedWrite
from logstate.changelog.stores.store_kind import StoreKind
from logstate.changelog.stores.version_segment import VersionSegment, covered_time, with_newest
from logstate.changelog.stores.versioned_reads import (
    LATEST,
    VersionedReads,
    pack_latest,
    valid_from_of,
    versioned_segment_interval_ms,
)
from logstate.contracts.drops import Drop
from logstate.contracts.processing import TaskContext, TimeCell
from logstate.contracts.record_parts import TIMESTAMP_MAX, event_time_of
from logstate.contracts.stores import StoreSpec, VersionedRecord

K = TypeVar("K")
V = TypeVar("V")

#: what ``put`` returns for the newest version of a key
VALID_TO_UNDEFINED = -1
#: what ``put`` returns when it came too late and was not put
NOT_PUT = -(2**63)

_IDENTITY = struct.Struct(">qq")


class TaskVersionedStore(VersionedReads[K, V]):
    """A versioned store of one task. Keys are never None."""

    #: recorded runs of Kafka Streams show none where a processor reads
    has_ends = False
    row_formats = PLAIN_ROWS

    def __init__(
        self, spec: StoreSpec, rows: Rows, writes: ChangelogWrites, context: TaskContext
    ) -> None:
        cell = context.time_cell(f"store:{spec.name}")
        codec = row_codec(spec, serde_topic(spec, context), self.row_formats[0])
        super().__init__(spec, codec, rows, cell)
        self._spec = spec
        self.name = spec.name
        #: who gave a time that is refused
        self._given = f"Store {spec.name!r} was given a version with"
        self._rows = rows
        self._writes = writes
        self._drop = context.store_dropper(spec.name)
        # Part of a write's identity, so that none is merged with another across a deletion.
        self._deletions = 0
        #: The clock that the committed rows stand for. A restore continues with it, and measures
        #: age by the records it reads: the store's own clock, that of the cut, may be ahead.
        self.restored = SegmentClock(
            TimeCell(), self.segments.interval_ms, self.segments.retention_ms
        )

    @property
    def queried(self) -> VersionedReads[K, V]:
        """The same rows as a query reads them."""
        return VersionedReads(self._spec, self.codec, self._rows, self.segments.cell)

    def put(self, key: K, value: V | None, timestamp: int, too_old: Drop | None = None) -> int:
        """Write the version that starts at ``timestamp``; None is a deletion.

        Returns when the version ends: the start of the next one, or ``VALID_TO_UNDEFINED`` for the
        newest; ``NOT_PUT`` for a timestamp before the history, which is dropped and counted, or
        given to ``too_old`` instead.
        Raises TypeError or ValueError for a timestamp that no record of its changelog can have.
        """
        if type(timestamp) is not int or not 0 <= timestamp <= TIMESTAMP_MAX:
            timestamp = event_time_of(timestamp, self._given)
        try:
            raw = self.codec.encode_key(key)
        except Exception as error:  # noqa: BLE001  serdes raise anything
            raise key_serialization_error(self.name, key, error) from error.__cause__
        try:
            data = None if value is None else self.codec.encode_value(value)
        except Exception as error:  # noqa: BLE001
            raise value_serialization_error(self.name, error) from error.__cause__
        return self._put(raw, data, timestamp, too_old)

    def latest_bytes(self, key: K) -> bytes | None:
        """The bytes of the latest version's value; None where that is a deletion, or none is."""
        latest = self._rows.get(LATEST + self.codec.encode_key(key))
        return None if latest is None else latest[8:]

    def delete(self, key: K, timestamp: int) -> VersionedRecord[V] | None:
        """End the key's version at ``timestamp``; returns the one that was valid then.

        Raises as ``put``.
        """
        timestamp = event_time_of(timestamp, self._given)
        found = None
        if self.segments.reaches(timestamp):
            found = self.get(key, timestamp)
        self._put(self.codec.raw_key(key), None, timestamp)
        return found

    def restore(self, records: Sequence[LoggedFields]) -> None:
        """Take changelog records over, in order, logging nothing; learns the clock."""
        restored = self.restored
        for key, value, timestamp, _ in records:
            time = timestamp or 0
            if not restored.reaches(time):
                continue
            if time > restored.cell.time:
                restored.advance(time, self._rows)
            _Versions(self._rows, restored, key).put(value, time)
        own = self.segments.cell
        own.time = max(own.time, restored.cell.time)

    def _put(
        self, key: bytes, value: bytes | None, timestamp: int, too_old: Drop | None = None
    ) -> int:
        segments = self.segments
        valid_to = NOT_PUT
        if segments.reaches(timestamp):
            if timestamp > segments.cell.time:
                segments.advance(timestamp, self._rows)
            valid_to = _Versions(self._rows, segments, key).put(value, timestamp)
        if valid_to == NOT_PUT:
            drop = self._drop if too_old is None else too_old
            drop(max(0, segments.cell.time - segments.retention_ms - timestamp))
        if valid_to != NOT_PUT or self._writes.logs_every_write:
            self._log(key, value, timestamp)
        return valid_to

    def _log(self, key: bytes, value: bytes | None, timestamp: int) -> None:
        if value is None:
            self._deletions += 1
        identity = key + _IDENTITY.pack(timestamp, self._deletions)
        self._writes.add(identity, LoggedWrite(key, value, timestamp))
        if value is None:
            self._deletions += 1


class _Versions:
    """The versions of one key, for one put."""

    def __init__(self, rows: Rows, segments: SegmentClock, key: bytes) -> None:
        self._rows = rows
        self._segments = segments
        self._key = key
        self._latest_key = LATEST + key

    def put(self, value: bytes | None, timestamp: int) -> int:
        """Write a version; returns its end, ``VALID_TO_UNDEFINED`` or ``NOT_PUT``."""
        next_start = VALID_TO_UNDEFINED  # the earliest start seen that is later than timestamp
        latest = self._rows.get(self._latest_key)
        if latest is not None:
            next_start = valid_from_of(latest)
            if timestamp >= next_start:
                self._put_over_latest(latest, value, timestamp)
                return VALID_TO_UNDEFINED
        oldest = max(timestamp // self._segments.interval_ms, self._segments.first_live())
        newest = self._segments.cell.time // self._segments.interval_ms
        for number in range(newest, oldest - 1, -1):
            row = self._segment_row(number)
            if row is None:
                continue
            next_ms, least_ms = covered_time(row)
            if next_ms <= timestamp:
                break
            if least_ms <= timestamp:
                return self._put_inside(number, VersionSegment.of(row), value, timestamp)
            next_start = least_ms
        if next_start == VALID_TO_UNDEFINED:
            return self._put_newest(value, timestamp)
        return self._put_before(next_start, value, timestamp)

    def _put_over_latest(self, latest: bytes, value: bytes | None, timestamp: int) -> None:
        valid_from = valid_from_of(latest)
        if timestamp > valid_from:
            self._end_version(valid_from, latest[8:], timestamp)
        row = None if value is None else pack_latest(value, timestamp)
        self._rows.put(self._latest_key, row)

    def _end_version(self, valid_from: int, value: bytes | None, valid_to: int) -> None:
        """Add a version that ended to the segment of its end, unless that is expired."""
        number = valid_to // self._segments.interval_ms
        if number < self._segments.first_live():
            return
        row = self._segment_row(number)
        self._put_row(number, with_newest(row, valid_from, valid_to, value))

    def _put_inside(
        self, number: int, segment: VersionSegment, value: bytes | None, timestamp: int
    ) -> int:
        """Split or replace the version of the segment that is valid at ``timestamp``."""
        found = segment.find(timestamp)
        if found.valid_from == timestamp:
            segment.replace(found, timestamp, value)
        elif timestamp // self._segments.interval_ms == number:
            segment.insert_after(found, timestamp, value)
        else:  # the version now ends in an older segment
            self._end_version(found.valid_from, found.value, timestamp)
            segment.replace(found, timestamp, value)
        self._put_row(number, segment.pack())
        return found.valid_to

    def _put_newest(self, value: bytes | None, timestamp: int) -> int:
        """The key has no later version: the new one is the latest."""
        if value is not None:
            self._rows.put(self._latest_key, pack_latest(value, timestamp))
            return VALID_TO_UNDEFINED
        number = timestamp // self._segments.interval_ms
        if number < self._segments.first_live():
            return NOT_PUT
        row = self._segment_row(number)
        start = timestamp if row is None else covered_time(row)[0]
        if row is None or start != timestamp:  # else it ends in this deletion already
            self._put_row(number, with_newest(row, start, timestamp, None))
        return VALID_TO_UNDEFINED

    def _put_before(self, valid_to: int, value: bytes | None, timestamp: int) -> int:
        """The new version ends where the earliest later one starts."""
        number = valid_to // self._segments.interval_ms
        if number < self._segments.first_live():
            return NOT_PUT
        row = self._segment_row(number)
        if row is not None and covered_time(row)[0] > timestamp:
            segment = VersionSegment.of(row)
            segment.insert_oldest(timestamp, value)
            self._put_row(number, segment.pack())
        else:
            self._put_row(number, with_newest(row, timestamp, valid_to, value))
        return valid_to

    def _segment_row(self, number: int) -> bytes | None:
        return self._rows.get(pack_segment(number) + self._key)

    def _put_row(self, number: int, row: bytes) -> None:
        self._rows.put(pack_segment(number) + self._key, row)


VERSIONED: Final = StoreKind(
    "versioned", TaskVersionedStore, VersionedReads,
    key_reads={"get": ("as_of",)},
    can_be_filled=True, is_versioned=True,
    segment_interval_ms=versioned_segment_interval_ms,
)  # fmt: skip
