"""Store declarations: ``Materialized`` for the DSL, and the specs of stores for processors.

``store="spend"`` everywhere in the DSL is short for ``Materialized("spend")``. Retention defaults
to what correctness needs and no more: window size + grace, twice the difference + grace for
sliding windows, gap + grace for sessions; a smaller one is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeAlias, TypeGuard

from logstate.contracts.serde import Serde
from logstate.contracts.stores import StoreSpec, TtlClock
from logstate.topology.declaring.argument_checks import check_count, check_flags
from logstate.topology.declaring.declaration_site import declaration_error, declaration_site
from logstate.topology.declaring.indexes import Indexes, index_specs, refuse_indexes
from logstate.topology.declaring.naming import check_name
from logstate.topology.declaring.serde_arguments import required_serde
from logstate.topology.declaring.windows import (
    SessionWindows,
    SlidingWindows,
    Windows,
    advance_ms_of,
    duration_ms,
)
from logstate.topology.processor.processor_stores import check_expired

AnyWindows: TypeAlias = Windows | SlidingWindows | SessionWindows


@dataclass(frozen=True)
class Materialized:
    """How a table is stored. ``store="spend"`` is short for ``store=Materialized("spend")``.

    >>> from datetime import timedelta
    >>> from logstate import Materialized, StreamsBuilder, TopologyTestDriver
    >>> builder = StreamsBuilder()
    >>> prices = Materialized("prices", history=timedelta(days=1))
    >>> _ = builder.table("prices", value=int, store=prices)
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.pipe_all("prices", [("tea", 3, 10), ("tea", 4, 20)])
    ...     driver.store("prices").get("tea", 15).value
    3

    Semantics: retention defaults to what correctness needs and no more: window size + grace, for
    sliding windows twice the difference + grace, for sessions gap + grace. So windows that are
    closed cannot be queried unless it is longer.

    Args:
        name: the store's name; names its changelog, ``<application id>-<name>-changelog``, and what
            queries ask for.
        in_memory: keep rows in memory instead of RocksDB; the builder's choice if not given. They
            come from the changelog as a whole at each start. Versioned stores are on disk only.
        logged: whether there is a changelog. Without one the rows are on one disk only: a start
            without them is refused, and with ``Application(on_state_loss="continue")`` the store is
            empty (docs/state-loss.md).
        retention: of windowed tables, how far back windows are kept. With ``emit="close"`` as much
            as event time may jump: what expires before it was sent is lost (and counted).
        capacity: keep at most so many rows of a plain table, in memory, in each task: a put of a
            new key beyond it removes the row that was put or read least recently, with a tombstone
            in the changelog. The removal is not sent downstream: joins do not find the row, an
            aggregate of its key starts again. Reads are not logged: after a crash the order is that
            of the last puts.
        history: makes a plain table versioned: rows can be read as of a time that far back
            (KIP-889).
        segment_interval: in which steps expired rows are deleted; half the retention if not given,
            but at least 60 s.
        headers: rows have room for record headers, and tombstones in the changelog have those of
            their record (KIP-1271); the builder's ``store_headers`` if not given, which leaves
            stores in memory out. Not of versioned stores, nor of those with a capacity.
        changelog_config: settings of the changelog topic.
        key: serde of the keys in the store; that of the table if not given.
        value: serde of the values in the store, likewise.
        deletes: an aggregator that returns None means to delete the row. It does so without, as in
            Kafka Streams, but a warning asks whether a ``return`` was forgotten.
        ttl: a row of a plain table expires so long after its time, by the stream time of its task:
            no read finds it from then on, and a tombstone is written to the changelog. An update
            gives the row a new time; one that has expired already is dropped and counted. The
            removal is not sent downstream, as with a capacity.
        ttl_by: ``"wall_clock"`` is refused: rows of a table have their own times. Stores of
            processors have it.
        expired: with a ttl: name of the stream of the rows that expire, see
            :meth:`StreamsBuilder.expired`.
        indexes: secondary indexes of a plain table: functions of a value by the names of the
            indexes, or :func:`index`. ``store.by("city", "Oslo")`` and ``by_range`` read rows by
            what the functions return. They are local: there is no topic for them.

    Raises:
        TopologyError: the name cannot be part of a topic's name; what does not fit the table is
            refused where the store is used.

    Source: Kafka Streams' ``Materialized``; in memory: ``Stores.inMemoryKeyValueStore``,
    ``inMemoryWindowStore`` and ``inMemorySessionStore``; capacity: ``Stores.lruMap``; versioned:
    KIP-889.
    """

    name: str
    in_memory: bool | None = None
    logged: bool = True
    retention: timedelta | None = None
    history: timedelta | None = None
    capacity: int | None = None
    segment_interval: timedelta | None = None
    headers: bool | None = None
    changelog_config: Mapping[str, str] = field(default_factory=dict)
    key: Any = None
    value: Any = None
    deletes: bool = False
    ttl: timedelta | None = None
    indexes: Indexes | None = None
    ttl_by: TtlClock = "stream_time"
    expired: str | None = None

    def __post_init__(self) -> None:
        check_name(self.name, "a store")
        whose = f"store {self.name!r}"
        check_flags(whose, logged=self.logged, deletes=self.deletes)
        if self.in_memory is not None:
            check_flags(whose, in_memory=self.in_memory)
        if self.headers is not None:
            check_flags(whose, headers=self.headers)
        check_count(self.capacity, f"the capacity of {whose}")
        check_expired(self.name, self.ttl, self.expired)
        if self.ttl_by != "stream_time":
            raise declaration_error(
                f"Store {self.name!r} has ttl_by={self.ttl_by!r}, but the rows of a table have"
                " their own times, from which the ttl counts by stream time. Leave out ttl_by=, or"
                " keep the rows in a key_value_store() of a processor, which can expire by the"
                " wall clock."
            )
        if self.capacity is not None and self.in_memory is False:
            raise declaration_error(
                f"Store {self.name!r} has a capacity and in_memory=False: an LRU store is in memory"
                " only. Leave out one of them."
            )


@dataclass(frozen=True)
class StoreDefaults:
    """The builder's defaults for every store of the DSL."""

    in_memory: bool = False
    with_headers: bool = False


