"""Rows with secondary indexes, which find rows by parts of their values.

The entries of all indexes of a store have a separate prefix in the backend::

    index name | 00 | indexed value | row key -> where the row key begins
    00 | index name                           -> how far the index is built; absent: it is built

Indexed values are bytes in the order of their values, so the rows of a value or of a range of
values are a range of the entries. Entries are not logged: a replay makes them again from the rows.

A write of a row and those of its entries are in one layer, so they are committed, rolled back,
discarded and applied together. The store computes the entries before it writes anything: a
function that raises leaves the row as it was.

Invariants:
1. of an index that is built, the entries are those of the rows, in every layer and in the backend;
2. while an index is built, that holds for the rows of the backend before the place it has reached,
   and every write of a row removes the entries of the old row and adds those of the new one.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, NoReturn

from logstate.changelog.backend.backend import end_of_prefix
from logstate.changelog.rows.expiring_rows import NO_TIME, ExpiringRows
from logstate.changelog.rows.layers import Layer
from logstate.changelog.rows.row_codec import RowCodec
from logstate.changelog.rows.rows import ReadableRows, RowCache, Rows
from logstate.contracts.errors import StoreUnavailableError
from logstate.contracts.generated_code import make_function
from logstate.contracts.indexes import IndexSpec, index_error, index_named
from logstate.contracts.stores import StoreSpec
from logstate.serdes.built_in import equal_as_bytes

_START = struct.Struct(">I")
#: types whose values have the same bytes exactly where they are equal; 0.0 equals -0.0
_EXACT: Final = frozenset({str, int, bool, bytes})


def entries_prefix(index: str) -> bytes:
    """Return what the entries of an index begin with."""
    return index.encode() + b"\x00"


def progress_key(index: str) -> bytes:
    """Return the key of the row that says how far an index is built."""
    return b"\x00" + index.encode()


class IndexedRows(Rows):
    """The rows of a task's store, with the entries of its indexes."""

    entries: Rows
    #: of the store
    writes: IndexWrites
    #: builds what is not built yet of the indexes, where the backend had rows without them
    build: Callable[[], None] | None = None

    def keep(self, entries: Rows) -> None:
        """Keep entries together with the rows from here on."""
        self.entries = entries

    def prepare(self) -> None:
        """Make the entries those of the rows, before the task reads them.

        An index that is being built is built completely: the results of a task must not depend on
        how far it is.
        """
        self.flush_mirrors()
        if self.build is not None:
            build, self.build = self.build, None
            build()

    def begin_journal(self) -> None:
        """Remember old values from here on."""
        super().begin_journal()
        self.entries.begin_journal()

    def end_journal(self, *, rollback: bool) -> None:
        """Stop recording; with ``rollback`` restore the old values."""
        super().end_journal(rollback=rollback)
        self.entries.end_journal(rollback=rollback)

    def freeze(self) -> Layer:
        """Close the current layer, with that of the entries."""
        layer = super().freeze()
        layer.entries = self.entries.freeze()
        return layer

    def committed(self, layer: Layer) -> None:
        """The layer's transaction committed."""
        super().committed(layer)
        assert layer.entries is not None
        self.entries.committed(layer.entries)

    def discard(self) -> None:
        """Forget everything that is not committed."""
        super().discard()
        self.entries.discard()

    def placed(self, layers: Iterable[Layer]) -> Iterator[tuple[bytes, Layer]]:
        """The rows of each layer, and its changes of the entries."""
        layers = list(layers)
        yield from super().placed(layers)
        for layer in layers:
            assert layer.entries is not None
            yield self.entries.prefix, layer.entries

    def applied(self) -> None:
        """The backend took the unapplied layers over."""
        super().applied()
        self.entries.applied()

    def cached_rows(self) -> int:
        """Rows and entries held in memory."""
        return super().cached_rows() + self.entries.cached_rows()


class IndexedExpiringRows(IndexedRows, ExpiringRows):
    """The rows of a task's store with indexes, which expire: their entries are deleted with them.

    A reader by an index reads each row that it finds, so rows that have expired are hidden from it.
    """

    def put_replayed(self, rows: Mapping[bytes, bytes | None]) -> None:
        """Write rows of a replay, and their entries."""
        whole = {key: None if row is None else NO_TIME + row for key, row in rows.items()}
        self.writes.replay(self, whole)
        super().put_replayed(rows)

    def remove(self, keys: Iterable[bytes]) -> None:
        """Delete rows that have expired, and their entries."""
        removed = dict.fromkeys(keys)
        self.writes.replay(self, removed)
        super().remove(removed)


