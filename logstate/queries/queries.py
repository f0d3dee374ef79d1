"""The stores of an application that can be read: ``app.store("spend").get("ada")``.

A query sees committed state only, all of one commit or nothing of it. It reads the partitions that
this instance owns; for a key whose partition is elsewhere, or is still being restored, it raises
StoreUnavailableError with the reason and the owner, instead of returning None.

The partition of a key is uncertain if other producers write the topology's input, because they may
place keys otherwise (librdkafka's default does), and if processors write other keys. A key that is
not found there is looked up in all local partitions. If some partitions are not local, the row may
exist elsewhere: the query raises StoreUnavailableError, unless the caller passes how keys were
placed. So None is never returned for a row that exists.

How it works: a store chooses the partitions, and sends one request per partition
(:mod:`logstate.queries.requests`) to the reader of the process that has it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from itertools import chain
from math import inf
from typing import Any, Generic, TypeVar, cast, overload

from logstate.contracts.errors import StoreAccessError, StoreUnavailableError
from logstate.contracts.partitioner import StorePlace, partition_of, place_of
from logstate.contracts.stores import check_arguments, checked_partition
from logstate.queries.requests import Answer, ReadRequest

#: keys that reads take
K = TypeVar("K")
#: keys of rows: the same, or ``Windowed`` ones
G = TypeVar("G")
#: rows
R = TypeVar("R")
#: what a read of one row returns: a row, or None
M = TypeVar("M")
_END = object()
#: reads that return 0 or False for a key without rows
_FALSE_IF_ABSENT = frozenset({"contains", "size"})


class StoreReads(ABC, Generic[K, G, R, M]):
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

    def get(self, key: K, *arguments: Any, partition: int | None = None) -> M:
        """Return the row of a key, or None. A versioned store takes ``as_of`` as 2nd argument.

        Of a list the 2nd argument is an index, of a map the map key.
        """
        found: M = self._of_key("get", partition, key, *arguments)
        return found

    @overload
    def fetch(self, key: K, *, partition: int | None = None) -> Iterator[tuple[G, R]]: ...
    @overload
    def fetch(
        self, key: K, start_ms: int, /, *arguments: Any, partition: int | None = None
    ) -> M: ...
    def fetch(self, key: K, *arguments: Any, partition: int | None = None) -> Any:
        """Window store: return the value at a start. Session store: yield the key's sessions."""
        return self._of_key("fetch", partition, key, *arguments)

    def fetch_range(
        self, key: K, from_ms: int, to_ms: int, *, partition: int | None = None
    ) -> Iterator[tuple[int, R]]:
        """Yield windows of a key by start, both ends inclusive."""
        found: Iterator[tuple[int, R]] = self._of_key("fetch_range", partition, key, from_ms, to_ms)
        return found

    def fetch_session(
        self, key: K, start_ms: int, end_ms: int, *, partition: int | None = None
    ) -> M:
        """Return one session, or None."""
        found: M = self._of_key("fetch_session", partition, key, start_ms, end_ms)
        return found

    def find_sessions(
        self, key: K, earliest_end_ms: int, latest_start_ms: int, *, partition: int | None = None
    ) -> Iterator[tuple[G, R]]:
        """Yield sessions of a key that overlap a span."""
        span = earliest_end_ms, latest_start_ms
        found: Iterator[tuple[G, R]] = self._of_key("find_sessions", partition, key, *span)
        return found

    def versions(
        self,
        key: K,
        from_ms: int | None = None,
        to_ms: int | None = None,
        *,
        partition: int | None = None,
    ) -> Iterator[R]:
        """Yield the versions of a key that were valid within the range, oldest first."""
        found: Iterator[R] = self._of_key("versions", partition, key, from_ms, to_ms)
        return found

    def items(
        self, key: K, lower: Any = None, upper: Any = None, *, partition: int | None = None
    ) -> Iterator[tuple[Any, R]]:
        """Yield positions and values of a list, or map keys and values of a map.

        The bounds are positions or map keys, both inclusive, None = open.
        """
        found: Iterator[tuple[Any, R]] = self._of_key("items", partition, key, lower, upper)
        return found

    def values(
        self, key: K, lower: Any = None, upper: Any = None, *, partition: int | None = None
    ) -> Iterator[R]:
        """Yield the values of a list or a set; the bounds are positions, or values of a set."""
        found: Iterator[R] = self._of_key("values", partition, key, lower, upper)
        return found

    def contains(self, key: K, value: R, *, partition: int | None = None) -> bool:
        """Return whether the set of a key has a value."""
        return bool(self._of_key("contains", partition, key, value))

    def size(self, key: K, *, partition: int | None = None) -> int:
        """Return the number of elements that a key has in a list, map or set."""
        found: int = self._of_key("size", partition, key)
        return found

    # ------------------------------------------------------------------ over partitions

    def range(self, lower: K | None = None, upper: K | None = None) -> Iterator[tuple[G, R]]:
        """Yield rows between two keys, both inclusive, partition by partition."""
        return self._over_all("range", lower, upper)

    def reverse_range(
        self, lower: K | None = None, upper: K | None = None
    ) -> Iterator[tuple[G, R]]:
        """Yield the same, descending within each partition."""
        return self._over_all("reverse_range", lower, upper)

    def all(self) -> Iterator[tuple[G, R]]:
        """Yield every row."""
        return self._over_all("all")

    def reverse_all(self) -> Iterator[tuple[G, R]]:
        """Yield every row, descending within each partition."""
        return self._over_all("reverse_all")

    def by(self, index: str, value: Any) -> Iterator[tuple[G, R]]:
        """Yield rows with an indexed value, partition by partition; of a tuple, its first parts.

        Raises StoreArgumentError for an index that the store does not have, and
        StoreUnavailableError while the index is being built.
        """
        return self._over_all("by", index, value)

    def by_range(
        self, index: str, lower: Any = None, upper: Any = None, *, reverse: bool = False
    ) -> Iterator[tuple[G, R]]:
        """Yield rows from one indexed value to another, inclusive, None = open.

        They are in the order of these values within each partition.
        """
        return self._over_all("by_range", index, lower, upper, reverse)

    def approximate_num_entries(self) -> int:
        """Return the number of rows over the partitions. It is exact, and costs a scan of them."""
        return sum(self._of_each("approximate_num_entries"))

    def fetch_all(self, from_ms: int, to_ms: int) -> Iterator[tuple[G, R]]:
        """Yield windows of every key by start, both ends inclusive."""
        return self._over_all("fetch_all", from_ms, to_ms)

    def fetch_key_range(
        self, lower: K | None, upper: K | None, from_ms: int, to_ms: int
    ) -> Iterator[tuple[G, R]]:
        """Yield windows of the keys between two, both inclusive, None = open."""
        return self._over_all("fetch_key_range", lower, upper, from_ms, to_ms)

    def find_sessions_of_key_range(
        self, lower: K | None, upper: K | None, earliest_end_ms: int, latest_start_ms: int
    ) -> Iterator[tuple[G, R]]:
        """Yield sessions that overlap a span, of the keys between two, inclusive, None = open."""
        span = earliest_end_ms, latest_start_ms
        return self._over_all("find_sessions_of_key_range", lower, upper, *span)


