"""Commits of rows that have no changelog: on the disk before the transaction of their commit ends.

The rows of a store without a changelog are in one directory only. They must be those of the commit
whose offsets the task continues with, whatever dies when. How it works:

1. before the transaction ends, the rows of the commit are written next to the stores, as one row
   (:class:`PreparedRows`) with the number of the commit and the member that makes it;
2. the cut that the transaction commits has the same number, and names the member;
3. after the commit the rows are applied, and the prepared row is deleted in the same write.

A process that dies between 1 and 3 leaves a prepared row: at the next start it counts if the
committed cut has its number and member, and never otherwise. Where neither the applied nor the
prepared rows are those of the cut, they are lost, or of another time.

Invariant: a prepared row that was committed is applied before the next one is written.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from logstate.changelog.backend.backend import KeyRange, StoreBackend
from logstate.changelog.rows.layers import Layer
from logstate.changelog.rows.rows import Rows
from logstate.changelog.stored_meta import StoredMeta

PREPARED_KEY = b"\x00prepared"


class PreparedRows(msgspec.Struct):
    """The rows of one commit, of all stores without a changelog."""

    #: store -> number of the commit
    numbers: dict[str, int]
    #: member id of the writer
    writer: str
    #: keys with the prefixes of their stores
    rows: dict[bytes, bytes | None]
    ranges: list[tuple[bytes, bytes]]


class LocalCommits:
    """The commits of a task's persistent stores without a changelog, by their names."""

    def __init__(self, meta: StoredMeta, backend: StoreBackend, rows: Mapping[str, Rows]) -> None:
        self._meta = meta
        self._backend = backend
        self._rows = rows
        self._writer = ""
        #: a prepared row is on the disk, and committed
        self.is_waiting = False

    @property
    def stores(self) -> frozenset[str]:
        """Their names."""
        return frozenset(self._rows)

    def next_numbers(self) -> dict[str, int]:
        """Store to the number of the commit that is being made."""
        return {name: self._meta.local_rows.get(name, 0) + 1 for name in self._rows}

    def prepare(self, numbers: Mapping[str, int], layers: Mapping[str, Layer], writer: str) -> None:
        """Write the rows of a commit whose transaction is about to end."""
        assert not self.is_waiting, "the rows of the last commit would be written over"
        rows: dict[bytes, bytes | None] = {}
        ranges: list[KeyRange] = []
        for name, of_store in self._rows.items():
            for prefix, layer in of_store.placed([layers[name]]):
                rows.update((prefix + key, value) for key, value in layer.rows.items())
                ranges += [(prefix + lower, prefix + upper) for lower, upper in layer.ranges]
        prepared = PreparedRows(dict(numbers), writer, rows, ranges)
        self._writer = writer
        self._backend.write({PREPARED_KEY: msgspec.msgpack.encode(prepared)})

    def committed(self, numbers: Mapping[str, int]) -> None:
        """The transaction has ended; the rows wait to be applied."""
        if numbers:
            self._meta.local_rows.update(numbers)
            self._meta.local_writer = self._writer
            self.is_waiting = True

    def applied_with(self) -> dict[bytes, bytes | None]:
        """Return the additional content of the write that applies the rows."""
        if not self.is_waiting:
            return {}
        self.is_waiting = False
        return {PREPARED_KEY: None}

    def lost(self, numbers: Mapping[str, int], writer: str) -> dict[str, int]:
        """Of the stores that a committed cut names, those whose rows are not of that commit.

        Rows that were prepared for this very commit are taken over first.
        """
        meta = self._meta
        wanted = {store: number for store, number in numbers.items() if store in self._rows}
        is_other = meta.local_writer != writer
        lost = {s: n for s, n in wanted.items() if is_other or meta.local_rows.get(s) != n}
        if not lost:
            return {}
        raw = self._backend.get(PREPARED_KEY)
        if raw is None:
            return lost
        prepared = msgspec.msgpack.decode(raw, type=PreparedRows)
        if prepared.writer != writer or not lost.items() <= prepared.numbers.items():
            return lost
        self._writer = writer
        self.committed(prepared.numbers)
        self._backend.write({**prepared.rows, **meta.row(), **self.applied_with()}, prepared.ranges)
        for rows in self._rows.values():
            rows.drop_cache()
        return {}
