"""The types of stores for static type checkers, and declarations that carry them.

``key_value_store("totals", str, int)`` returns ``StoreDeclaration[KeyValueStore[str, int]]``, so
``context.store(totals)`` is a ``KeyValueStore[str, int]``. The classes are protocols: a store has
the methods of its kind, and nothing is checked at run time. What the methods do is described where
the stores are declared (:mod:`logstate.topology.processor.processor_stores`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from logstate.contracts.records import Headers, Windowed
from logstate.contracts.stores import Entries, StoreSpec, VersionedRecord

K = TypeVar("K")
K_contra = TypeVar("K_contra", contravariant=True)
V = TypeVar("V")
S = TypeVar("S")


@dataclass(frozen=True)
class StoreDeclaration(StoreSpec, Generic[S]):
    """The specification of a store of type ``S``, for ``stores=`` and ``context.store()``.

    >>> from logstate import key_value_store
    >>> key_value_store("totals", str, int).name
    'totals'
    """


def name_of(store: str | StoreSpec) -> str:
    """Return the name of a store that is given by its name or its declaration."""
    return store if isinstance(store, str) else store.name


class KeyValueStore(Protocol[K, V]):
    """A value per key; a timestamped store has ``ValueAndTimestamp`` as V.

    ``put(key, None)`` deletes. Bounds of ``range`` are inclusive; None is open.
    """

    def get(self, key: K) -> V | None: ...
    def put(self, key: K, value: V | None) -> None: ...
    def put_if_absent(self, key: K, value: V) -> V | None: ...
    def put_all(self, entries: Entries[K, V]) -> None: ...
    def delete(self, key: K) -> V | None: ...
    def range(self, lower: K | None = None, upper: K | None = None) -> Iterator[tuple[K, V]]: ...
    def reverse_range(
        self, lower: K | None = None, upper: K | None = None
    ) -> Iterator[tuple[K, V]]: ...
    def all(self) -> Iterator[tuple[K, V]]: ...
    def reverse_all(self) -> Iterator[tuple[K, V]]: ...
    def prefix_scan(self, prefix: Any) -> Iterator[tuple[K, V]]: ...
    def approximate_num_entries(self) -> int: ...


class WindowStore(Protocol[K, V]):
    """A value per key and window start. Times are window starts in ms; both ends are inclusive.

    ``put(key, None, start)`` deletes. A put older than the retention is dropped and counted.
    """

    def put(self, key: K, value: V | None, start_ms: int) -> None: ...
    def fetch(self, key: K, start_ms: int) -> V | None: ...
    def fetch_range(
        self, key: K, from_ms: int, to_ms: int, *, reverse: bool = False
    ) -> Iterator[tuple[int, V]]: ...
    def fetch_all(
        self, from_ms: int, to_ms: int, *, reverse: bool = False
    ) -> Iterator[tuple[Windowed[K], V]]: ...
    def fetch_key_range(
        self, lower: K | None, upper: K | None, from_ms: int, to_ms: int, *, reverse: bool = False
    ) -> Iterator[tuple[Windowed[K], V]]: ...
    def all(self, *, reverse: bool = False) -> Iterator[tuple[Windowed[K], V]]: ...


class SessionStore(Protocol[K, V]):
    """A value per key and session. Times are in ms and inclusive."""

    def put(self, session: Windowed[K], value: V | None, headers: Headers = None) -> None: ...
    def remove(self, session: Windowed[K]) -> None: ...
    def fetch_session(self, key: K, start_ms: int, end_ms: int) -> V | None: ...
    def headers_of(self, key: K, start_ms: int, end_ms: int) -> Headers: ...
    def find_sessions(
        self, key: K, earliest_end_ms: int, latest_start_ms: int, *, reverse: bool = False
    ) -> Iterator[tuple[Windowed[K], V]]: ...
    def fetch(self, key: K, *, reverse: bool = False) -> Iterator[tuple[Windowed[K], V]]: ...
    def all(self) -> Iterator[tuple[Windowed[K], V]]: ...


class VersionedStore(Protocol[K_contra, V]):
    """Versions of a value per key. Timestamps are event times in ms."""

    def put(self, key: K_contra, value: V | None, timestamp: int) -> int: ...
    def get(self, key: K_contra, as_of: int | None = None) -> VersionedRecord[V] | None: ...
    def delete(self, key: K_contra, timestamp: int) -> VersionedRecord[V] | None: ...
    def versions(
        self, key: K_contra, from_ms: int | None = None, to_ms: int | None = None
    ) -> Iterator[VersionedRecord[V]]: ...