def found_rows(answer: Any, read: str = "get") -> tuple[bool, Any]:
    """Return whether there is a result, and the result; this reads an iterator's first row.

    A number of elements of 0, and a value that is not in a set, are no results.

    >>> found_rows(None)
    (False, None)
    >>> is_there, rows = found_rows(iter([1, 2]))
    >>> is_there, list(rows)
    (True, [1, 2])
    """
    if read in _FALSE_IF_ABSENT:
        return bool(answer), answer
    if not isinstance(answer, Iterator):
        return answer is not None, answer
    first = next(answer, _END)
    return (False, iter(())) if first is _END else (True, chain((first,), answer))


class ReadableStores(ABC):
    """The stores that can be read through one object: those of this process, or of its workers."""

    def __init__(
        self,
        places: Mapping[str, StorePlace],
        why_ended: Callable[[], str | None],
        partition_for: Callable[[bytes, int], int] = partition_of,
    ) -> None:
        """``why_ended`` returns why reads are impossible; None while they work."""
        self.places = places
        self._why_ended = why_ended
        #: returns the partition of a serialized key
        self.partition_for = partition_for

    def named(
        self, name: str, max_age: timedelta | None = None, *, standbys: bool = False
    ) -> QueryableStore[Any, Any, Any, Any]:
        """Return a store; raise StoreUnavailableError for a name that the topology lacks."""
        return QueryableStore(place_of(self.places, name), self, max_age, standbys=standbys)

    @abstractmethod
    def read(self, request: ReadRequest) -> Answer:
        """Read one partition.

        Raises StoreUnavailableError if the partition is elsewhere or restoring. A request with
        ``instance`` is answered with positions of the same commit, and raises it too if the
        partition moved during the read.
        """

    @abstractmethod
    def partitions(self, place: StorePlace, *, standbys: bool) -> Mapping[int, bool]:
        """Map the partitions of a store here, in order, to whether they can be read."""

    @abstractmethod
    def task_count(self, place: StorePlace) -> int | None:
        """Return the partition count of a store; None before it is known."""

    @abstractmethod
    def age_ms(self, place: StorePlace, partition: int, *, standbys: bool) -> float:
        """Return the age of the rows of a partition."""

    @abstractmethod
    def standby_lag(self, place: StorePlace) -> int:
        """Return the lag of the standbys of a store here, in offsets."""

    def check_running(self, store: str) -> None:
        """Raise StoreUnavailableError if the application has ended."""
        ended = self._why_ended()
        if ended is not None:
            raise StoreUnavailableError(
                f"store {store!r} cannot be read: {ended}. Ask another instance, or start this one"
                " again"
            )


