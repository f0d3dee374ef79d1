"""Stores of several elements per key, for processors: lists, maps, sets, and counters.

Each element is one row and one record of the changelog, so a change costs the same whether a key
has one element or a million.
"""

from __future__ import annotations

import typing
from collections.abc import Mapping
from datetime import date, datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID

from logstate.contracts.serde import Serde
from logstate.contracts.stores import TtlClock
from logstate.contracts.typed_stores import (
    CounterStore,
    ListStore,
    MapStore,
    SetStore,
    StoreDeclaration,
)
from logstate.serdes.ordered_serde import ordered_of
from logstate.topology.declaring.argument_checks import check_count
from logstate.topology.declaring.declaration_site import declaration_error
from logstate.topology.declaring.serde_arguments import required_serde
from logstate.topology.processor.processor_stores import declared_store, ttl_options

K = TypeVar("K")
M = TypeVar("M")
V = TypeVar("V")

#: types whose usual serde does not have the order of the values; that of text and bytes has
_REORDERED = frozenset({int, float, datetime, date, UUID})


def list_store(
    name: str,
    key: type[K] | Serde[K],
    value: type[V] | Serde[V],
    *,
    max_size: int | None = None,
    in_memory: bool = False,
    logged: bool = True,
    changelog_config: Mapping[str, str] | None = None,
) -> StoreDeclaration[ListStore[K, V]]:
    """A store of lists: the values of a key, in the order in which they were appended.

    >>> from logstate import Processor, StreamsBuilder, TopologyTestDriver, list_store
    >>> orders = list_store("orders", str, int, max_size=2)
    >>> class Keep(Processor):
    ...     def process(self, record):
    ...         self.context.store(orders).append(record.key, record.value)
    >>> builder = StreamsBuilder()
    >>> _ = builder.stream("in", value=int).process(Keep, stores=orders)
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.pipe_all("in", [("ada", 3, 0), ("ada", 4, 1), ("ada", 5, 2), ("bob", 6, 3)])
    ...     store = driver.store("orders")
    ...     list(store.values("ada")), store.get("ada", -1), store.size("bob")
    ([4, 5], 5, 1)

    Semantics: ``append`` adds at the end; ``pop`` removes the newest value and ``pop_first`` the
    oldest. ``get(key, index)`` and ``set(key, index, value)`` count from the oldest value, from 0,
    and a negative index from the newest. Each value is a row at a position, which it keeps:
    ``items`` and changelogs show positions. A list that became empty begins at position 0 again.
    Values are never None. The order is that of the calls: a late record is appended when it comes.

    Args:
        name: the store's name.
        key: type or serde of the keys.
        value: type or serde of the values.
        max_size: the most values of a key; an append to a full list removes the oldest ones.
        in_memory: keep rows in memory instead of RocksDB.
        logged: whether there is a changelog.
        changelog_config: settings of the changelog topic, over those that the store needs.

    Returns:
        The declaration, for ``add_store`` or ``stores=``. ``context.store(orders)`` returns the
        store with its types, ``ListStore[str, int]``; by its name it is ``Any``.

    Raises:
        TopologyError: the name cannot be part of a topic's name, a type has no serde, or
            ``max_size`` is below one.

    Source: of this library; as Flink's ``ListState``, with one row per element.
    """
    return _of_elements(
        name, "list", key, value, ordered_of([int]), max_size,
        in_memory=in_memory, is_logged=logged, changelog_config=changelog_config,
    )  # fmt: skip


