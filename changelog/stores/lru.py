"""The LRU store: a key-value store in memory that forgets the key that was used least recently.

How it works. An entry's row is ``00 | key -> sequence | value``, of a table's store with the
timestamp before the value; an index row
``01 | sequence -> key`` has the sequence of its last use, by ``put`` or ``get``. The first index
row is the entry to forget. Recency is in rows like everything else, so an abort or a skipped record
takes it back with the values. The changelog holds keys and values only, in the order of the last
puts; forgetting an entry logs a tombstone.

Invariants:
1. an entry has exactly one index row, that of its current sequence;
2. sequences grow; no index row is below ``_first``;
3. there are at most ``capacity`` entries, but for a restore: amid a commit's records the log may
   have more, and each removed entry has its tombstone. The next use removes remaining surplus
   before it reads: if the capacity was lowered, or if Kafka Streams wrote the log, which has no
   tombstones for removed entries. There, too, the entries put last are kept.

A restored store has the order of the changelog: of the last puts, because gets are not logged. So
after a crash another entry may be the next to go, as in Kafka Streams.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

from logstate.changelog.rows.row_codec import TIMESTAMPED_ROWS
from logstate.changelog.rows.row_writer import row_encoder
from logstate.changelog.rows.rows import ReadableRows, RowCache, Rows
from logstate.changelog.rows.serialization_errors import key_serialization_error
from logstate.changelog.rows.writes import ChangelogWrites, LoggedFields, LoggedWrite
from logstate.changelog.stores.key_value import KeyValueReads, TaskKeyValueStore
from logstate.changelog.stores.store_kind import StoreKind
from logstate.contracts.processing import TaskContext
from logstate.contracts.stores import StoreSpec, ValueAndTimestamp

K = TypeVar("K")
V = TypeVar("V")

_ENTRY = b"\x00"
_INDEX = b"\x01"
_END = b"\x02"
#: how many sequences are looked through at once for the oldest entry
_STRIDE = 64


class EntryRows:
    """The entries of an LRU store as plain rows, key to value; reads do not count as use."""

    def __init__(self, rows: ReadableRows) -> None:
        self._rows = rows

    def get(self, key: bytes) -> bytes | None:
        """The value, or None."""
        row = self._rows.get(_ENTRY + key)
        return None if row is None else row[8:]

    def scan(
        self, lower: bytes = b"", upper: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Entries of ``[lower, upper)`` in byte order of the keys."""
        end = _INDEX if upper is None else _ENTRY + upper
        rows = self._rows.scan(_ENTRY + lower, end, reverse=reverse)
        return ((key[1:], row[8:]) for key, row in rows)


