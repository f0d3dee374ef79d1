"""The reads of an application's store, local or remote: by key, and over partitions.

Which of them a store has depends on its kind, see :mod:`logstate.contracts.stores`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any


class StoreReads(ABC):
    """``get``, ``fetch``, ``fetch_range``, ``fetch_session``, ``find_sessions`` and ``versions``
    take a key and read its partition; the others scan the partitions in order.

    A key's partition is that of murmur2, as Kafka's own clients and this library place keys. Other
    producers of the topology's input may place them otherwise: a key that is not found is looked up
    in the other partitions. ``partition=`` avoids that. Raises StoreUnavailableError if a partition
    that may have the row cannot be read.
    """

    @abstractmethod
    def _of_key(self, read: str, partition: int | None, key: Any, *arguments: Any) -> Any:
        """Read one partition; None: that of the key."""

    @abstractmethod
    def _over_all(self, read: str, *arguments: Any) -> Iterator[Any]:
        """Yield the rows of all partitions in order."""

    @abstractmethod
    def _of_each(self, read: str) -> Iterator[Any]:
        """Yield the result of each partition in order."""

    # ------------------------------------------------------------------ by key

    def get(self, key: Any, *arguments: Any, partition: int | None = None) -> Any:
        """Return the value of a key, or None. A versioned store takes ``as_of`` as 2nd argument."""
        return self._of_key("get", partition, key, *arguments)

    def fetch(self, key: Any, *arguments: Any, partition: int | None = None) -> Any:
        """Window store: return the value at a start. Session store: yield the key's sessions."""
        return self._of_key("fetch", partition, key, *arguments)

    def fetch_range(
        self, key: Any, from_ms: int, to_ms: int, *, partition: int | None = None
    ) -> Iterator[Any]:
        """Yield windows of a key by start, both ends inclusive."""
        found: Iterator[Any] = self._of_key("fetch_range", partition, key, from_ms, to_ms)
        return found

    def fetch_session(
        self, key: Any, start_ms: int, end_ms: int, *, partition: int | None = None
    ) -> Any:
        """Return one session, or None."""
        return self._of_key("fetch_session", partition, key, start_ms, end_ms)

    def find_sessions(
        self, key: Any, earliest_end_ms: int, latest_start_ms: int, *, partition: int | None = None
    ) -> Iterator[Any]:
        """Yield sessions of a key that overlap a span."""
        span = earliest_end_ms, latest_start_ms
        found: Iterator[Any] = self._of_key("find_sessions", partition, key, *span)
        return found

    def versions(
        self,
        key: Any,
        from_ms: int | None = None,
        to_ms: int | None = None,
        *,
        partition: int | None = None,
    ) -> Iterator[Any]:
        """Yield the versions of a key that were valid within the range, oldest first."""
        found: Iterator[Any] = self._of_key("versions", partition, key, from_ms, to_ms)
        return found

    # ------------------------------------------------------------------ over partitions

    def range(self, lower: Any = None, upper: Any = None) -> Iterator[tuple[Any, Any]]:
        """Yield rows between two keys, both inclusive, partition by partition."""
        return self._over_all("range", lower, upper)

    def reverse_range(self, lower: Any = None, upper: Any = None) -> Iterator[tuple[Any, Any]]:
        """Yield the same, descending within each partition."""
        return self._over_all("reverse_range", lower, upper)

    def all(self) -> Iterator[tuple[Any, Any]]:
        """Yield every row."""
        return self._over_all("all")

    def reverse_all(self) -> Iterator[tuple[Any, Any]]:
        """Yield every row, descending within each partition."""
        return self._over_all("reverse_all")

    def approximate_num_entries(self) -> int:
        """Return the number of rows over the partitions. It is exact, and costs a scan of them."""
        return sum(self._of_each("approximate_num_entries"))

    def fetch_all(self, from_ms: int, to_ms: int) -> Iterator[tuple[Any, Any]]:
        """Yield windows of every key by start, both ends inclusive."""
        return self._over_all("fetch_all", from_ms, to_ms)

    def fetch_key_range(
        self, lower: Any, upper: Any, from_ms: int, to_ms: int
    ) -> Iterator[tuple[Any, Any]]:
        """Yield windows of the keys between two, both inclusive, None = open."""
        return self._over_all("fetch_key_range", lower, upper, from_ms, to_ms)

    def find_sessions_of_key_range(
        self, lower: Any, upper: Any, earliest_end_ms: int, latest_start_ms: int
    ) -> Iterator[tuple[Any, Any]]:
        """Yield sessions that overlap a span, of the keys between two, inclusive, None = open."""
        span = earliest_end_ms, latest_start_ms
        return self._over_all("find_sessions_of_key_range", lower, upper, *span)
