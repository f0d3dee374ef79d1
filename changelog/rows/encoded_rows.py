"""Rows of a store kept with their bytes: encoded at every put, decoded at most once per put.

For immutable values that are no plain scalars, such as frozen structs. They are encoded when they
are put, because an error must name the record that caused it; everything else that a write costs
(the row, the changelog record) waits for the commit, and happens once however often the key was
written. A read gives what the bytes decode to, never the object that was put: nobody has checked
its fields, and an int in the place of a float comes back as a float.

The rows say when to flush and to forget.

Invariants:
1. an entry's ``row``, where it is not None, is what its bytes decode to;
2. a pending entry is newer than the rows; every other one equals them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from logstate.changelog.rows.row_codec import RowCodec
from logstate.changelog.rows.rows import RowMirror
from logstate.contracts.stores import ValueAndTimestamp

#: takes (serialised key, value's bytes, timestamp): stores the row and logs it
WriteEncoded: TypeAlias = "Callable[[bytes, bytes, int], None]"


class _Entry:
    """One row."""

    __slots__ = ("data", "is_pending", "row", "row_key", "timestamp")

    def __init__(self, row_key: bytes | None, row: ValueAndTimestamp[Any] | None) -> None:
        self.row_key = row_key
        self.row = row
        self.data = b""
        self.timestamp = -1
        self.is_pending = False


class EncodedRows(RowMirror):
    """The rows of one timestamped store that were read or written lately."""

    def __init__(self, codec: RowCodec, write: WriteEncoded) -> None:
        self._codec = codec
        self._write = write
        #: held by the closures below: never replaced by another dict or list
        self._entries: dict[Any, _Entry] = {}
        self._pending: list[_Entry] = []

    def bound_get(self, load: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """``get(key)``; ``load`` reads a row that is not here."""
        entries, entry_of = self._entries, self._entries.get
        decode_value, new = self._codec.decode_value, tuple.__new__

        def get(key: Any) -> Any:
            entry = entry_of(key)
            if entry is not None:
                row = entry.row
                if row is None:
                    fields = (decode_value(entry.data), entry.timestamp, None)
                    row = entry.row = new(ValueAndTimestamp, fields)
                return row
            row = load(key)
            if row is not None:
                entries[key] = _Entry(None, row)
            return row

        return get

    def bound_put(
        self, direct: Callable[[Any, Any], None], *, waits: bool
    ) -> Callable[[Any, Any], None]:
        """``put(key, row)``; ``direct`` writes at once: deletions, headers, or all."""
        entries, entry_of, pending = self._entries, self._entries.get, self._pending
        encode_key, encode_value = self._codec.encode_key, self._codec.encode_value

        def put(key: Any, row: ValueAndTimestamp[Any] | None) -> None:
            if row is None or row[0] is None or row[2] is not None or not waits:
                entry = entries.pop(key, None)
                if entry is not None:
                    entry.is_pending = False
                direct(key, row)
                return
            data = encode_value(row[0])
            entry = entry_of(key)
            if entry is None:
                entry = entries[key] = _Entry(None, None)
            entry.row = None
            entry.data = data
            entry.timestamp = row[1]
            if not entry.is_pending:
                if entry.row_key is None:
                    entry.row_key = encode_key(key)
                entry.is_pending = True
                pending.append(entry)

        return put

    # ------------------------------------------------------------------ asked by the rows

    def __len__(self) -> int:
        return len(self._entries)

    def flush(self) -> None:
        """Store and log what is pending."""
        write = self._write
        for entry in self._pending:
            if entry.is_pending:
                assert entry.row_key is not None
                write(entry.row_key, entry.data, entry.timestamp)
                entry.is_pending = False
        self._pending.clear()

    def expire(self) -> None:
        """Store what is pending and let go of the rest, which may be expired."""
        self.flush()
        self._entries.clear()

    def forget(self) -> None:
        """Drop everything, what is pending too: it was never committed."""
        self._pending.clear()
        self._entries.clear()

    def forget_known(self) -> None:
        """Drop what the rows hold too."""
        pending = {key: entry for key, entry in self._entries.items() if entry.is_pending}
        self._entries.clear()
        self._entries.update(pending)
