"""A backend that counts what stores ask of it: the cost of a put that no busy machine changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from logstate.changelog.backend.backend import BackendSnapshot, KeyRange, StoreBackend


class CountingBackend:
    """Passes everything on, and counts calls and rows."""

    def __init__(self, backend: StoreBackend) -> None:
        self.backend = backend
        #: reads, scans, rows that scans returned, rows and ranges written
        self.work = 0
        self.ingest_rows_min = backend.ingest_rows_min

    def get(self, key: bytes) -> bytes | None:
        self.work += 1
        return self.backend.get(key)

    def get_many(self, keys: list[bytes]) -> list[bytes | None]:
        self.work += len(keys)
        return self.backend.get_many(keys)

    def scan(
        self, lower: bytes, upper: bytes, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        found = list(self.backend.scan(lower, upper, reverse=reverse))
        self.work += 1 + len(found)
        return iter(found)

    def write(self, rows: Mapping[bytes, bytes | None], ranges: Sequence[KeyRange] = ()) -> None:
        self.work += len(rows) + len(ranges)
        self.backend.write(rows, ranges)

    def ingest(self, rows: Mapping[bytes, bytes | None], mark: Mapping[bytes, bytes]) -> None:
        self.work += len(rows) + len(mark)
        self.backend.ingest(rows, mark)

    def snapshot(self) -> BackendSnapshot:
        return self.backend.snapshot()

    def close(self) -> None:
        self.backend.close()