def materialized(store: str | Materialized | None) -> Materialized | None:
    """``store=`` in its long form."""
    if store is None or isinstance(store, Materialized):
        return store
    if isinstance(store, StoreSpec):
        raise declaration_error(
            f"store= takes a name or Materialized(...), found the declaration of store"
            f" {store.name!r}, which is for processors: the kind of this store, its keys and its"
            f' values follow from the operator. Give store="{store.name}", or'
            f' Materialized("{store.name}", ...) with what it should have besides.'
        )
    return Materialized(store)


def refuse_options(
    store: Materialized,
    operator: str,
    reasons: Mapping[str, str],
    remedy: str = "Leave it out.",
) -> None:
    """Raise TopologyError for an option that the store of an operator cannot have.

    ``reasons``: why not, by the name of the option.
    """
    for option, why in reasons.items():
        if option == "indexes":
            refuse_indexes(store.name, store.indexes, why, "Leave out indexes=.")
        elif getattr(store, option) is not None:
            raise declaration_error(
                f"Store {store.name!r} of {operator} has a {option}: {why}. {remedy}"
            )


def agreed_value(store: Materialized, value: Serde[Any] | None) -> Serde[Any] | None:
    """The serde of the values that the store or the call says; None where neither does.

    Raises TopologyError where they say different ones: one would be nowhere.
    """
    if store.value is None:
        return value
    own = required_serde(store.value, None, f"the value of store {store.name!r}", "value=")
    if value is None or own is value or own.describe() == value.describe():
        return own
    raise declaration_error(
        f"Store {store.name!r} has two serdes for its values: value= of the operator says"
        f" {value!r}, and value= of its Materialized says {own!r}. What the operator makes is"
        " written to its store and nowhere else, so only one of them can be. Leave out one."
    )


def key_value_spec(
    store: Materialized, key: Serde[Any], value: Serde[Any], defaults: StoreDefaults
) -> StoreSpec:
    """The store of a table: timestamped, or versioned if ``history`` is given."""
    if store.retention is not None:
        raise declaration_error(
            f"Store {store.name!r} has a retention, but its table is not windowed: rows of a plain"
            " table expire if it has a ttl. Use ttl=, or history= for a versioned store."
        )
    ttl_ms = None
    _refuse_indexes_of_others(store)
    if store.ttl is not None:
        _refuse_other_bounds(store)
        ttl_ms = duration_ms(store.ttl, f"ttl of store {store.name!r}", at_least=1)
    if store.history is not None and store.in_memory:
        raise declaration_error(
            f"Store {store.name!r} is versioned and in memory: versioned stores are on disk"
            " only. Leave out one of history= and in_memory=."
        )
    if store.headers and (store.history is not None or store.capacity is not None):
        option = "capacity" if store.history is None else "history"
        raise declaration_error(
            f"Store {store.name!r} has headers=True and a {option}: rows of such a store have no"
            f" room for headers. Leave out one of headers= and {option}=."
        )
    if store.history is not None and store.capacity is not None:
        raise declaration_error(
            f"Store {store.name!r} has a history and a capacity: a versioned store keeps the"
            " history of every key. Leave out one of history= and capacity=."
        )
    if store.capacity is not None:
        return _spec(
            store, "timestamped_key_value_lru", key, value, defaults, capacity=store.capacity
        )
    if store.history is None:
        indexes = index_specs(store.name, store.indexes, value)
        return _spec(
            store, "timestamped_key_value", key, value, defaults,
            ttl_ms=ttl_ms, indexes=indexes, expired=store.expired,
        )  # fmt: skip
    history_ms = duration_ms(store.history, f"history of store {store.name!r}")
    return _spec(store, "versioned", key, value, defaults, history_ms=history_ms)