def not_here(store: str, partition: int, here: Sequence[int]) -> StoreUnavailableError:
    """Return the error for a partition that this instance does not have."""
    return StoreUnavailableError(
        f"store {store!r}: the key's partition {partition} is not on this instance, which"
        f" has partitions {list(here)}; ask the instance that owns it"
    )


class QueryableStore(StoreReads[K, G, R, M]):
    """A store of the application as this instance can see it.

    Reads by key raise StoreUnavailableError if the key's partition is elsewhere or restoring;
    ``range``, ``all``, ``fetch_all``, ``fetch_key_range`` and similar reads scan the partitions
    that this instance owns, and ``approximate_num_entries`` counts their rows.

    Every instance has all rows of a global store; ``partition=`` has no meaning there. A query of
    it sees the batches that the instance has completely read so far.
    """

    def __init__(
        self,
        place: StorePlace,
        stores: ReadableStores,
        max_age: timedelta | None = None,
        *,
        standbys: bool = False,
    ) -> None:
        self.name = place.name
        #: each key is in the partition of its hash, so no other one is searched
        self.is_placed = place.is_placed
        self._place = place
        self._stores = stores
        self._max_age_ms = None if max_age is None else max_age // timedelta(milliseconds=1)
        self._standbys = standbys

    def fetch_range(
        self,
        key: K,
        from_ms: int,
        to_ms: int,
        *,
        reverse: bool = False,
        partition: int | None = None,
    ) -> Iterator[tuple[int, R]]:
        """Yield windows of a key by start, both ends inclusive."""
        span = from_ms, to_ms
        found = self._of_key("fetch_range", partition, key, *span, reverse=reverse)
        return cast("Iterator[tuple[int, R]]", found)

    def prefix_scan(self, prefix: Any) -> Iterator[tuple[G, R]]:
        """Yield rows whose serialized key begins with the prefix: bytes, or text for text keys.

        Raises StoreArgumentError for a prefix of another type.
        """
        return self._over_all("prefix_scan", prefix)

    @property
    def partitions(self) -> list[int]:
        """Return the partitions of the store that can be read here now."""
        here = self._stores.partitions(self._place, standbys=self._standbys)
        return [partition for partition, is_readable in here.items() if is_readable]

    @property
    def lag(self) -> int:
        """Return the changelog offsets that local rows lack, over all partitions of standbys.

        Returns 0 if this instance owns all local partitions.
        """
        return self._stores.standby_lag(self._place) if self._standbys else 0

    @property
    def age(self) -> timedelta:
        """Return the age of results: since the rows here last included everything in the inputs.

        With several partitions, that of the oldest. It is a fraction of a second while tasks keep
        up with their inputs, and grows while they lag behind, while the brokers are unavailable and
        while a task restarts after a failure. ``timedelta.max`` until the rows have included
        everything for the first time since their task came here.
        """
        age_ms, place, standbys = self._stores.age_ms, self._place, self._standbys
        ages = [age_ms(place, partition, standbys=standbys) for partition in self.partitions]
        oldest_ms = max(ages, default=0.0)
        return timedelta.max if oldest_ms == inf else timedelta(milliseconds=oldest_ms)

    # ------------------------------------------------------------------ pieces

    def _over_all(self, read: str, *arguments: Any) -> Iterator[Any]:
        check_arguments(self._place.spec, self._place.encode_key, read, arguments)
        return self._rows(read, arguments)

    def _rows(self, read: str, arguments: tuple[Any, ...]) -> Iterator[Any]:
        for rows in self._of_each(read, *arguments):
            yield from rows

    def _of_each(self, read: str, *arguments: Any) -> Iterator[Any]:
        here = self._stores.partitions(self._place, standbys=self._standbys)
        if not here:
            raise StoreUnavailableError(
                f"store {self.name!r}: this instance owns none of its partitions yet; they are on"
                " other instances, or it is still joining the group"
            )
        return (self._read(partition, read, arguments, {}) for partition in here)

    def _read(
        self, partition: int, read: str, arguments: tuple[Any, ...], options: dict[str, bool]
    ) -> Any:
        max_age_ms, standbys = self._max_age_ms, self._standbys
        request = ReadRequest(
            "", self.name, partition, read, arguments, options, max_age_ms, standbys
        )
        return self._stores.read(request).value

    def _of_key(
        self, read: str, partition: int | None, key: Any, *arguments: Any, **options: Any
    ) -> Any:
        try:
            return self._read_local(read, partition, (key, *arguments), options)
        except StoreAccessError:
            raise
        except Exception:
            # Checked only now: most arguments are valid, and some reads are very frequent.
            place = self._place
            check_arguments(place.spec, place.encode_key, read, (key, *arguments), options)
            raise

    def _read_local(
        self,
        read: str,
        partition: int | None,
        arguments: tuple[Any, ...],
        options: dict[str, bool],
    ) -> Any:
        chosen = None if partition is None else checked_partition(self.name, partition)
        if chosen is not None:
            return self._read(chosen, read, arguments, options)
        guess = self._likely_partition(arguments[0])
        if self.is_placed:
            return self._read(guess, read, arguments, options)
        elsewhere: StoreUnavailableError | None = None
        is_there, found = False, None
        try:
            is_there, found = found_rows(self._read(guess, read, arguments, options), read)
        except StoreUnavailableError as exc:
            elsewhere = exc
        if is_there:
            return found
        seen = {guess}
        for other in self.partitions:
            with suppress(StoreUnavailableError):  # then it is not searched
                is_there, rows = found_rows(self._read(other, read, arguments, options), read)
                if is_there:
                    return rows
                seen.add(other)
        if elsewhere is not None:
            raise elsewhere
        self._check_guess(arguments[0], seen)
        return found

    def _likely_partition(self, key: Any) -> int:
        count = self._stores.task_count(self._place)
        if count is None:
            self._stores.check_running(self.name)
            raise StoreUnavailableError(
                f"store {self.name!r} cannot be read yet: the application has not started"
            )
        return self._stores.partition_for(self._place.encode_key(key), count)

    def _check_guess(self, key: Any, seen: Container[int]) -> None:
        """Handle a missing row; raise StoreUnavailableError if it may be elsewhere."""
        count = self._stores.task_count(self._place) or 0
        unseen = [partition for partition in range(count) if partition not in seen]
        if unseen:
            raise StoreUnavailableError(
                f"store {self.name!r}: key {key!r:.100} was not found in the partitions of this"
                f" instance. It may be in {unseen}, because producers of the input may not use the"
                " murmur2 partitioner (librdkafka's default is CRC32). Ask all instances with"
                " app.remote_store(), pass partition=, or, if all producers use the partitioner"
                " of Kafka's Java client, app.store(..., placed_by='murmur2')"
            )
