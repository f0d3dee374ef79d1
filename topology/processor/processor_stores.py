"""Stores that processors use: declared here, added to a builder or given to an operator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any, Literal, TypeVar, get_args, overload

from logstate.contracts.serde import Serde
from logstate.contracts.stores import StoreSpec, TtlClock, ValueAndTimestamp
from logstate.contracts.typed_stores import (
    KeyValueStore,
    SessionStore,
    StoreDeclaration,
    VersionedStore,
    WindowStore,
)
from logstate.topology.declaring.argument_checks import check_count, check_flags
from logstate.topology.declaring.declaration_site import declaration_error, declaration_site
from logstate.topology.declaring.indexes import Indexes, index_specs
from logstate.topology.declaring.naming import check_name
from logstate.topology.declaring.serde_arguments import required_serde
from logstate.topology.declaring.windows import duration_ms

K = TypeVar("K")
V = TypeVar("V")

#: names of stores added to the builder, or declarations of stores to add with the operator
Stores = str | StoreSpec | Iterable[str | StoreSpec]
_FLAGS = frozenset({"in_memory", "is_logged", "with_headers", "retain_duplicates"})
#: what those are called here that a declaration calls otherwise
_SAID = {"is_logged": "logged", "with_headers": "headers"}


def key_value_store(
    name: str,
    key: type[K] | Serde[K],
    value: type[V] | Serde[V],
    *,
    in_memory: bool = False,
    logged: bool = True,
    ttl: timedelta | None = None,
    ttl_by: TtlClock = "stream_time",
    expired: str | None = None,
    renew_on_read: bool = False,
    indexes: Indexes | None = None,
    changelog_config: Mapping[str, str] | None = None,
) -> StoreDeclaration[KeyValueStore[K, V]]:
    """A store of values per key, for processors.

    >>> from logstate import Processor, StreamsBuilder, TopologyTestDriver, key_value_store
    >>> totals = key_value_store("totals", str, int)
    >>> class Total(Processor):
    ...     def process(self, record):
    ...         store = self.context.store(totals)
    ...         store.put(record.key, (store.get(record.key) or 0) + record.value)
    >>> builder = StreamsBuilder()
    >>> _ = builder.stream("in", value=int).process(Total, stores=totals)
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.pipe_all("in", [("ada", 3, 0), ("ada", 4, 1), ("bob", 1, 2)])
    ...     list(driver.store("totals").all())
    [('ada', 7), ('bob', 1)]

    Semantics: ``put(key, None)`` deletes. Scans go in the order of the keys' bytes and see the
    state as it was when they were opened. The changelog has the current record's timestamp.

    Args:
        name: the store's name.
        key: type or serde of the keys.
        value: type or serde of the values.
        in_memory: keep rows in memory instead of RocksDB.
        logged: whether there is a changelog.
        ttl: a row expires so long after the time of the record that was processed when it was put,
            by the stream time of its task. No read finds it from then on, and a tombstone is
            written to the changelog. A put that has expired already is dropped and counted.
        ttl_by: with a ttl: ``"wall_clock"`` counts it from the wall clock at the put, by the wall
            clock of the instance, also while there are no records. The clock of a store never goes
            back. No put has expired already, whatever the time of its record.
        expired: with a ttl: name of the stream of the rows that expire, see
            :meth:`StreamsBuilder.expired`.
        renew_on_read: with a ttl: ``get`` of a processor gives the row that it finds the time of
            the current record, if that is later. It is a write: the row is logged again, once per
            key and commit. Scans, reads by an index and queries renew nothing.
        indexes: secondary indexes, functions of a value by their names or :func:`index`;
            ``store.by("city", "Oslo")`` and ``by_range`` read rows by what the functions return.
        changelog_config: settings of the changelog topic, over those that the store needs.

    Returns:
        The declaration, for ``add_store`` or ``stores=``. ``context.store(totals)`` returns the
        store with its types, ``KeyValueStore[str, int]``; by its name it is ``Any``.

    Raises:
        TopologyError: the name cannot be part of a topic's name, a type has no serde, or
            ``renew_on_read`` or another ``ttl_by`` is given without a ttl.

    Source: Kafka Streams' ``Stores.keyValueStoreBuilder``.
    """
    return declared_store(
        name, "key_value", key, value,
        in_memory=in_memory, is_logged=logged, changelog_config=changelog_config,
        indexes=indexes, **ttl_options(name, ttl, ttl_by, expired, renew_on_read),
    )  # fmt: skip


def lru_store(
    name: str,
    key: type[K] | Serde[K],
    value: type[V] | Serde[V],
    *,
    capacity: int,
    logged: bool = True,
    changelog_config: Mapping[str, str] | None = None,
) -> StoreDeclaration[KeyValueStore[K, V]]:
    """A store of values per key that keeps the keys used last, for processors: a cache.

    >>> from logstate import Processor, StreamsBuilder, TopologyTestDriver, lru_store
    >>> class Remember(Processor):
    ...     def process(self, record):
    ...         self.context.store("recent").put(record.key, record.value)
    >>> builder = StreamsBuilder()
    >>> recent = lru_store("recent", str, int, capacity=2)
    >>> _ = builder.stream("in", value=int).process(Remember, stores=recent)
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.pipe_all("in", [("ada", 3, 0), ("bob", 4, 1), ("cleo", 1, 2)])
    ...     list(driver.store("recent").all())
    [('bob', 4), ('cleo', 1)]

    Semantics: as :func:`key_value_store`, in memory. A put of a new key beyond the capacity removes
    the key that was put or read least recently, and logs a tombstone for it. Scans and queries are
    no use. Reads are not logged: after a crash or a move the order is that of the last puts.

    Args: as for :func:`key_value_store`, and
        capacity: the most keys it holds, in each task.

    Raises:
        TopologyError: as there, and for a capacity below one.

    Source: Kafka Streams' ``Stores.lruMap``.
    """
    check_count(capacity, f"the capacity of store {name!r}", may_be_left_out=False)
    return declared_store(
        name, "key_value_lru", key, value,
        in_memory=True, is_logged=logged, changelog_config=changelog_config, capacity=capacity,
    )  # fmt: skip


def timestamped_key_value_store(
    name: str,
    key: type[K] | Serde[K],
    value: type[V] | Serde[V],
    *,
    in_memory: bool = False,
    logged: bool = True,
    ttl: timedelta | None = None,
    ttl_by: TtlClock = "stream_time",
    expired: str | None = None,
    indexes: Indexes | None = None,
    changelog_config: Mapping[str, str] | None = None,
    headers: bool = False,
) -> StoreDeclaration[KeyValueStore[K, ValueAndTimestamp[V]]]:
    """A store of ``ValueAndTimestamp`` per key, for processors.

    >>> from logstate import Processor, StreamsBuilder, TopologyTestDriver, ValueAndTimestamp
    >>> from logstate import timestamped_key_value_store
    >>> class Last(Processor):
    ...     def process(self, record):
    ...         row = ValueAndTimestamp(record.value, record.timestamp)
    ...         self.context.store("last").put(record.key, row)
    >>> builder = StreamsBuilder()
    >>> last = timestamped_key_value_store("last", str, int)
    >>> _ = builder.stream("in", value=int).process(Last, stores=last)
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.pipe("in", "ada", 3, timestamp=9)
    ...     driver.store("last").get("ada").timestamp
    9

    Semantics: as :func:`key_value_store`; the changelog has the row's timestamp, and the value
    without it, so that it reads like any topic. With a ``ttl`` rows expire by their timestamps.

    Args: as for :func:`key_value_store`, and
        ttl_by: ``"wall_clock"`` is refused: rows expire by their own timestamps.
        headers: rows keep the record headers they are put with (KIP-1271).

    Source: Kafka Streams' ``Stores.timestampedKeyValueStoreBuilder`` (KIP-258); headers: KIP-1271.
    """
    if ttl_by != "stream_time":
        ttl_options(name, ttl, ttl_by)
        raise declaration_error(
            f"Store {name!r} has ttl_by={ttl_by!r}, but its rows have their own timestamps, from"
            " which the ttl counts by stream time. Leave out ttl_by=, or use key_value_store(),"
            " whose rows have the time at which they are put."
        )
    return declared_store(
        name, "timestamped_key_value", key, value,
        in_memory=in_memory, is_logged=logged, with_headers=headers,
        changelog_config=changelog_config, indexes=indexes,
        **ttl_options(name, ttl, ttl_by, expired),
    )  # fmt: skip


@overload
def window_store(
    name: str,
    key: type[K] | Serde[K],
    value: type[V] | Serde[V],
    *,
    size: timedelta,
    retention: timedelta,
    segment_interval: timedelta | None = ...,
    retain_duplicates: bool = ...,
    in_memory: bool = ...,
    logged: bool = True,
    changelog_config: Mapping[str, str] | None = ...,
    timestamped: Literal[False] = ...,
    headers: bool = ...,
) -> StoreDeclaration[WindowStore[K, V]]: ...
@overload
def window_store(
    name: str,
    key: type[K] | Serde[K],
    value: type[V] | Serde[V],
    *,
    size: timedelta,
    retention: timedelta,
    segment_interval: timedelta | None = ...,
    retain_duplicates: bool = ...,
    in_memory: bool = ...,
    logged: bool = True,
    changelog_config: Mapping[str, str] | None = ...,
    timestamped: Literal[True],
    headers: bool = ...,
) -> StoreDeclaration[WindowStore[K, ValueAndTimestamp[V]]]: ...
def window_store(
    name: str,
    key: Any,
    value: Any,
    *,
    size: timedelta,
    retention: timedelta,
    segment_interval: timedelta | None = None,
    retain_duplicates: bool = False,
    in_memory: bool = False,
    logged: bool = True,
    changelog_config: Mapping[str, str] | None = None,
    timestamped: bool = False,
    headers: bool = False,
    ttl: timedelta | None = None,
) -> StoreDeclaration[Any]:
    """A store of values per key and window start, for processors.

    >>> from datetime import timedelta
    >>> from logstate import Processor, StreamsBuilder, TopologyTestDriver, window_store
    >>> class Keep(Processor):
    ...     def process(self, record):
    ...         self.context.store("recent").put(record.key, record.value, record.timestamp)
    >>> builder = StreamsBuilder()
    >>> minute = timedelta(minutes=1)
    >>> recent = window_store("recent", str, int, size=minute, retention=minute)
    >>> _ = builder.stream("in", value=int).process(Keep, stores=recent)
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.pipe_all("in", [("ada", 3, 0), ("ada", 4, 50_000), ("ada", 5, 70_000)])
    ...     list(driver.store("recent").fetch_range("ada", 0, 100_000))
    [(50000, 4), (70000, 5)]

    Semantics: the store's own clock is the largest window start put into it. Rows that are older
    than it by the retention are invisible; a put that old is dropped and counted. ``put(key, None,
    start)`` deletes.

    Args: as for :func:`key_value_store`, and
        size: length of a window; only determines where windows end.
        retention: how far back rows are kept.
        segment_interval: in which steps expired rows are deleted; half the retention if not given,
            but at least 60 s.
        retain_duplicates: every put is a separate row, as stream joins need it; null values then
            change nothing.
        timestamped: values are ``ValueAndTimestamp``.
        headers: these keep the record headers they are put with (KIP-1271).
        ttl: refused: windows expire by their own time, after the retention.

    Raises:
        TopologyError: as there, for a duration that is not a timedelta in whole milliseconds, for
            headers of values without a timestamp, and for a ttl.

    Source: Kafka Streams' ``Stores.windowStoreBuilder``; headers: KIP-1271.
    """
    _refuse_ttl(name, ttl)
    if headers and not timestamped:
        raise declaration_error(
            f"Window store {name!r} has headers=True, but its rows are values alone, without a"
            " place for headers. Give timestamped=True as well, and put ValueAndTimestamp."
        )
    size_ms = duration_ms(size, "size of a window store")
    retention_ms = duration_ms(retention, "retention of a window store")
    if retention_ms < size_ms:
        raise declaration_error(
            f"Window store {name!r} has a retention of {retention_ms} ms and windows of {size_ms}"
            " ms: a window would be gone before it is over. Raise the retention."
        )
    check_flags(f"store {name!r}", timestamped=timestamped)
    return declared_store(
        name, "timestamped_window" if timestamped else "window", key, value,
        window_size_ms=size_ms,
        retention_ms=retention_ms,
        segment_interval_ms=_optional_ms(segment_interval),
        retain_duplicates=retain_duplicates, in_memory=in_memory, is_logged=logged,
        with_headers=headers, changelog_config=changelog_config,
    )  # fmt: skip


def session_store(
    name: str,
    key: type[K] | Serde[K],
    value: type[V] | Serde[V],
    *,
    retention: timedelta,
    segment_interval: timedelta | None = None,
    in_memory: bool = False,
    logged: bool = True,
    changelog_config: Mapping[str, str] | None = None,
    headers: bool = False,
    ttl: timedelta | None = None,
) -> StoreDeclaration[SessionStore[K, V]]:
    """A store of values per key and session, for processors.

    >>> from datetime import timedelta
    >>> from logstate import Processor, StreamsBuilder, TopologyTestDriver, Windowed, session_store
    >>> class Keep(Processor):
    ...     def process(self, record):
    ...         session = Windowed(record.key, record.timestamp, record.timestamp + 10)
    ...         self.context.store("visits").put(session, record.value)
    >>> builder = StreamsBuilder()
    >>> visits = session_store("visits", str, int, retention=timedelta(hours=1))
    >>> _ = builder.stream("in", value=int).process(Keep, stores=visits)
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.pipe("in", "ada", 3, timestamp=5)
    ...     list(driver.store("visits").find_sessions("ada", 15, 99))
    [(Windowed(key='ada', start_ms=5, end_ms=15), 3)]

    Semantics: ``find_sessions(key, earliest_end_ms, latest_start_ms)`` finds what overlaps, both
    inclusive. The store's own clock is the largest session end put into it; older rows than the
    retention are invisible, and a put that old is dropped and counted.

    Args: as for :func:`key_value_store`, and
        retention: how far back sessions are kept, by their end.
        segment_interval: in which steps expired rows are deleted; half the retention if not given,
            but at least 60 s.
        headers: sessions keep the headers that ``put(session, value, headers)`` is given; they are
            read by ``headers_of(key, start_ms, end_ms)`` (KIP-1271).
        ttl: refused: sessions expire by their end, after the retention.

    Raises:
        TopologyError: as there, for a duration that is not a timedelta in whole milliseconds, and
            for a ttl.

    Source: Kafka Streams' ``Stores.sessionStoreBuilder`` (KIP-94); headers: KIP-1271.
    """
    _refuse_ttl(name, ttl)
    return declared_store(
        name, "session", key, value,
        retention_ms=duration_ms(retention, "retention of a session store"),
        segment_interval_ms=_optional_ms(segment_interval),
        in_memory=in_memory, is_logged=logged, with_headers=headers,
        changelog_config=changelog_config,
    )  # fmt: skip


def versioned_store(
    name: str,
    key: type[K] | Serde[K],
    value: type[V] | Serde[V],
    *,
    history: timedelta,
    segment_interval: timedelta | None = None,
    logged: bool = True,
    changelog_config: Mapping[str, str] | None = None,
) -> StoreDeclaration[VersionedStore[K, V]]:
    """A store of versions per key, readable as of a time, for processors.

    >>> from datetime import timedelta
    >>> from logstate import Processor, StreamsBuilder, TopologyTestDriver, versioned_store
    >>> class Keep(Processor):
    ...     def process(self, record):
    ...         self.context.store("prices").put(record.key, record.value, record.timestamp)
    >>> builder = StreamsBuilder()
    >>> prices = versioned_store("prices", str, int, history=timedelta(hours=1))
    >>> _ = builder.stream("in", value=int).process(Keep, stores=prices)
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.pipe_all("in", [("tea", 3, 10), ("tea", 5, 30), ("tea", 4, 20)])
    ...     [driver.store("prices").get("tea", as_of).value for as_of in (15, 25, 35)]
    [3, 4, 5]

    Semantics: a put goes where its timestamp belongs, in any order; ``put(key, None, timestamp)``
    is a deletion from then on. Beyond the history nothing is found, and a put that old is not made.
    Always on disk.

    Args: as for :func:`key_value_store`, and
        history: how far back versions are kept.
        segment_interval: in which steps old versions are deleted; chosen by the store by default.

    Raises:
        TopologyError: as there, and for a duration that is not a timedelta in whole milliseconds.

    Source: Kafka Streams' ``Stores.versionedKeyValueStoreBuilder`` (KIP-889).
    """
    return declared_store(
        name, "versioned", key, value,
        history_ms=duration_ms(history, "history of a versioned store"),
        segment_interval_ms=_optional_ms(segment_interval),
        is_logged=logged, changelog_config=changelog_config,
    )  # fmt: skip


def ttl_options(
    store: str,
    ttl: timedelta | None,
    ttl_by: str,
    expired: str | None = None,
    renew_on_read: bool = False,
) -> dict[str, Any]:
    """Return the fields of the specification of a store for its TTL, and for the clock of that."""
    if ttl_by not in get_args(TtlClock):
        raise declaration_error(
            f"ttl_by of store {store!r} is a clock, found {ttl_by!r}. Give"
            f" {' or '.join(map(repr, get_args(TtlClock)))}."
        )
    if ttl is None and ttl_by != "stream_time":
        raise declaration_error(
            f"Store {store!r} has ttl_by={ttl_by!r} and no ttl: its rows do not expire. Give a"
            " ttl=, or leave out ttl_by=."
        )
    check_expired(store, ttl, expired)
    check_flags(f"store {store!r}", renew_on_read=renew_on_read)
    if renew_on_read and ttl is None:
        raise declaration_error(
            f"Store {store!r} has renew_on_read=True and no ttl: its rows do not expire, so reads"
            " have nothing to renew. Give a ttl=, or leave out renew_on_read=."
        )
    return {
        "ttl_ms": ttl_ms(store, ttl),
        "ttl_by": ttl_by,
        "expired": expired,
        "renews_on_read": renew_on_read,
    }


def check_expired(store: str, ttl: timedelta | None, expired: str | None) -> None:
    """Raise TopologyError for a stream of rows that expire where none do, or without a name."""
    if expired is None:
        return
    check_name(expired, f"the stream of rows that expire of store {store!r}")
    if ttl is None:
        raise declaration_error(
            f"Store {store!r} has expired={expired!r} and no ttl: its rows do not expire. Give a"
            " ttl=, or leave out expired=."
        )


def ttl_ms(store: str, ttl: timedelta | None) -> int | None:
    """The TTL of a store in ms, at least one; None if its rows do not expire."""
    return None if ttl is None else duration_ms(ttl, f"ttl of store {store!r}", at_least=1)


def _refuse_ttl(store: str, ttl: timedelta | None) -> None:
    if ttl is not None:
        raise declaration_error(
            f"Store {store!r} has a ttl, but its rows expire by their own times, and not by that of"
            " their last write. Use retention=."
        )


def _optional_ms(duration: timedelta | None) -> int | None:
    return None if duration is None else duration_ms(duration, "segment_interval", at_least=1)


def declared_store(
    name: str,
    kind: str,
    key: Any,
    value: Any,
    *,
    changelog_config: Mapping[str, str] | None,
    indexes: Indexes | None = None,
    **options: Any,
) -> StoreDeclaration[Any]:
    """Return the declaration of a processor's store; ``options`` are fields of ``StoreSpec``."""
    check_name(name, "a store")
    of_values = required_serde(value, None, f"the value of store {name!r}", "value")
    flags = {_SAID.get(one, one): given for one, given in options.items() if one in _FLAGS}
    check_flags(f"store {name!r}", **flags)
    return StoreDeclaration(
        name=name,
        kind=kind,
        key=required_serde(key, None, f"the key of store {name!r}", "key"),
        value=of_values,
        indexes=index_specs(name, indexes, of_values),
        declared_at=declaration_site(),
        changelog_config={} if changelog_config is None else changelog_config,
        **options,
    )
