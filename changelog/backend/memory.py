"""The in-memory backend: the reference implementation, and the medium of in-memory stores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from logstate.changelog.backend.backend import KeyRange
from logstate.changelog.backend.ordered import OrderedMap
from logstate.contracts.errors import StoreUnavailableError


class MemoryBackend:
    """Rows in a dict with an ordered index. Nothing survives ``close``."""

    ingest_rows_min: int | None = None

    def __init__(self) -> None:
        self._rows: OrderedMap[bytes] = OrderedMap()

    def get(self, key: bytes) -> bytes | None:
        return self._rows.get(key)

    def get_many(self, keys: list[bytes]) -> list[bytes | None]:
        return list(map(self._rows.get, keys))

    def scan(
        self, lower: bytes, upper: bytes, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        return self._rows.pairs_between(lower, upper, reverse=reverse)

    def write(self, rows: Mapping[bytes, bytes | None], ranges: Sequence[KeyRange] = ()) -> None:
        put, remove = self._rows.put, self._rows.remove
        for key, value in rows.items():
            if value is None:
                remove(key)
            else:
                put(key, value)
        for lower, upper in ranges:
            for key in self._rows.keys_between(lower, upper):
                self._rows.remove(key)

    def ingest(self, rows: Mapping[bytes, bytes | None], mark: Mapping[bytes, bytes]) -> None:
        self.write({**mark, **rows})

    def snapshot(self) -> MemorySnapshot:
        return MemorySnapshot(self._rows)

    def close(self) -> None:
        self._rows.clear()


class MemorySnapshot:
    """A copy of the rows; taken rarely (once per apply), so copying is affordable."""

    def __init__(self, rows: OrderedMap[bytes]) -> None:
        self._copy: OrderedMap[bytes] | None = OrderedMap()
        self._copy.update(rows)

    def get(self, key: bytes) -> bytes | None:
        return self._rows().get(key)

    def get_many(self, keys: list[bytes]) -> list[bytes | None]:
        return list(map(self._rows().get, keys))

    def scan(
        self, lower: bytes, upper: bytes, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        return self._rows().pairs_between(lower, upper, reverse=reverse)

    def release(self) -> None:
        self._copy = None

    def _rows(self) -> OrderedMap[bytes]:
        if self._copy is None:
            raise StoreUnavailableError(
                "The store was closed while it was being read: its partition moved or the"
                " application is closing. Look up the store's owner and repeat the query."
            )
        return self._copy