def map_store(
    name: str,
    key: type[K] | Serde[K],
    map_key: type[M] | Serde[M],
    value: type[V] | Serde[V],
    *,
    max_size: int | None = None,
    in_memory: bool = False,
    logged: bool = True,
    ttl: timedelta | None = None,
    ttl_by: TtlClock = "stream_time",
    expired: str | None = None,
    renew_on_read: bool = False,
    changelog_config: Mapping[str, str] | None = None,
) -> StoreDeclaration[MapStore[K, M, V]]:
    """A store of maps: per key, a value per map key.

    >>> from logstate import Processor, StreamsBuilder, TopologyTestDriver, map_store
    >>> prices = map_store("prices", key=str, map_key=int, value=int)
    >>> class Keep(Processor):
    ...     def process(self, record):
    ...         self.context.store(prices).put(record.key, record.timestamp, record.value)
    >>> builder = StreamsBuilder()
    >>> _ = builder.stream("in", value=int).process(Keep, stores=prices)
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.pipe_all("in", [("tea", 3, 20), ("tea", 5, 7), ("tea", 4, 100), ("rum", 9, 101)])
    ...     list(driver.store("prices").items("tea", 10))
    [(20, 3), (100, 4)]

    Semantics: ``put(key, map_key, None)`` deletes; values are never None. ``items(key)`` goes in
    the order of the map keys: numbers, times, UUIDs, and tuples of these and of text are stored in
    their order (:func:`logstate.serdes.ordered`), text and bytes by their bytes, map keys of
    another serde by the bytes that it writes.

    Args: as for :func:`list_store`, and
        map_key: type or serde of the map keys.
        max_size: the most map keys of a key, which keeps the greatest: a new one that is too many
            removes the smallest, which may be the new one.
        ttl: a map key expires so long after the time of the record that was processed when it was
            put, see :func:`key_value_store`. Not together with ``max_size``.
        ttl_by: with a ttl: ``"wall_clock"`` counts it by the wall clock, as there.
        expired: with a ttl: name of the stream of the map keys that expire, see
            :meth:`StreamsBuilder.expired`: its keys are those of the store, its values are pairs of
            a map key and its value.
        renew_on_read: with a ttl: ``get`` of a processor gives the map key that it finds the time
            of the current record, if that is later, as there. ``items`` renews nothing.

    Source: of this library; as Flink's ``MapState``, with one row per element.
    """
    element = element_serde(map_key, f"the map key of store {name!r}", "map_key")
    return _of_elements(
        name, "map", key, value, element, max_size,
        in_memory=in_memory, is_logged=logged, changelog_config=changelog_config,
        **ttl_options(name, ttl, ttl_by, expired, renew_on_read),
    )  # fmt: skip


def set_store(
    name: str,
    key: type[K] | Serde[K],
    value: type[V] | Serde[V],
    *,
    max_size: int | None = None,
    in_memory: bool = False,
    logged: bool = True,
    ttl: timedelta | None = None,
    ttl_by: TtlClock = "stream_time",
    expired: str | None = None,
    renew_on_read: bool = False,
    changelog_config: Mapping[str, str] | None = None,
) -> StoreDeclaration[SetStore[K, V]]:
    """A store of sets: per key, values without duplicates.

    >>> from logstate import Processor, StreamsBuilder, TopologyTestDriver, set_store
    >>> seen = set_store("seen", str, str)
    >>> class OnlyNew(Processor):
    ...     def process(self, record):
    ...         if self.context.store(seen).add(record.key, record.value):
    ...             self.context.forward(record)
    >>> builder = StreamsBuilder()
    >>> clicks = builder.stream("clicks", value=str)
    >>> clicks.process(OnlyNew, stores=seen, key=str, value=str).to("new")
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.pipe_all("clicks", [("ada", "b", 0), ("ada", "a", 1), ("ada", "b", 2)])
    ...     driver.read("new", value=str), list(driver.store("seen").values("ada"))
    ([('ada', 'b'), ('ada', 'a')], ['a', 'b'])

    Semantics: two values are the same if their serde writes the same bytes. ``add`` and ``discard``
    return whether they changed the set, and log nothing if they did not. ``values(key)`` goes in
    the order that :func:`map_store` describes for map keys.

    Args: as for :func:`list_store`, and
        max_size: the most values of a key, which keeps the greatest, as :func:`map_store` does.
        ttl: a value expires so long after the time of the record that was processed when it was
            last added, as in :func:`map_store`: ``add`` of a value that is there renews it.
        ttl_by: with a ttl: ``"wall_clock"`` counts it by the wall clock, as there.
        expired: with a ttl: name of the stream of the values that expire, see
            :meth:`StreamsBuilder.expired`.
        renew_on_read: with a ttl: ``contains`` of a processor renews the value that it finds, too,
            as ``get`` of a map does. ``values`` renews nothing.

    Source: of this library; as Flink's ``MapState`` with its keys alone.
    """
    element = element_serde(value, f"the value of store {name!r}", "value")
    return _of_elements(
        name, "set", key, element, element, max_size,
        in_memory=in_memory, is_logged=logged, changelog_config=changelog_config,
        **ttl_options(name, ttl, ttl_by, expired, renew_on_read),
    )  # fmt: skip