_PUT: Final = """\
def bind(read, put, encode_key, exact, {names}):
    def put_indexed(key, row):
        before = read(key)
        value = {new}
        {computed}
        if put(key, row) is False:
            return False
        {noted}
    return put_indexed
"""
_COMPUTED: Final = """\
try:
    was{i} = None if before is None else of{i}({old})
    now{i} = None if value is None else of{i}(value)
    changes{i} = now{i} is not was{i} and not (
        now{i} == was{i} and type(now{i}) is type(was{i}) and type(now{i}) in exact
    )
    if changes{i} and now{i} is not None{unsure}:
        encode{i}(now{i})
except Exception as error:
    raise_error{i}(key, error)"""
_NOTED: Final = """\
if changes{i}:
    place = {place}
    if place not in before{i}:
        before{i}[place] = was{i}
    after{i}[place] = now{i}"""
#: by the part of an ordered serde: indexed values for which no error is possible
_SURELY: Final = {
    "string": "type(now{i}) is str and now{i}.isascii()",
    "int64": "type(now{i}) is int and -0x8000000000000000 <= now{i} <= 0x7fffffffffffffff",
    "boolean": "type(now{i}) is bool",
    "bytes": "type(now{i}) is bytes",
}


class _Starts(dict[Any, "bytes | None"]):
    """What the entries of indexed values begin with; many rows have the same."""

    __slots__ = ("_keeps", "_one", "_prefix")

    def __init__(self, one: IndexSpec) -> None:
        super().__init__({None: None})
        self._one, self._prefix = one, entries_prefix(one.name)
        self._keeps = _part_of(one) in _SURELY

    def __missing__(self, value: Any) -> bytes:
        start = self._prefix + self._one.encode(value)
        if self._keeps:
            self[value] = start
        return start


def _part_of(one: IndexSpec) -> str:
    """Return the name of the only part of an index's type; empty for tuples."""
    described = one.describe()
    return str(described["parts"][0]) if described.get("is_single") else ""


class _Moves(NamedTuple):
    """The rows whose indexed value has changed since the entries were written last, of one index.

    By their keys, or by the bytes of these: the indexed values before and after.
    """

    one: IndexSpec
    before: dict[Any, Any]
    after: dict[Any, Any]


