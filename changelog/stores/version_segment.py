"""The versions of one key that ended within one segment of a versioned store.

A segment row covers the time from the oldest version's start (``least_ms``) to the newest version's
end (``next_ms``) without a gap: a version is (valid from, value), a value of None a deletion, and
each version ends where the next newer one starts. A row may also be *degenerate*: one deletion with
``next_ms == least_ms``, when a key was deleted that had no version in the segment.

Bytes, all integers big-endian: 8 bytes next, 8 bytes least, then newest first per version 8 bytes
valid from, 4 bytes length (-1 = deleted), value. So a newer version goes in front without the row
being taken apart.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

_HEADER = struct.Struct(">qq")
_VERSION = struct.Struct(">qi")


class FoundVersion(NamedTuple):
    """A version and its place in the row."""

    position: int
    valid_from: int
    valid_to: int
    value: bytes | None


class VersionSegment:
    """A row taken apart, to be changed and packed again. Versions are newest first."""

    __slots__ = ("next_ms", "versions")

    def __init__(self, next_ms: int, versions: list[tuple[int, bytes | None]]) -> None:
        self.next_ms = next_ms
        self.versions = versions

    @classmethod
    def of(cls, row: bytes) -> VersionSegment:
        """The inverse of :meth:`pack`."""
        next_ms, _ = _HEADER.unpack_from(row)
        versions: list[tuple[int, bytes | None]] = []
        offset = _HEADER.size
        while offset < len(row):
            valid_from, length = _VERSION.unpack_from(row, offset)
            offset += _VERSION.size
            versions.append((valid_from, None if length < 0 else row[offset : offset + length]))
            offset += max(length, 0)
        return cls(next_ms, versions)

    def pack(self) -> bytes:
        """The row."""
        parts = [_HEADER.pack(self.next_ms, self.least_ms)]
        for valid_from, value in self.versions:
            parts.append(_VERSION.pack(valid_from, -1 if value is None else len(value)))
            if value is not None:
                parts.append(value)
        return b"".join(parts)

    @property
    def least_ms(self) -> int:
        """When the oldest version starts."""
        return self.versions[-1][0]

    @property
    def is_degenerate(self) -> bool:
        """Holds one deletion that lasts no time."""
        return self.next_ms == self.least_ms

    def find(self, time: int) -> FoundVersion:
        """Return the version valid at ``time``, which is in ``[least_ms, next_ms)``."""
        valid_to = self.next_ms
        for index, (valid_from, value) in enumerate(self.versions):
            if valid_from <= time:
                return FoundVersion(index, valid_from, valid_to, value)
            valid_to = valid_from
        raise AssertionError(f"{time} is before the segment's first version at {self.least_ms}")

    def insert_oldest(self, valid_from: int, value: bytes | None) -> None:
        """Add a version before all others; it ends where they start."""
        if self.is_degenerate:
            self.versions.clear()
        self.versions.append((valid_from, value))

    def insert_after(self, found: FoundVersion, valid_from: int, value: bytes | None) -> None:
        """Split ``found``: from ``valid_from`` on it is ``value``."""
        self.versions.insert(found.position, (valid_from, value))

    def replace(self, found: FoundVersion, valid_from: int, value: bytes | None) -> None:
        """Put another version in the place of ``found``."""
        self.versions[found.position] = (valid_from, value)


def covered_time(row: bytes) -> tuple[int, int]:
    """(next, least) of a row: the versions in it are valid from least until next."""
    return _HEADER.unpack_from(row)


def with_newest(row: bytes | None, valid_from: int, valid_to: int, value: bytes | None) -> bytes:
    """The row with a version behind all others; a gap before it becomes a deletion."""
    version = _VERSION.pack(valid_from, -1 if value is None else len(value)) + (value or b"")
    if row is None:
        return _HEADER.pack(valid_to, valid_from) + version
    next_ms, least_ms = _HEADER.unpack_from(row)
    older = row[_HEADER.size :]
    if next_ms == least_ms:  # degenerate: its deletion fills the gap, or goes where there is none
        if next_ms == valid_from:
            least_ms, older = valid_from, b""
    elif next_ms < valid_from:
        older = _VERSION.pack(next_ms, -1) + older
    return _HEADER.pack(valid_to, least_ms) + version + older