def counter_store(
    name: str,
    key: type[K] | Serde[K],
    *,
    in_memory: bool = False,
    logged: bool = True,
    ttl: timedelta | None = None,
    ttl_by: TtlClock = "stream_time",
    expired: str | None = None,
    renew_on_read: bool = False,
    changelog_config: Mapping[str, str] | None = None,
) -> StoreDeclaration[CounterStore[K]]:
    """A store of a whole number per key, to which processors add.

    >>> from logstate import Processor, StreamsBuilder, TopologyTestDriver, counter_store
    >>> visits = counter_store("visits", str)
    >>> class Count(Processor):
    ...     def process(self, record):
    ...         number = self.context.store(visits).add(record.key)
    ...         self.context.forward(record._replace(value=number))
    >>> builder = StreamsBuilder()
    >>> pages = builder.stream("pages", value=str)
    >>> pages.process(Count, stores=visits, key=str, value=int).to("numbers")
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.pipe_all("pages", [("ada", "x", 0), ("ada", "y", 1), ("bob", "x", 2)])
    ...     driver.read("numbers", value=int)
    [('ada', 1), ('ada', 2), ('bob', 1)]

    Semantics: a key-value store of ints; ``add(key, amount=1)`` reads, adds and writes in one call,
    and returns the sum. A key that was never added to has no row: ``get`` returns None. A sum that
    does not fit into 64 bits raises SerdeError, and the number stays as it was.

    Args:
        name: unique in the topology; part of the changelog topic's name.
        key: the type or serde of keys.
        in_memory: keep rows in memory instead of RocksDB; the changelog stays.
        logged: whether the store has a changelog.
        ttl: a counter expires so long after it was last added to, see :func:`key_value_store`.
        ttl_by: with a ttl: ``"wall_clock"`` counts it by the wall clock, as there.
        expired: with a ttl: name of the stream of the counters that expire, see
            :meth:`StreamsBuilder.expired`.
        renew_on_read: with a ttl: ``get`` renews the counter that it finds, as there.
        changelog_config: configuration of the changelog topic.

    Returns:
        The declaration, for ``process(stores=...)`` and ``context.store(...)``.

    Source: of this library; as Flink's ``ReducingState`` of a sum.
    """
    return declared_store(
        name, "counter", key, int,
        in_memory=in_memory, is_logged=logged, changelog_config=changelog_config,
        **ttl_options(name, ttl, ttl_by, expired, renew_on_read),
    )  # fmt: skip


def element_serde(declared: Any, what: str, option: str) -> Serde[Any]:
    """Return the serde of elements: one whose bytes have the order of the values, if there is one.

    >>> element_serde(tuple[str, int], "the map key", "map_key").describe()["parts"]
    ['string', 'int64']
    """
    if isinstance(declared, Serde):
        return required_serde(declared, None, what, option)
    is_tuple = typing.get_origin(declared) is tuple or hasattr(declared, "_fields")
    if declared in _REORDERED or (is_tuple and _are_ordered(declared)):
        return ordered_of([declared])
    return required_serde(declared, None, what, option)


def _are_ordered(declared: Any) -> bool:
    hints = typing.get_type_hints(declared) if hasattr(declared, "_fields") else {}
    parts = tuple(hints.values()) or typing.get_args(declared)
    return bool(parts) and all(part in _REORDERED | {str, bytes, bool} for part in parts)


def _of_elements(
    name: str,
    kind: str,
    key: Any,
    value: Any,
    element: Serde[Any],
    max_size: int | None,
    **options: Any,
) -> StoreDeclaration[Any]:
    check_count(max_size, f"max_size of store {name!r}")
    if options.get("ttl_ms") is not None and max_size is not None:
        raise declaration_error(
            f"Store {name!r} has a ttl and a max_size, and both determine when its elements are"
            " removed. Leave out one of ttl= and max_size=."
        )
    return declared_store(
        name, kind, key, value,
        element=element, capacity=max_size, **options,
    )  # fmt: skip
