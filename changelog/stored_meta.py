"""The metadata row of a task's stores: their numbers, positions and clocks.

One row of the backend, written together with the rows it describes, except the mark of large loads
(see :mod:`logstate.changelog.loading`).
"""

from __future__ import annotations

import msgspec

from logstate.changelog.backend.backend import KeyRange, StoreBackend, end_of_prefix

META_KEY = b"\x00meta"
_STORES = b"\x01"
_INDEXES = b"\x02"
_SECONDARY = b"\x03"


def prefix_of(number: int) -> bytes:
    """Return the prefix of the keys of a store's rows."""
    return _STORES + number.to_bytes(2, "big")


def index_prefix(prefix: bytes) -> bytes:
    """Return the prefix of the index of the times of a store's rows, of the prefix of these."""
    return _INDEXES + prefix[1:]


def secondary_prefix(prefix: bytes) -> bytes:
    """Return the prefix of the secondary indexes of a store, of the prefix of its rows."""
    return _SECONDARY + prefix[1:]


def ranges_of(number: int) -> list[KeyRange]:
    """Return the ranges of everything that is stored for a store."""
    rows = prefix_of(number)
    prefixes = (rows, index_prefix(rows), secondary_prefix(rows))
    return [(prefix, end_of_prefix(prefix)) for prefix in prefixes]


class StoredMeta(msgspec.Struct):
    """The metadata row in the backend, next to the stores' rows."""

    version: int = 1
    #: store name -> number used in its prefix; numbers are never reused
    numbers: dict[str, int] = {}
    #: changelog position (next offset) that the rows stand for, per store
    positions: dict[str, int] = {}
    #: the clock of the rows, per versioned store: a replay continues with it
    clocks: dict[str, int] = {}
    #: topic id of each store's changelog when the position was taken
    topic_ids: dict[str, str] = {}
    #: segment -> first offset, per windowed store (see segment_offsets)
    segment_offsets: dict[str, dict[int, int]] = {}
    #: where the changelog began when the rows were built from it, per store; 0 where not known
    begins: dict[str, int] = {}
    #: store without a changelog -> number of the commit that its rows stand for
    local_rows: dict[str, int] = {}
    #: member id of the process that made that commit
    local_writer: str = ""
    #: wall clock when the rows were last known to be at the end of their changelogs
    caught_up_at_ms: int = 0
    #: what the bytes of each store's rows depend on, as JSON (see store_fingerprint)
    fingerprints: dict[str, bytes] = {}
    #: stores whose rows may be newer than their positions: they are emptied when this is read
    loading: list[str] = []

    def number_of(self, store: str) -> int:
        """The number of a store; a store that is new gets the next."""
        numbers = self.numbers
        if store not in numbers:
            numbers[store] = max(numbers.values(), default=-1) + 1
        return numbers[store]

    def row(self) -> dict[bytes, bytes]:
        """Return the encoded row."""
        return {META_KEY: msgspec.msgpack.encode(self)}

    def mark(self, stores: list[str]) -> dict[bytes, bytes]:
        """The row that distrusts ``stores`` from here on, until :meth:`row` is written again."""
        return msgspec.structs.replace(self, loading=stores).row()


def read_meta(backend: StoreBackend) -> StoredMeta:
    """The row of a backend, or a new one. Empties the stores that were left half loaded."""
    raw = backend.get(META_KEY)
    if raw is None:
        return StoredMeta()
    meta = msgspec.msgpack.decode(raw, type=StoredMeta)
    if meta.loading:
        ranges = [one for store in meta.loading for one in ranges_of(meta.numbers[store])]
        for store in meta.loading:
            meta.positions.pop(store, None)
        meta.loading = []
        backend.write(meta.row(), ranges)
    return meta
