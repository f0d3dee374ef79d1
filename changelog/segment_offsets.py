"""The first record of each changelog that the state of a task needs, and how far one is trimmed.

The broker must not expire windowed changelogs itself: it compares event time with its wall clock,
so reprocessing old data would delete live windows. Their owner deletes instead: every record below
the lowest first offset over the live segments belongs to expired rows only.

How it works. A commit's rows lie at or behind the changelog position before it, so that position is
a safe first offset for every segment the commit is first to write to. Expired segments are dropped.
The offsets are stored with the rows, in the same atomic write.

Every commit stores in its cut which record of each changelog is the first that its state needs
(:meth:`NeededRecords.first`). The owner deletes below the offsets of its last commit only, so a
changelog that starts above the offset in the cut was shortened by somebody else, and a restore from
it would be incomplete.

Invariants: a live segment's first offset is never above any of its records; it never changes. The
first offset that a state needs never goes back: a replay reads records that are not needed any more
as well, so a task that starts takes over the offset of the cut (:meth:`NeededRecords.start_at`).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping

from logstate.changelog.backend.backend import KeyRange
from logstate.changelog.rows.layers import Layer
from logstate.changelog.rows.segments import SEGMENT_BYTES
from logstate.changelog.stored_meta import StoredMeta
from logstate.changelog.stores.kinds import kind_of
from logstate.contracts.stores import StoreSpec


class SegmentOffsets:
    """The first offsets of one store's live segments.

    >>> offsets = SegmentOffsets()
    >>> offsets.wrote([bytes(7) + b"a" + b"key"], 10)
    >>> offsets.wrote([bytes(7) + b"b" + b"key"], 25)
    >>> offsets.expired([(bytes(8), bytes(7) + b"b")])
    >>> offsets.trim_point(position=40)
    25
    """

    def __init__(self, known: Mapping[int, int] | None = None) -> None:
        self._first = dict(known or {})
        #: the first needed offset in the cut that the task started at
        self.at_start = 0

    def wrote(self, keys: Iterable[bytes], position: int) -> None:
        """Rows with these keys were logged at or behind ``position``."""
        first = self._first
        for segment in {key[:SEGMENT_BYTES] for key in keys}:
            first.setdefault(int.from_bytes(segment, "big"), position)

    def expired(self, ranges: Iterable[KeyRange]) -> None:
        """Rows of these ranges are gone for good."""
        for lower, upper in ranges:
            start = int.from_bytes(lower[:SEGMENT_BYTES], "big")
            end = int.from_bytes(upper[:SEGMENT_BYTES], "big")
            for segment in [s for s in self._first if start <= s < end]:
                del self._first[segment]

    def expired_before(self, segment: int) -> None:
        """All segments before this one are gone, those too whose rows were deleted one by one."""
        self._first = {s: offset for s, offset in self._first.items() if s >= segment}

    def trim_point(self, position: int) -> int:
        """Records below this offset may be deleted; ``position`` where nothing is live."""
        return max(min(self._first.values(), default=position), self.at_start)

    def known(self) -> dict[int, int]:
        """Segment to first offset, to be stored."""
        return dict(self._first)


class NeededRecords:
    """The first record that the state needs of each changelog of a task.

    - Of a windowed store it is the lowest first offset over the live segments.
    - Of every other store it is the record that its rows were built from: 0, the start of a source
      topic that serves as changelog, or the start of a log whose loss was accepted.
    """

    def __init__(self, meta: StoredMeta) -> None:
        self._meta = meta
        self._segments: dict[str, SegmentOffsets] = {}
        self._reads_source: set[str] = set()
        #: store to first needed offset, as the last commit stored it in its cut
        self.committed: Mapping[str, int] = {}

    def open(self, spec: StoreSpec, *, in_memory: bool) -> None:
        """Begin with a logged store; one on disk continues with the offsets in its metadata."""
        if spec.source_topic is not None:
            self._reads_source.add(spec.name)
        elif kind_of(spec).is_segmented:
            known = None if in_memory else self._meta.segment_offsets.get(spec.name)
            self._segments[spec.name] = SegmentOffsets(known)

    def start_at(self, store: str, first: int) -> None:
        """The state of the cut needs no record of the store before ``first``."""
        if store in self._segments:
            self._segments[store].at_start = first

    def wrote(self, store: str, layer: Layer, position: int) -> None:
        """The rows of ``layer`` were logged at or behind ``position``."""
        offsets = self._segments.get(store)
        if offsets is not None:
            offsets.wrote(layer.rows, position)
            offsets.expired(layer.ranges)

    def expired_before(self, store: str, segment: int) -> None:
        """All segments of a store before this one are gone."""
        if store in self._segments:
            self._segments[store].expired_before(segment)

    def first(self, positions: Mapping[str, int]) -> dict[str, int]:
        """Store to the first offset that its rows need; stores without an entry need all records.

        ``positions`` are the positions that the committed rows stand for.
        """
        found = {store: begin for store, begin in self._meta.begins.items() if begin > 0}
        for store in self._reads_source:
            found[store] = self._meta.begins.get(store, 0)
        for store, offsets in self._segments.items():
            trim_point = offsets.trim_point(positions.get(store, 0))
            found[store] = max(trim_point, self._meta.begins.get(store, 0))
        return found

    def trim_points(self) -> dict[str, int]:
        """Windowed store to the offset below which its owner may delete: that of the last cut."""
        return {name: self.committed.get(name, 0) for name in self._segments}

    def known(self, stores: Container[str]) -> dict[str, dict[int, int]]:
        """Return the first offsets of these stores' segments, to be stored with their rows."""
        return {name: one.known() for name, one in self._segments.items() if name in stores}