class LruStore(TaskKeyValueStore[K, V], RowCache):
    """A key-value store of at most ``spec.capacity`` entries."""

    def __init__(
        self, spec: StoreSpec, rows: Rows, writes: ChangelogWrites, context: TaskContext
    ) -> None:
        assert spec.capacity is not None
        self._spec = spec
        self.capacity = spec.capacity
        self._all_rows = rows
        self._writes = writes
        self._context = context
        #: number of entries and next sequence; None: to be found out
        self._known: tuple[int, int] | None = None
        self._first = 0
        super().__init__(spec, EntryRows(rows), writes, context)  # type: ignore[arg-type]
        rows.mirror(self)
        self.get = self._use

    def checked(self, *_check: Any) -> dict[str, Callable[..., Any]]:
        """None: its methods are more than those of a plain store."""
        return {}

    def restore(self, records: Sequence[LoggedFields]) -> None:
        """Take changelog records over, in order, logging nothing."""
        new_row = self.codec.row_format.encode
        for key, value, timestamp, headers in records:
            row = None if value is None else new_row(value, timestamp or 0, headers)
            self._put_row(key, row, is_restored=True)

    def _use(self, key: K) -> V | None:
        raw = self.codec.raw_key(key)
        entries, sequence = self._evict_to()
        row = self._all_rows.get(_ENTRY + raw)
        if row is None:
            return None
        self._write_newest(raw, row[:8], row[8:], sequence)
        self._known = entries, sequence + 1
        return self.codec.decode_row(row[8:])  # type: ignore[no-any-return]

    def _bound_put(
        self,
        rows: Rows,  # noqa: ARG002  all rows, which have sequences, are written
        writes: ChangelogWrites,
        context: TaskContext,
        *_check: Any,
    ) -> Callable[[K, V | None], None]:
        encode_key, encode = self.codec.encode_key, row_encoder(self._spec, self.codec, context)
        name = self.name

        def put(key: K, value: V | None) -> None:
            try:
                row_key = encode_key(key)
            except Exception as error:  # noqa: BLE001  serdes raise anything
                raise key_serialization_error(name, key, error) from error.__cause__
            row, data, timestamp, headers = encode(value)
            self._put_row(row_key, row, is_restored=False)
            write = LoggedWrite(row_key, data, timestamp, headers)
            writes.add(row_key, write, moves_to_end=True)

        return put

    def _put_row(self, key: bytes, value: bytes | None, *, is_restored: bool) -> None:
        """A restore forgets nothing that the log does not forget."""
        entries, sequence = self._counts() if is_restored else self._evict_to()
        row = self._all_rows.get(_ENTRY + key)
        if value is None:
            if row is not None:
                self._remove(key, row[:8])
                self._known = entries - 1, sequence
            return
        if row is None and not is_restored and entries == self.capacity:
            entries, _ = self._evict_to(entries - 1)
        self._write_newest(key, None if row is None else row[:8], value, sequence)
        self._known = entries + (row is None), sequence + 1

    def _evict_to(self, most: int | None = None) -> tuple[int, int]:
        """Number of entries and next sequence, once there are at most so many entries."""
        entries, sequence = self._counts()
        most = self.capacity if most is None else most
        while entries > most:
            key, its_sequence = self._oldest()
            self._remove(key, its_sequence)
            write = LoggedWrite(key, None, self._context.timestamp, None)
            self._writes.add(key, write, moves_to_end=True)
            entries -= 1
            self._known = entries, sequence
        return entries, sequence

    def _write_newest(self, key: bytes, old: bytes | None, value: bytes, sequence: int) -> None:
        """Write an entry as the one that was used last."""
        rows = self._all_rows
        if old is not None:
            rows.put(_INDEX + old, None)
        new = sequence.to_bytes(8, "big")
        rows.put(_ENTRY + key, new + value)
        rows.put(_INDEX + new, key)

    def _remove(self, key: bytes, sequence: bytes) -> None:
        self._all_rows.put(_ENTRY + key, None)
        self._all_rows.put(_INDEX + sequence, None)

    def _oldest(self) -> tuple[bytes, bytes]:
        """Key and sequence of the entry to forget; there is one."""
        while True:
            lower = _INDEX + self._first.to_bytes(8, "big")
            upper = _INDEX + (self._first + _STRIDE).to_bytes(8, "big")
            for index, key in self._all_rows.scan(lower, upper):
                self._first = int.from_bytes(index[1:], "big")
                return key, index[1:]
            self._first += _STRIDE

    def _counts(self) -> tuple[int, int]:
        if self._known is None:
            sequences = [index for index, _ in self._all_rows.scan(_INDEX, _END)]
            following = int.from_bytes(sequences[-1][1:], "big") + 1 if sequences else 0
            self._first = int.from_bytes(sequences[0][1:], "big") if sequences else 0
            self._known = len(sequences), following
        return self._known

    def forget(self) -> None:
        """The rows go back to an earlier state."""
        self._known = None


class TimestampedLruStore(LruStore[K, ValueAndTimestamp[V]]):
    """The LRU store of a table: its values are :class:`ValueAndTimestamp`, and logged without."""

    row_formats = TIMESTAMPED_ROWS

    def latest_bytes(self, key: K) -> bytes | None:
        """The bytes of a row's value, as they are logged; no use of the row."""
        row = self._reads.get(self.codec.encode_key(key))
        return None if row is None else self.codec.row_format.value_of(row)


KEY_VALUE_LRU: Final = StoreKind(
    "key_value_lru", LruStore,
    lambda _spec, codec, rows, _cell: KeyValueReads(codec, EntryRows(rows)),
)  # fmt: skip
TIMESTAMPED_KEY_VALUE_LRU: Final = replace(
    KEY_VALUE_LRU, name="timestamped_key_value_lru", store=TimestampedLruStore
)
