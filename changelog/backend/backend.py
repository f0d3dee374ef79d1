"""The engine beneath the stores: ordered bytes, atomic writes, snapshots.

One backend holds all stores of one task on one medium, distinguished by key prefixes, so that rows
of all of them and the changelog positions they stand for change in ONE atomic write. Two
implementations: :mod:`logstate.changelog.backend.rocks` and
:mod:`logstate.changelog.backend.memory`; both pass the same conformance suite.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol, TypeAlias

KeyRange: TypeAlias = "tuple[bytes, bytes]"  # [lower, upper)


class BackendReader(Protocol):
    """Reads of committed, applied rows."""

    def get(self, key: bytes) -> bytes | None:
        """The row, or None. Raises StoreCorruptedError for a damaged block."""

    def get_many(self, keys: list[bytes]) -> list[bytes | None]:
        """Many rows in one call, in the order of ``keys``."""

    def scan(
        self, lower: bytes, upper: bytes, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Rows of ``[lower, upper)`` as of this call; raises instead of ending early."""


class BackendSnapshot(BackendReader, Protocol):
    """A fixed view for queries from other threads."""

    def release(self) -> None:
        """Give its resources back; reads afterwards raise StoreUnavailableError."""


class StoreBackend(BackendReader, Protocol):
    """A medium that holds rows."""

    #: from so many rows on :meth:`ingest` costs less than :meth:`write`; None where it never does
    ingest_rows_min: int | None

    def write(self, rows: Mapping[bytes, bytes | None], ranges: Sequence[KeyRange] = ()) -> None:
        """Put (None = delete) all rows, then delete the ranges; all or nothing.

        Survives a killed process once it returned, not a power cut: the changelog covers that.
        """

    def ingest(self, rows: Mapping[bytes, bytes | None], mark: Mapping[bytes, bytes]) -> None:
        """Write ``mark``, so that it survives a power cut, then take over ``rows`` as a whole.

        None deletes. What a crash leaves: neither, the mark, or both.
        """

    def snapshot(self) -> BackendSnapshot:
        """A view of the rows as they are now."""

    def close(self) -> None:
        """Release the medium; idempotent."""


def end_of_prefix(prefix: bytes) -> bytes:
    """The smallest key greater than every key with the prefix.

    >>> end_of_prefix(b"a"), end_of_prefix(b"a" + bytes([255]))
    (b'b', b'b')
    """
    stripped = prefix.rstrip(b"\xff")
    assert stripped, "a prefix of only 0xff bytes has no end"
    return stripped[:-1] + bytes([stripped[-1] + 1])
