"""Write rows of a replay to the backend, without the layers that only processing needs.

A replayed row is not read before the replay is over, is committed already, and is never
undone. So it becomes a backend row at once, one dict per store keeps the last one of each key, and
a tombstone waits in it as None.

How it is written. Few rows go into the same atomic write as the position. Many rows of a store that
was empty when its replay began become a sorted file that the backend takes over as a whole: no
write-ahead log, no memory for writes, nothing to compact. A file and a position cannot be written
in one step, so there are three, and the first says that the store cannot be trusted:

    1. the store is marked as loading, on the disk for good (synced)
    2. the file is taken over: all of its rows or none
    3. rows of other stores, the new positions, and no mark any more, in one write

Why that is safe. A directory that is opened with a mark was left between 1 and 3: the store may
hold rows that are newer than its position. It is emptied, loses its position, and its replay starts
from the beginning of the log. Replaying from the old position over the newer rows would be right as
well, but only while the log still holds every tombstone of the keys among them: compaction may have
dropped the record and its tombstone, and a truncated log does not know of the row at all. After 3
rows and position belong together as they do after any other write.

Tombstones are part of the file wherever the store may have the row: in all files but the first.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, TypeAlias

from logstate.changelog.backend.backend import StoreBackend
from logstate.changelog.rows.expiring_rows import ExpiringRows
from logstate.changelog.rows.row_codec import PLAIN_ROW, RowFormat, timestamped_row
from logstate.changelog.rows.rows import Rows
from logstate.changelog.stores.kinds import kind_of
from logstate.contracts.records import FetchedRecord
from logstate.contracts.stores import StoreSpec

#: backend rows: prefix and key -> row, None = deleted
BackendRows: TypeAlias = "dict[bytes, bytes | None]"
#: makes backend rows of changelog records, the last of a key winning; takes the store's prefix
RowMaker: TypeAlias = "Callable[[Sequence[FetchedRecord], bytes], BackendRows]"

_pack_timestamp = struct.Struct(">q").pack


def row_maker(spec: StoreSpec) -> RowMaker | None:
    """Return how records become rows if nothing else is needed; None for all other stores.

    Those are stores that learn from a replay (clocks, bounds, buffers), those with indexes, and
    those whose changelog is a topic of somebody else, with records that were skipped.
    """
    kind = kind_of(spec)
    if spec.source_topic is not None or spec.indexes or not kind.are_rows_records:
        return None
    row_format = kind.row_format(spec)
    if row_format is PLAIN_ROW:
        return _rows_without_times
    has_time_alone = row_format.encode is timestamped_row
    return _timestamped if has_time_alone else partial(_encoded, row_format)


def _rows_without_times(records: Sequence[FetchedRecord], prefix: bytes) -> BackendRows:
    return {prefix + record.key(): record.value() for record in records}


def _timestamped(records: Sequence[FetchedRecord], prefix: bytes) -> BackendRows:
    # Event time 0 travels as "no timestamp", which is -1, on internal topics.
    pack = _pack_timestamp
    value: Any
    return {
        prefix + record.key(): None
        if (value := record.value()) is None
        else pack(max(record.timestamp()[1], 0)) + value
        for record in records
    }


def _encoded(row_format: RowFormat, records: Sequence[FetchedRecord], prefix: bytes) -> BackendRows:
    new_row, value = row_format.encode, None
    return {
        prefix + record.key(): None
        if (value := record.value()) is None
        else new_row(value, max(record.timestamp()[1], 0), record.headers())
        for record in records
    }


class Load:
    """The replayed rows of one store that the backend does not hold yet."""

    def __init__(self, make_rows: RowMaker, rows: Rows) -> None:
        self._make_rows = make_rows
        self._prefix = rows.prefix
        self._expiring = rows if isinstance(rows, ExpiringRows) else None
        #: whether its rows may go into files: the store has no others than these
        self.was_empty = not rows.unapplied() and next(rows.scan(), None) is None
        self._is_first = self.was_empty
        self.rows: BackendRows = {}
        self.data_bytes = 0

    def add(self, records: Sequence[FetchedRecord]) -> None:
        """Take records over, in their order."""
        rows = self._make_rows(records, self._prefix)
        if self._expiring is not None:
            self._expiring.learn(
                (r.key(), r.value(), r.timestamp()[1], r.headers()) for r in records
            )
            rows = self._expiring.loaded(rows, self.rows, is_empty=self._is_first)
        self.data_bytes += sum(map(len, rows)) + sum(map(len, filter(None, rows.values())))
        self.rows.update(rows)

    def file_rows(self) -> BackendRows:
        """What a file has to hold: no tombstones where there is nothing to delete."""
        if self._is_first and None in self.rows.values():
            return {key: row for key, row in self.rows.items() if row is not None}
        return self.rows

    def written(self) -> None:
        """The backend holds the rows."""
        self.rows = {}
        self.data_bytes = 0
        self._is_first = False


class Loads:
    """The loads of one task's stores."""

    def __init__(self) -> None:
        self._loads: dict[str, Load] = {}

    def add(self, spec: StoreSpec, rows: Rows, records: Sequence[FetchedRecord]) -> bool:
        """Take records over; False, and nothing done, for a store that has to see them itself."""
        load = self._loads.get(spec.name)
        if load is None:
            make_rows = row_maker(spec)
            if make_rows is None:
                return False
            load = self._loads[spec.name] = Load(make_rows, rows)
        load.add(records)
        return True

    def rows_of(self, store: str) -> BackendRows:
        """What the backend does not hold yet of a store."""
        load = self._loads.get(store)
        return {} if load is None else load.rows

    def written(self, store: str) -> None:
        """The backend holds the rows of a store."""
        if store in self._loads:
            self._loads[store].written()

    def end(self) -> list[str]:
        """The replay is over, its rows are written; returns the stores that it was for."""
        assert not self.rows_total(), "apply() comes before the end of a replay"
        stores = list(self._loads)
        self._loads = {}
        return stores

    def rows_total(self) -> int:
        """Rows that wait."""
        return sum(len(load.rows) for load in self._loads.values()) if self._loads else 0

    def bytes_total(self) -> int:
        """Keys and values that wait, each as often as it came."""
        return sum(load.data_bytes for load in self._loads.values()) if self._loads else 0

    def ingest(
        self,
        backend: StoreBackend,
        stores: Iterable[str],
        mark: Callable[[list[str]], dict[bytes, bytes]],
    ) -> int:
        """Steps 1 and 2 for large loads of ``stores``; ``mark`` makes the row that names them.

        Returns the number of rows. The caller takes step 3.
        """
        rows_min = backend.ingest_rows_min
        if rows_min is None:
            return 0
        loads = {name: self._loads[name] for name in stores if name in self._loads}
        large = {
            name: load
            for name, load in loads.items()
            if load.was_empty and len(load.rows) >= rows_min
        }
        if not large:
            return 0
        rows: BackendRows = {}
        for load in large.values():
            rows = rows | load.file_rows() if rows else load.file_rows()
        backend.ingest(rows, mark(list(large)))
        for load in large.values():
            load.written()
        return len(rows)