class IndexWrites(RowCache):
    """The writes of a store to its indexes.

    The indexed values of a row are computed when it is put, so that an error is that of the record
    that caused it. They are kept as objects until a commit or a read by an index needs the entries:
    a row that is put many times until then has its entries written once.
    """

    def __init__(self, spec: StoreSpec, codec: RowCodec, rows: IndexedRows) -> None:
        self._store, self._indexes = spec.name, spec.indexes
        self._codec = codec
        self._entries = rows.entries
        self._moves = [_Moves(one, {}, {}) for one in spec.indexes]
        #: whether keys are equal as objects exactly when their bytes are
        self._has_keys = equal_as_bytes(spec.key)
        rows.writes = self
        rows.mirror(self)

    def put_of(
        self,
        read: Callable[[Any], Any],
        put: Callable[[Any, Any], Any],
        *,
        has_times: bool,
    ) -> Callable[[Any, Any], Any]:
        """Return a put that also notes the entries. ``has_times``: rows are values with times."""
        names: dict[str, Any] = {}
        computed, noted = [], []
        for i, (one, before, after) in enumerate(self._moves):
            names |= {f"of{i}": one.of, f"encode{i}": one.encode}
            names |= {f"before{i}": before, f"after{i}": after}
            names[f"raise_error{i}"] = partial(self._raise, one, is_put=True)
            surely = _SURELY.get(_part_of(one))
            unsure = "" if surely is None else f" and not ({surely.format(i=i)})"
            old = "before[0]" if has_times else "before"
            computed.append(_COMPUTED.format(i=i, old=old, unsure=unsure))
            noted.append(_NOTED.format(i=i, place="key" if self._has_keys else "encode_key(key)"))
        source = _PUT.format(
            names=", ".join(names),
            new="None if row is None else row[0]" if has_times else "row",
            computed="\n".join(computed).replace("\n", "\n        "),
            noted="\n".join(noted).replace("\n", "\n        "),
        )
        bind = make_function("bind", source, "put with indexes")
        indexed: Callable[[Any, Any], Any] = bind(
            read, put, self._codec.encode_key, _EXACT, **names
        )
        return indexed

    def flush(self) -> None:
        """Write the entries of what has changed."""
        encode_key, pack = self._codec.encode_key if self._has_keys else bytes, _START.pack
        for one, before, after in self._moves:
            if not before:
                continue
            start_of = _Starts(one).__getitem__
            entries: dict[bytes, bytes | None] = {}
            for place, was in before.items():
                now = after[place]
                try:
                    removed, added = start_of(was), start_of(now)
                except Exception as error:  # noqa: BLE001  of a row that is from before the index
                    self._raise(one, place, error)
                if removed == added:
                    continue
                row_key = encode_key(place)
                if removed is not None:
                    entries[removed + row_key] = None
                if added is not None:
                    entries[added + row_key] = pack(len(added))
            self._entries.put_rows(entries)
            before.clear()
            after.clear()

    def forget(self) -> None:
        """Drop what has changed: the rows go back to an earlier state."""
        for _, before, after in self._moves:
            before.clear()
            after.clear()

    def replay(self, rows: Rows, replayed: Mapping[bytes, bytes | None]) -> None:
        """Write the entries of rows that a replay is about to put into ``rows``."""
        entries: dict[bytes, bytes | None] = {}
        for key, row in replayed.items():
            old = rows.peek(key)
            for one in self._indexes:
                if old is not None and (entry := self._entry(one, key, old)) is not None:
                    entries[entry[0]] = None
            for one in self._indexes:
                if row is not None and (entry := self._entry(one, key, row)) is not None:
                    entries[entry[0]] = entry[1]
        self._entries.put_rows(entries)

    def entries_of(
        self, index: str, rows: Iterable[tuple[bytes, bytes]]
    ) -> dict[bytes, bytes | None]:
        """Return the entries of one index for rows of the backend, by their keys there."""
        one = index_named(self._store, self._indexes, index)
        prefix = self._entries.prefix
        found = (self._entry(one, key, row) for key, row in rows)
        return {prefix + entry[0]: entry[1] for entry in found if entry is not None}

    def _entry(self, one: IndexSpec, key: bytes, row: bytes) -> tuple[bytes, bytes] | None:
        codec = self._codec
        value = codec.decode_value(codec.row_format.value_of(row))
        try:
            indexed = one.of(value)
            if indexed is None:
                return None
            start = entries_prefix(one.name) + one.encode(indexed)
        except Exception as error:  # noqa: BLE001  the user's function raises anything
            self._raise(one, codec.decode_key(key), error)
        return start + key, _START.pack(len(start))

    def _raise(
        self, one: IndexSpec, key: Any, error: Exception, *, is_put: bool = False
    ) -> NoReturn:
        raise index_error(self._store, one, key, error, is_put=is_put) from error


class IndexReads:
    """The reads of a store's indexes, over its entries."""

    def __init__(
        self,
        store: str,
        indexes: Sequence[IndexSpec],
        entries: ReadableRows | None,
        prepare: Callable[[], None] = lambda: None,
    ) -> None:
        """``prepare`` is called before each read: it makes the entries those of the rows."""
        self._store, self._indexes = store, indexes
        self._entries = entries
        self._prepare = prepare

    def keys_of(self, index: str, value: Any) -> Iterator[bytes]:
        """Keys of the rows with an indexed value, in their order."""
        one = index_named(self._store, self._indexes, index)
        first = entries_prefix(one.name) + one.bound(value)
        return self._keys(one, first, end_of_prefix(first), reverse=False)

    def keys_between(self, index: str, lower: Any, upper: Any, *, reverse: bool) -> Iterator[bytes]:
        """Keys of the rows from one indexed value to another, in the order of the values."""
        one = index_named(self._store, self._indexes, index)
        prefix = entries_prefix(one.name)
        first = prefix if lower is None else prefix + one.bound(lower)
        last = prefix if upper is None else prefix + one.bound(upper)
        return self._keys(one, first, end_of_prefix(last), reverse=reverse)

    def _keys(self, one: IndexSpec, first: bytes, end: bytes, *, reverse: bool) -> Iterator[bytes]:
        assert self._entries is not None, "a store with indexes has entries"
        self._prepare()
        if self._entries.get(progress_key(one.name)) is not None:
            raise StoreUnavailableError(
                f"store {self._store!r}: index {one.name!r} is being built from the rows that were"
                " there before it was declared. Retry, or read all() and filter"
            )
        if first >= end:
            return iter(())
        entries = self._entries.scan(first, end, reverse=reverse)
        start_of = _START.unpack
        return (entry[start_of(start)[0] :] for entry, start in entries)
