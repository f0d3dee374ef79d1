"""The newest record of each row of a changelog up to a cut, and the offsets that were missing.

`complete_read` decides whether compaction has removed rows of the cut, from the data collected
here: how many rows there are, which offsets are missing, and which keys appear twice.

A key that still appears twice before the cut proves that the holes after its first appearance are
harmless: the cleaner goes through a log from its beginning, and each pass that made such a hole has
kept the first record, so it knew neither the second one nor any record after the cut. For holes
before it this proves nothing while a pass is running, because only the beginning of the log is
clean then.

How it works: records wait as the client gave them until there are some thousands. Of these only
the newest of each row are kept, as bytes in columns (`blocks`), where rows die when later ones
come; the dead are swept out when they are more than half. Beyond a limit the columns lie in a file.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import compress
from operator import is_

import pyarrow as pa
import pyarrow.compute as pc

from logstate.changelog.reading.blocks import (
    Block,
    SpilledBlocks,
    block_of,
    joined,
    key_of,
    offset_of,
    timestamp_of,
)
from logstate.changelog.reading.tables import StoreTable
from logstate.contracts.records import FetchedRecord, TopicPartition

_NEVER = 1 << 63
#: records that wait before the newest of them are kept
_WAITING = 65_536
#: a sweep leaves few blocks smaller than this
_BLOCK_ROWS = 10_000
#: bytes of columns that stay in memory
_IN_MEMORY = 128 << 20


class LatestRecords:
    """The newest record of each row seen so far, and the offsets that indicate compaction."""

    def __init__(
        self,
        table: StoreTable,
        keys: frozenset[bytes] | None,
        log_start: int,
        *,
        log: TopicPartition,
        with_headers: bool = False,
    ) -> None:
        self._table = table
        self._keys = keys
        self._log = log
        self._with_headers = with_headers
        self._waiting: list[FetchedRecord] = []
        #: each row to the offset of its newest record, which is in one of the blocks
        self._newest: dict[Hashable, int] = {}
        self._blocks: list[Block] = []
        self._files: list[SpilledBlocks] = []
        self._rows = self._bytes_in_memory = self._moved = 0
        # Versioned stores, where a row is not a key: the newest offset of each key.
        self._offsets: dict[bytes, int] = {}
        self._hole = FirstHole(log_start)
        self.records_total = 0
        """The number of records seen, of all keys."""
        self._first_repeated = _NEVER
        self._stream_time = -1

    @property
    def first_hole(self) -> int | None:
        """The first offset that is missing; None if there is none."""
        return self._hole.offset

    @property
    def first_repeated(self) -> int | None:
        """The first record that a later one of its key replaces; None if there is none."""
        self._keep_newest()
        self._remove_superseded()
        return None if self._first_repeated == _NEVER else self._first_repeated

    @property
    def is_of_some_keys(self) -> bool:
        """Whether only some keys are requested."""
        return self._keys is not None

    def found_all_keys(self) -> bool:
        """Whether each requested key has a record. For windows their number is unknown."""
        self._keep_newest()
        wanted = self._keys
        return wanted is not None and not self._table.has_windows and wanted <= self._newest.keys()

    def live_rows(self) -> int:
        """Return the number of rows: keys whose newest record is not a tombstone."""
        self._keep_newest()
        self._remove_superseded()
        return sum(block.rows - block.values.null_count for block in self._blocks)

    def add(self, records: list[FetchedRecord]) -> None:
        """Take records in offset order."""
        self._hole.add(records)
        self.records_total += len(records)
        late = self._late_versions(records)  # of all keys: each moves the clock of the store
        records = self._records_of_keys(records)
        if self._table.is_versioned:
            self._note_keys(records)
            records = [record for record in records if record.offset() not in late]
        self._waiting += records
        if len(self._waiting) >= _WAITING:
            self._keep_newest()

    def reach(self, offset: int) -> None:
        """Note that the position is ``offset`` now."""
        self._hole.reach(offset)

    def clears(self, hole: int) -> bool:
        """Whether records before the cut show that nothing behind it made this hole, nor later."""
        repeated = self.first_repeated
        return repeated is not None and repeated < hole

    def offsets_before(self, ahead: list[FetchedRecord]) -> Iterator[int | None]:
        """Yield for each requested record after the cut the offset of its key before the cut."""
        self._keep_newest()
        seen = self._offsets if self._table.is_versioned else self._newest
        return map(seen.get, map(key_of, self._records_of_keys(ahead)))

    def blocks(self) -> Iterator[Block]:
        """The newest record of each row in offset order, tombstones included. Ends the search."""
        self._keep_newest()
        self._remove_superseded()
        self._newest.clear()
        while self._blocks:
            yield self._blocks.pop(0)
            self._delete_files()

    def _records_of_keys(self, records: list[FetchedRecord]) -> list[FetchedRecord]:
        wanted = self._keys
        if wanted is None:
            return records
        keys: Iterable[bytes] = map(key_of, records)
        if self._table.has_windows:
            keys = map(self._table.inner_key, keys)
        return list(compress(records, map(wanted.__contains__, keys)))

    def _late_versions(self, records: list[FetchedRecord]) -> set[int | None]:
        """Offsets of versions that the store refused, which are in its log all the same."""
        late = set[int | None]()
        history_ms = self._table.history_ms
        if not self._table.is_versioned or history_ms is None:
            return late
        for record in records:
            valid_from = max(record.timestamp()[1], 0)  # time 0 travels as -1, "no timestamp"
            if valid_from < self._stream_time - history_ms:
                late.add(record.offset())
            self._stream_time = max(self._stream_time, valid_from)
        return late

    def _note_keys(self, records: list[FetchedRecord]) -> None:
        for record in records:
            key: bytes = record.key()
            self._first_repeated = min(self._first_repeated, self._offsets.get(key, _NEVER))
            self._offsets[key] = record.offset()  # type: ignore[assignment]

    def _keep_newest(self) -> None:
        """Keep the newest of each row among the records that wait."""
        records, self._waiting = self._waiting, []
        if not records:
            return
        identities = list(self._identities(records))
        window = dict(zip(identities, records, strict=True))
        if len(window) < len(records):
            alive = list(map(is_, map(window.__getitem__, identities), records))
            self._note_dead(records[alive.index(False)].offset())  # type: ignore[arg-type]
            records = list(compress(records, alive))
            identities = list(compress(identities, alive))
        self._newest.update(zip(identities, map(offset_of, records), strict=True))
        frames = self._table.frames
        block = block_of(self._log, records, with_headers=self._with_headers, frames=frames)
        self._keep([block])
        if self._rows > 2 * len(self._newest) + _WAITING:
            self._remove_superseded()

    def _identities(self, records: list[FetchedRecord]) -> Iterable[Hashable]:
        """Return the identities of the records' rows."""
        keys = map(key_of, records)
        if not self._table.is_versioned:
            return keys
        return zip(keys, (time for _, time in map(timestamp_of, records)), strict=True)

    def _note_dead(self, offset: int) -> None:
        self._first_repeated = min(self._first_repeated, offset)

    def _keep(self, blocks: Sequence[Block]) -> None:
        if not blocks:
            return
        block = joined(blocks)
        self._blocks.append(block)
        self._rows += block.rows
        self._bytes_in_memory += block.nbytes
        if self._bytes_in_memory > _IN_MEMORY:
            moved = SpilledBlocks(self._blocks[self._moved :])
            self._files.append(moved)
            self._blocks[self._moved :] = moved.blocks
            self._moved, self._bytes_in_memory = len(self._blocks), 0
            self._delete_files()

    def _delete_files(self) -> None:
        for file in self._files:
            file.release()

    def _remove_superseded(self) -> None:
        """Remove records that were superseded from the blocks."""
        if self._rows == len(self._newest):
            return
        newest = array("q", sorted(self._newest.values()))
        blocks, self._blocks, self._files = self._blocks[::-1], [], []
        self._rows = self._bytes_in_memory = self._moved = 0
        alive: list[Block] = []
        while blocks:
            alive.append(self._newest_rows(blocks.pop(), newest))
            if sum(each.rows for each in alive) >= _BLOCK_ROWS:
                self._keep(alive)
                alive = []
        self._keep(alive)

    def _newest_rows(self, block: Block, newest: array[int]) -> Block:
        if not block.rows:
            return block
        first = bisect_left(newest, block.offsets[0].as_py())
        last = bisect_left(newest, block.offsets[-1].as_py() + 1)
        if last - first == block.rows:
            return block
        mask = pc.is_in(block.offsets, pa.array(newest[first:last], pa.int64()))
        dead = block.offsets[pc.index(mask, False).as_py()].as_py()
        self._note_dead(dead)
        return block.filter(mask)


class FirstHole:
    """Finds the first offset that is missing."""

    def __init__(self, start: int) -> None:
        self._next_offset = start
        self.offset: int | None = None

    def add(self, records: list[FetchedRecord]) -> None:
        """Take records in offset order."""
        expected = self._next_offset
        if not records or self.offset is not None:
            return
        last: int = records[-1].offset()  # type: ignore[assignment]
        self._next_offset = last + 1
        if last != expected + len(records) - 1:
            offsets = map(offset_of, records)
            self.offset = next(at for at, offset in enumerate(offsets, expected) if at != offset)

    def reach(self, offset: int) -> None:
        """Note that the position is ``offset`` now: all that is there before it was taken."""
        if self.offset is None and offset > self._next_offset:
            self.offset = self._next_offset
        self._next_offset = max(offset, self._next_offset)
