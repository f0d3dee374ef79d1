"""The reads of an application's store, wherever they are answered: by key, and over partitions.

Which of them a store has depends on its kind, see :mod:`logstate.contracts.stores`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any


class StoreReads(ABC):
    """``get``, ``fetch``, ``fetch_range``, ``fetch_session``, ``find_sessions`` and ``versions``
    take a key and are answered by its partition; the others go through partitions in order.

    A key's partition is that of murmur2, as Kafka's own clients and this library place keys. Where
    others write the topology's input they may place them otherwise: what is not found is looked for
    in the other partitions. ``partition=`` spares that. Raises StoreUnavailableError where a
    partition cannot be read that may have the row.
    """

    @abstractmethod
    def _of_key(self, read: str, partition: int | None, key: Any, *arguments: Any) -> Any:
        """What one partition answers; None: that of the key."""

    @abstractmethod
    def _over_all(self, read: str, *arguments: Any) -> Iterator[Any]:
        """Rows of partition after partition."""

    @abstractmethod
    def _of_each(self, read: str) -> Iterator[Any]:
        """What each partition answers, one after the other."""

    # ------------------------------------------------------------------ by key

    def get(self, key: Any, *arguments: Any, partition: int | None = None) -> Any:
        """The value of a key, or None. A versioned store takes ``as_of`` as second argument."""
        return self._of_key("get", partition, key, *arguments)

    def fetch(self, key: Any, *arguments: Any, partition: int | None = None) -> Any:
        """Window store: the value at a window start. Session store: all sessions of the key."""
        return self._of_key("fetch", partition, key, *arguments)

    def fetch_range(
        self, key: Any, from_ms: int, to_ms: int, *, partition: int | None = None
    ) -> Iterator[Any]:
        """Windows of a key by start, both ends inclusive."""
        found: Iterator[Any] = self._of_key("fetch_range", partition, key, from_ms, to_ms)
        return found

    def fetch_session(
        self, key: Any, start_ms: int, end_ms: int, *, partition: int | None = None
    ) -> Any:
        """One session, or None."""
        return self._of_key("fetch_session", partition, key, start_ms, end_ms)

    def find_sessions(
        self, key: Any, earliest_end_ms: int, latest_start_ms: int, *, partition: int | None = None
    ) -> Iterator[Any]:
        """Sessions of a key that overlap a span."""
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
        """The versions of a key that were valid at some time of the range, oldest first."""
        found: Iterator[Any] = self._of_key("versions", partition, key, from_ms, to_ms)
        return found

    # ------------------------------------------------------------------ over partitions

    def range(self, lower: Any = None, upper: Any = None) -> Iterator[tuple[Any, Any]]:
        """Rows between two keys, both inclusive, partition by partition."""
        return self._over_all("range", lower, upper)

    def reverse_range(self, lower: Any = None, upper: Any = None) -> Iterator[tuple[Any, Any]]:
        """The same, descending within each partition."""
        return self._over_all("reverse_range", lower, upper)

    def all(self) -> Iterator[tuple[Any, Any]]:
        """Every row."""
        return self._over_all("all")

    def reverse_all(self) -> Iterator[tuple[Any, Any]]:
        """Every row, descending within each partition."""
        return self._over_all("reverse_all")

    def approximate_num_entries(self) -> int:
        """How many rows there are, over the partitions. It is exact, and costs a scan of them."""
        return sum(self._of_each("approximate_num_entries"))

    def fetch_all(self, from_ms: int, to_ms: int) -> Iterator[tuple[Any, Any]]:
        """Windows of every key by start, both ends inclusive."""
        return self._over_all("fetch_all", from_ms, to_ms)

    def fetch_key_range(
        self, lower: Any, upper: Any, from_ms: int, to_ms: int
    ) -> Iterator[tuple[Any, Any]]:
        """Windows of the keys between two, both inclusive, None = open."""
        return self._over_all("fetch_key_range", lower, upper, from_ms, to_ms)

    def find_sessions_of_key_range(
        self, lower: Any, upper: Any, earliest_end_ms: int, latest_start_ms: int
    ) -> Iterator[tuple[Any, Any]]:
        """Sessions that overlap a span, of the keys between two, both inclusive, None = open."""
        span = earliest_end_ms, latest_start_ms
        return self._over_all("find_sessions_of_key_range", lower, upper, *span)
