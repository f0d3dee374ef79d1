"""The reads of a versioned store, over a task's rows or a query's.

The latest version of a key has a separate row (0xff | key -> 8 bytes valid from | value) unless
it is a deletion; a version that ended is in the segment of its END (segment | key), see
:mod:`logstate.changelog.stores.version_segment`. So "as of" reads check the latest row, then
segments from the requested time on.

The latest version never expires. Older ones can be read as of any time within the history of the
store's clock, the largest timestamp put so far.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from logstate.changelog.rows.row_codec import RowCodec
from logstate.changelog.rows.rows import ReadableRows
from logstate.changelog.rows.segments import SegmentClock, pack_segment
from logstate.changelog.rows.serialization_errors import key_serialization_error
from logstate.changelog.stores.version_segment import VersionSegment, covered_time
from logstate.contracts.processing import TimeCell
from logstate.contracts.stores import StoreSpec, VersionedRecord

K = TypeVar("K")
V = TypeVar("V")

LATEST = b"\xff"  # no segment number starts like that
_VALID_FROM = struct.Struct(">q")


def versioned_segment_interval_ms(spec: StoreSpec) -> int:
    """The declared interval, or Kafka Streams' share of the history."""
    if spec.segment_interval_ms is not None:
        return spec.segment_interval_ms
    history_ms = spec.history_ms or 0
    if history_ms <= 60_000:
        return max(history_ms // 3, 2_000)
    if history_ms <= 300_000:
        return max(history_ms // 5, 20_000)
    if history_ms <= 3_600_000:
        return max(history_ms // 12, 60_000)
    return max(history_ms // 24, 300_000)


def pack_latest(value: bytes, valid_from: int) -> bytes:
    """The row of a latest version."""
    return _VALID_FROM.pack(valid_from) + value


def valid_from_of(latest_row: bytes) -> int:
    """When the latest version starts."""
    return int(_VALID_FROM.unpack_from(latest_row)[0])


class VersionedReads(Generic[K, V]):
    """Reads by key and time, as queries see them."""

    #: whether :meth:`get` says when the version that it found ended
    has_ends = True

    def __init__(
        self, spec: StoreSpec, codec: RowCodec, rows: ReadableRows, cell: TimeCell
    ) -> None:
        self.codec = codec
        self.segments = SegmentClock(
            cell, versioned_segment_interval_ms(spec), spec.history_ms or 0
        )
        self._reads = rows

    def get(self, key: K, as_of: int | None = None) -> VersionedRecord[V] | None:
        """The latest version, or the one valid at ``as_of``; None where that is a deletion.

        None too for an ``as_of`` before the history, unless the latest version was valid then.
        ``valid_to`` is when the version ended, None where it is the latest. Processors do not get
        it from here, see :class:`VersionedRecord`, but from :meth:`versions`.
        """
        try:
            raw = self.codec.encode_key(key)
        except Exception as error:  # noqa: BLE001  serdes raise anything
            raise key_serialization_error(self.codec.store, key, error) from error.__cause__
        latest = self._reads.get(LATEST + raw)
        if latest is not None:
            valid_from = valid_from_of(latest)
            if as_of is None or valid_from <= as_of:
                return VersionedRecord(self.codec.decode_value(latest[8:]), valid_from)
        if as_of is None or not self.segments.reaches(as_of):
            return None
        for _, row in self._segment_rows(raw, as_of):
            next_ms, least_ms = covered_time(row)
            if next_ms <= as_of:
                return None
            if least_ms <= as_of:
                found = VersionSegment.of(row).find(as_of)
                if found.value is None:
                    return None
                value, valid_to = self.codec.decode_value(found.value), found.valid_to
                return VersionedRecord(value, found.valid_from, valid_to if self.has_ends else None)
        return None

    def versions(
        self, key: K, from_ms: int | None = None, to_ms: int | None = None
    ) -> Iterator[VersionedRecord[V]]:
        """The versions valid at some time of the range, oldest first, with their ends.

        Both ends are inclusive, None is open. Deletions give no row, they end the version before.
        Of a range that ends before the history only the latest version can be in it, as for
        :meth:`get`: what else the store may still hold is not shown.
        """
        raw = self.codec.raw_key(key)
        decode: Callable[[bytes], V] = self.codec.decode_value
        found: list[VersionedRecord[V]] = []
        is_beyond = to_ms is not None and not self.segments.reaches(to_ms)
        ended = () if is_beyond else self._segment_rows(raw, from_ms or 0)
        for _, row in reversed(list(ended)):
            segment = VersionSegment.of(row)
            ends = [segment.next_ms, *(valid_from for valid_from, _ in segment.versions)]
            found += [
                VersionedRecord(decode(value), valid_from, valid_to)
                for (valid_from, value), valid_to in reversed(
                    list(zip(segment.versions, ends, strict=False))
                )
                if value is not None
            ]
        latest = self._reads.get(LATEST + raw)
        if latest is not None:
            found.append(VersionedRecord(decode(latest[8:]), valid_from_of(latest)))
        return iter(
            [
                version
                for version in found
                if (to_ms is None or version.valid_from <= to_ms)
                and (from_ms is None or version.valid_to is None or version.valid_to > from_ms)
            ]
        )

    def _segment_rows(self, key: bytes, from_ms: int) -> Iterator[tuple[int, bytes]]:
        """(segment, row) of a key, newest first, down to the segment of ``from_ms``."""
        segments, get_row = self.segments, self._reads.get
        first = max(from_ms // segments.interval_ms, segments.first_live())
        for segment in range(segments.cell.time // segments.interval_ms, first - 1, -1):
            row = get_row(pack_segment(segment) + key)
            if row is not None:
                yield segment, row
