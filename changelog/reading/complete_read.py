"""Reads a changelog partition up to a cut, and proves that no row of the cut is missing.

Compaction keeps the newest record of a key. A record behind the cut can therefore remove the one
that the cut covers, and a tombstone behind the cut can disappear after it has done so. Offsets that
a consumer does not see prove nothing: transaction markers and aborted records look the same.

*The proof.* A commit notes how many rows a store has (``rows:STORE`` among the clocks of its cut).
The cleaner goes through a log from its beginning and removes all older records of a key together,
so at any instant the log has of a key its newest record before the cut, or none. Rows are
therefore never replaced by older ones, only lost, and a read that sees the log as it was at one
instant is complete if it finds the noted number of rows. Fewer rows prove that some were removed.

*One instant.* A pass of the cleaner during the read could remove a newer record after an older one
of its key has been read. Such a pass knows a record behind the cut. Of each key with records on
both sides of the cut, let ``before`` be the offset that the read found and ``behind`` the first one
behind the cut. While the record at ``before`` exists, no pass that knows ``behind`` has reached
``before``, nor any later offset. So it is enough to look again for the keys that have no other key
with both offsets smaller, which are few (``Recheck``). If the read takes longer than tombstones are
kept, a key may have lost all its records behind the cut; then the log is read twice. Records are
only ever removed, so two reads that find equally many records saw the same ones.

*Without a count* (cuts that another program or an earlier version committed, plain offsets, stores
whose rows are not counted) the read is complete where one of these holds:

1. nothing was written behind the cut but at most one record, which the active segment contains;
2. no key appears only behind the cut, and the cut is younger than ``delete.retention.ms``;
3. no offset before the cut is missing, or a key appears twice before the cut and for the first time
   before the first missing offset: a pass that knows a record behind the cut would have removed it;
4. every missing offset is an aborted record or a transaction marker, which brokers find by time;
5. the cut was the newest within the last minute, and a key appears twice before it, or adjacent
   offsets that are missing are explained as in 4, and ``segment.ms`` is not shorter than that.
   This is not a proof: it trusts that a record needs a minute to be written, rolled into a closed
   segment and cleaned for.

Everything else is refused. Pure, except for the log that it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from logstate.changelog.reading.latest_records import LatestRecords
from logstate.changelog.reading.marker_search import OffsetGaps
from logstate.contracts.errors import RestoreError
from logstate.contracts.records import FetchedRecord

_TRIES = 5
#: checking a single record takes as long as reading so many in a row
_RECORDS_PER_LOOK = 20_000
#: maximum number of missing offsets that are checked by their times
_MARKERS_MAX = 64
FRESH_MS = 60_000
#: the part of delete.retention.ms that counts: clocks of machines differ
_TRUSTED = 0.9


class Bounds(Protocol):
    """The offsets of a partition."""

    @property
    def stable_end(self) -> int: ...
    @property
    def end(self) -> int: ...


class Cleaner(Protocol):
    """Settings of a compacted topic."""

    @property
    def tombstones_kept_ms(self) -> int: ...
    @property
    def segment_ms(self) -> int: ...


class CutLog(Protocol):
    """The changelog partition of a cut. A fake in memory serves tests."""

    def records(
        self, start: int, end: int, *, with_aborted: bool = False
    ) -> Iterator[list[FetchedRecord]]:
        """Batches of ``start <= offset < end``."""

    def bounds(self) -> Bounds: ...

    def first_since(self, time_ms: int) -> int | None:
        """The first offset, be it of a marker, whose time is not before a time."""

    def cleaner(self) -> Cleaner | None:
        """The settings of the topic; None if the brokers do not report them."""

    def now_ms(self) -> int: ...


@dataclass(frozen=True)
class CutPartition:
    """The data of a cut about one partition."""

    name: str
    """The changelog partition, for messages."""
    start: int
    """Where the log begins."""
    end: int
    taken_at_ms: int
    """Wall clock when the cut was the newest; 0 if unknown."""
    rows: int | None = None
    """The number of rows of the store at the cut, if the commit contains it."""
    writes_keys_once: bool = False
    """No record replaces another one."""


class Recheck:
    """The records to check again: while they exist, no pass has removed what the read missed."""

    def __init__(self) -> None:
        self.offsets: list[int] = []

    def add(self, before: int) -> None:
        """A key was found at ``before``; keys come in the order of their offsets behind the cut.

        >>> recheck = Recheck()
        >>> for before in (7, 9, 3, 5): recheck.add(before)
        >>> recheck.offsets
        [7, 3]
        """
        if not self.offsets or before < self.offsets[-1]:
            self.offsets.append(before)


class CompleteRead:
    """One read of one partition. ``begin(counts)`` makes an empty collection of rows.

    ``counts``: of all keys, whichever ones are wanted.
    """

    def __init__(
        self, log: CutLog, cut: CutPartition, begin: Callable[[bool], LatestRecords]
    ) -> None:
        self._log = log
        self._cut = cut
        self._begin = begin

    @cached_property
    def _cleaner(self) -> Cleaner | None:
        return self._log.cleaner()

    def latest(self) -> LatestRecords:
        """The newest record of each row. Raises RestoreError if one may be missing."""
        return self._complete(counts=False)

    def _complete(self, *, counts: bool) -> LatestRecords:
        for _ in range(_TRIES):
            begun_ms = self._log.now_ms()
            latest = self._read(counts=counts)
            bounds = self._log.bounds()
            # The last record of a log is in its active segment, which is never cleaned.
            is_newest = bounds.end <= self._cut.end + 1
            ahead = _RecordsAfterCut(latest)
            if not is_newest:
                for records in self._log.records(self._cut.end, bounds.stable_end):
                    ahead.add(records)
                if not self._was_one_instant(latest, ahead.recheck, begun_ms):
                    continue
            if self._has_all_rows(latest, is_newest=is_newest, lacks=ahead.lacks):
                return latest
            raise self._refusal(latest)
        raise RestoreError(
            f"{self._cut.name}: the log cleaner removed records each of the {_TRIES} times that"
            " the log was read up to the cut; read again when it has finished, or give the cut a"
            " name when it is the newest: a named cut has a copy that is never compacted"
        )

    def _read(self, *, counts: bool) -> LatestRecords:
        cut = self._cut
        latest = self._begin(counts)
        for records in self._log.records(cut.start, cut.end):
            latest.add(records)
        latest.reach(cut.end)
        return latest

    def _was_one_instant(self, latest: LatestRecords, recheck: Recheck, begun_ms: int) -> bool:
        """Whether no pass of the cleaner that matters came in the middle of the read."""
        if self._cut.writes_keys_once:
            return True
        offsets = set(recheck.offsets)
        if self._cut.rows is None and latest.first_repeated is not None:
            offsets.add(latest.first_repeated)
        kept_ms = 0 if self._cleaner is None else self._cleaner.tombstones_kept_ms
        is_short = self._log.now_ms() < begun_ms + _TRUSTED * kept_ms
        if is_short and len(offsets) * _RECORDS_PER_LOOK <= self._cut.end - self._cut.start:
            return all(any(self._log.records(offset, offset + 1)) for offset in offsets)
        again = self._log.records(self._cut.start, self._cut.end)
        return sum(map(len, again)) == latest.records_total

    def _has_all_rows(self, latest: LatestRecords, *, is_newest: bool, lacks: bool) -> bool:
        cut = self._cut
        if cut.rows is not None:
            if not latest.is_of_some_keys:
                return latest.live_rows() == cut.rows
            # Where a key that is wanted was not found, all keys have to be counted.
            if latest.found_all_keys() or is_newest or (not lacks and self._is_young()):
                return True
            self._complete(counts=True)
            return True
        if is_newest or cut.writes_keys_once or (not lacks and self._is_young()):
            return True
        hole = latest.first_hole
        if hole is None or latest.clears(hole):
            return True
        closes_early = self._cleaner is not None and self._cleaner.segment_ms < FRESH_MS
        is_fresh = not closes_early and self._log.now_ms() < cut.taken_at_ms + FRESH_MS
        return (is_fresh and latest.first_repeated is not None) or self._are_explained(
            only_adjacent=is_fresh
        )

    def _is_young(self) -> bool:
        """Whether no tombstone behind the cut can have disappeared."""
        kept_ms = 0 if self._cleaner is None else self._cleaner.tombstones_kept_ms
        return self._log.now_ms() < self._cut.taken_at_ms + _TRUSTED * kept_ms

    def _are_explained(self, *, only_adjacent: bool) -> bool:
        """Whether each offset that is missing is an aborted record or a marker."""
        cut = self._cut
        records = self._log.records(cut.start, cut.end, with_aborted=True)
        missing = OffsetGaps(records, cut.start, cut.end, _MARKERS_MAX)
        test = missing.adjacent_are_markers if only_adjacent else missing.are_markers
        return test(self._log.first_since, self._log.now_ms())

    def _refusal(self, latest: LatestRecords) -> RestoreError:
        cut = self._cut
        found = (
            "keys that were written since the cut are not found before it, and offsets before it"
            " are missing"
        )
        if cut.rows is not None and not latest.is_of_some_keys:
            live = latest.live_rows()
            found = f"the commit counted {cut.rows:,} rows there, and the changelog has {live:,}"
        return RestoreError(
            f"{cut.name}: compaction may have removed records before the cut at {cut.end} in favor"
            f" of newer ones: {found}; load the table again for the newest cut. To read the state"
            " of a moment later, give the cut a name when it is the newest, or set the changelog's"
            " min.compaction.lag.ms to how long cuts have to stay readable"
        )


class _RecordsAfterCut:
    """The records after the cut that show whether records before it may be missing."""

    def __init__(self, latest: LatestRecords) -> None:
        self._latest = latest
        self.recheck = Recheck()
        self.lacks = False
        """A key appears only behind the cut."""

    def add(self, records: list[FetchedRecord]) -> None:
        for before in self._latest.offsets_before(records):
            if before is None:
                self.lacks = True
            else:
                self.recheck.add(before)