def _refuse_indexes_of_others(store: Materialized) -> None:
    for option, given in (("history", store.history), ("capacity", store.capacity)):
        if given is not None:
            remedy = f"Leave out one of indexes= and {option}=."
            refuse_indexes(store.name, store.indexes, f"it has a {option}", remedy)


def _refuse_other_bounds(store: Materialized) -> None:
    for option, given in (("history", store.history), ("capacity", store.capacity)):
        if given is not None:
            raise declaration_error(
                f"Store {store.name!r} has a ttl and a {option}, and both determine when its rows"
                f" are removed. Leave out one of ttl= and {option}=."
            )


def windowed_spec(
    store: Materialized,
    key: Serde[Any],
    value: Serde[Any],
    defaults: StoreDefaults,
    *,
    windows: AnyWindows,
    keep_at_retention: bool,
) -> StoreSpec:
    """The store of a windowed table; it keeps windows at least while they are open.

    With ``keep_at_retention`` those that closed are read when the retention hides them already.
    """
    if store.capacity is not None:
        raise declaration_error(
            f"Store {store.name!r} has a capacity, but its table is windowed: windows expire by"
            " time. Use retention=, or in_memory=True alone."
        )
    if store.ttl is not None:
        raise declaration_error(
            f"Store {store.name!r} has a ttl, but its table is windowed: windows expire by their"
            " own time, not by that of their last update. Use retention=."
        )
    refuse_indexes(store.name, store.indexes, "its table is windowed", "Leave out indexes=.")
    if isinstance(windows, SessionWindows):
        retention_ms = _retention_ms(store, windows.gap_ms + windows.grace_ms)
        return _spec(
            store, "session", key, value, defaults,
            retention_ms=retention_ms,
            gap_ms=windows.gap_ms,
            keep_at_retention=keep_at_retention,
        )  # fmt: skip
    size_ms = window_size_ms(windows)
    # A sliding record's right windows reach back twice the difference.
    reach_ms = 2 * size_ms if isinstance(windows, SlidingWindows) else size_ms
    return _spec(
        store, "timestamped_window", key, value, defaults,
        window_size_ms=None if varies(windows) else size_ms,
        window_end=windows.end_of if varies(windows) else None,
        advance_ms=0 if isinstance(windows, SlidingWindows) else advance_ms_of(windows),
        retention_ms=_retention_ms(store, reach_ms + windows.grace_ms),
        keep_at_retention=keep_at_retention,
    )  # fmt: skip


def varies(windows: Windows | SlidingWindows) -> TypeGuard[Windows]:
    """Whether windows differ in length."""
    return isinstance(windows, Windows) and windows.varies


def window_size_ms(windows: Windows | SlidingWindows) -> int:
    """From a window's start to its end."""
    return windows.difference_ms if isinstance(windows, SlidingWindows) else windows.size_ms


def _retention_ms(store: Materialized, needed_ms: int) -> int:
    if store.history is not None:
        raise declaration_error(
            f"Store {store.name!r} has a history, but its table is windowed: only plain tables can"
            " be versioned. Use retention= to keep windows longer."
        )
    if store.retention is None:
        return needed_ms
    retention_ms = duration_ms(store.retention, f"retention of store {store.name!r}")
    if retention_ms < needed_ms:
        raise declaration_error(
            f"Store {store.name!r} has a retention of {retention_ms} ms, but its windows stay open"
            f" for {needed_ms} ms (size + grace): open windows would be lost. Raise the retention"
            " or lower the grace."
        )
    return retention_ms


def _spec(
    store: Materialized,
    kind: str,
    key: Serde[Any],
    value: Serde[Any],
    defaults: StoreDefaults,
    **options: Any,
) -> StoreSpec:
    if store.segment_interval is not None:
        options["segment_interval_ms"] = duration_ms(
            store.segment_interval, f"segment_interval of store {store.name!r}", at_least=1
        )
    in_memory = defaults.in_memory if store.in_memory is None else store.in_memory
    is_versioned = "history_ms" in options
    in_memory = (in_memory or store.capacity is not None) and not is_versioned
    # Kafka Streams has no stores in memory with headers (KIP-1271): they are to be asked for.
    with_headers = store.headers
    if with_headers is None:
        with_headers = defaults.with_headers and not in_memory and not is_versioned
    return StoreSpec(
        name=store.name,
        kind=kind,
        key=key,
        value=value,
        in_memory=in_memory,
        is_logged=store.logged,
        with_headers=with_headers,
        changelog_config=store.changelog_config,
        deletes=store.deletes,
        declared_at=declaration_site(),
        **options,
    )
