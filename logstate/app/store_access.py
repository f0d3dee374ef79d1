"""The stores of an application, for reading: of this instance, and over all instances.

The types of a store follow from its declaration, or from ``key=``, ``value=`` and ``kind=``, which
are compared with the topology (:mod:`logstate.queries.store_types`).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from functools import cached_property
from os import getpid
from typing import Any, Literal, TypedDict, TypeVar, Unpack, overload

from logstate.app.instance.owner_process import OwnerProcess
from logstate.app.instance.worker_processes import WorkerProcesses
from logstate.app.local_worker import LocalWorker
from logstate.app.presence import Presence, not_asked_for, presence_of
from logstate.app.settings import Settings
from logstate.contracts.errors import ConfigError, check
from logstate.contracts.records import Windowed
from logstate.contracts.serde import Serde
from logstate.contracts.setting_rules import durations, positions
from logstate.contracts.stores import StoreSpec, ValueAndTimestamp, VersionedRecord
from logstate.contracts.typed_stores import (
    ElementStore,
    KeyValueStore,
    SessionStore,
    StoreDeclaration,
    VersionedStore,
    WindowStore,
    name_of,
)
from logstate.http.remote_store import AsyncRemoteStore, RemoteStore
from logstate.queries.queries import QueryableStore
from logstate.queries.store_types import (
    DEFAULT_KIND,
    QueryKind,
    declaration_problems,
    type_problems,
)
from logstate.topics.placement import BY_HASH

K = TypeVar("K")
G = TypeVar("G")
V = TypeVar("V")
_ANSWER_WITHIN = timedelta(seconds=10)


class LocalOptions(TypedDict, total=False):
    """Options of reads of this instance."""

    max_age: timedelta | None
    standbys: bool
    placed_by: Literal["murmur2"] | None


class RemoteOptions(TypedDict, total=False):
    """Options of reads over all instances."""

    timeout: timedelta
    at_least: Mapping[Any, int] | None
    max_age: timedelta | None
    standbys: bool


class StoreAccess:
    """The workers of an application, and their stores for reading. Thread-safe."""

    _settings: Settings
    _held: LocalWorker | WorkerProcesses

    @cached_property
    def _owner(self) -> OwnerProcess:
        return OwnerProcess(self._settings.application_id)

    @property
    def _workers(self) -> LocalWorker | WorkerProcesses:
        """The workers; raises LogstateError in a process that was forked from the one that has
        them.
        """
        if self._owner.pid != getpid():
            self._owner.check()
        return self._held

    @_workers.setter
    def _workers(self, workers: LocalWorker | WorkerProcesses) -> None:
        self._owner.check()
        self._held = workers

    @cached_property
    def _presence(self) -> Presence | None:
        return presence_of(self._settings, self._workers)

    @overload
    def store(
        self, name: StoreDeclaration[KeyValueStore[K, V]], **options: Unpack[LocalOptions]
    ) -> QueryableStore[K, K, V, V | None]: ...
    @overload
    def store(
        self, name: StoreDeclaration[ElementStore[K, G, V]], **options: Unpack[LocalOptions]
    ) -> QueryableStore[K, G, V, V | None]: ...
    @overload
    def store(
        self,
        name: StoreDeclaration[WindowStore[K, V]] | StoreDeclaration[SessionStore[K, V]],
        **options: Unpack[LocalOptions],
    ) -> QueryableStore[K, Windowed[K], V, V | None]: ...
    @overload
    def store(
        self, name: StoreDeclaration[VersionedStore[K, V]], **options: Unpack[LocalOptions]
    ) -> QueryableStore[K, K, VersionedRecord[V], VersionedRecord[V] | None]: ...
    @overload
    def store(
        self,
        name: str,
        *,
        key: type[K] | Serde[K],
        value: type[V] | Serde[V],
        kind: Literal["timestamped_key_value"] = ...,
        **options: Unpack[LocalOptions],
    ) -> QueryableStore[K, K, ValueAndTimestamp[V], ValueAndTimestamp[V] | None]: ...
    @overload
    def store(
        self,
        name: str,
        *,
        key: type[K] | Serde[K],
        value: type[V] | Serde[V],
        kind: Literal["key_value"],
        **options: Unpack[LocalOptions],
    ) -> QueryableStore[K, K, V, V | None]: ...
    @overload
    def store(
        self,
        name: str,
        *,
        key: type[K] | Serde[K],
        value: type[V] | Serde[V],
        kind: Literal["timestamped_window"],
        **options: Unpack[LocalOptions],
    ) -> QueryableStore[K, Windowed[K], ValueAndTimestamp[V], ValueAndTimestamp[V] | None]: ...
    @overload
    def store(
        self,
        name: str,
        *,
        key: type[K] | Serde[K],
        value: type[V] | Serde[V],
        kind: Literal["window", "session"],
        **options: Unpack[LocalOptions],
    ) -> QueryableStore[K, Windowed[K], V, V | None]: ...
    @overload
    def store(
        self,
        name: str,
        *,
        key: type[K] | Serde[K],
        value: type[V] | Serde[V],
        kind: Literal["versioned"],
        **options: Unpack[LocalOptions],
    ) -> QueryableStore[K, K, VersionedRecord[V], VersionedRecord[V] | None]: ...
    @overload
    def store(
        self,
        name: str,
        *,
        key: Any = ...,
        value: Any = ...,
        kind: QueryKind | None = ...,
        **options: Unpack[LocalOptions],
    ) -> QueryableStore[Any, Any, Any, Any]: ...
    def store(
        self,
        name: str | StoreDeclaration[Any],
        *,
        key: Any = None,
        value: Any = None,
        kind: QueryKind | None = None,
        max_age: timedelta | None = None,
        standbys: bool = False,
        placed_by: Literal["murmur2"] | None = None,
    ) -> QueryableStore[Any, Any, Any, Any]:
        """Return a store for reading committed local state from any thread; also for global stores.

        ``name`` is the name, or the declaration of a processor's store, which determines the types
        of the result. With a name, ``key`` and ``value`` do: the types or serdes of the topology.
        They are compared with it, so a wrong one raises ConfigError here. Rows of a store of the
        DSL are ``ValueAndTimestamp``. ``kind`` is the kind of any other store than that of a table
        that is not windowed: "key_value", "timestamped_window", "window", "session", "versioned".
        Without ``key`` and ``value`` the result is not typed.

        It also answers while the brokers are unavailable, with the last committed state; ``age`` of
        the store shows its age: the time since the rows included everything that their task's
        inputs contained. With ``max_age`` a read raises StoreUnavailableError instead of returning
        older state. With ``standbys`` the standbys of other instances' tasks answer too
        (``standby_replicas``): committed rows, mostly from the last seconds; ``age`` shows their
        age, and ``lag`` how many changelog offsets they are behind. The Kafka Streams setting is
        ``enableStaleStores``.

        A read by key that finds nothing also raises StoreUnavailableError if other programs write
        the input and some partitions are not here: the key may be in one of those. If all of them
        place keys as Kafka's own clients do, pass ``placed_by="murmur2"`` to get None instead.
        Raises ConfigError for any other value, and for a ``max_age`` that is not a timedelta;
        StoreUnavailableError for a name that the topology does not have.

        >>> from logstate import Application, StreamsBuilder
        >>> builder = StreamsBuilder()
        >>> spend = builder.stream("orders", value=int).group_by_key().count(store="spend")
        >>> app = Application(builder.build(), application_id="shop", bootstrap="localhost:9092",
        ...                   state_dir="state")
        >>> app.store("spend", key=str, value=int).name
        'spend'
        >>> app.store("spend", key=str, value=str)
        Traceback (most recent call last):
            ...
        logstate.contracts.errors.ConfigError: app.store('spend') declares value=str, and the \
values of the store have <serde int64>, which reads int. Give the type or the serde that the \
topology declares
        """
        if max_age is not None:
            check(durations("store()", max_age=max_age))
        stores = self._workers.stores
        named = name if isinstance(name, str) else name.name
        store = stores.named(named, max_age, standbys=standbys)
        if not (isinstance(name, str) and key is value is kind is None):
            _check_types("app.store", stores.places[store.name].spec, name, key, value, kind)
        if placed_by is not None:
            if placed_by != BY_HASH:
                raise ConfigError(
                    f"unknown placed_by={placed_by!r}: use 'murmur2' for the partitioner of Kafka's"
                    " own clients. For another partitioner, pass partition= with each read"
                )
            store.is_placed = True
        return store

    @overload
    def remote_store(
        self, name: StoreDeclaration[KeyValueStore[K, V]], **options: Unpack[RemoteOptions]
    ) -> RemoteStore[K, K, V, V | None]: ...
    @overload
    def remote_store(
        self, name: StoreDeclaration[ElementStore[K, G, V]], **options: Unpack[RemoteOptions]
    ) -> RemoteStore[K, G, V, V | None]: ...
    @overload
    def remote_store(
        self,
        name: StoreDeclaration[WindowStore[K, V]] | StoreDeclaration[SessionStore[K, V]],
        **options: Unpack[RemoteOptions],
    ) -> RemoteStore[K, Windowed[K], V, V | None]: ...
    @overload
    def remote_store(
        self, name: StoreDeclaration[VersionedStore[K, V]], **options: Unpack[RemoteOptions]
    ) -> RemoteStore[K, K, VersionedRecord[V], VersionedRecord[V] | None]: ...
    @overload
    def remote_store(
        self,
        name: str,
        *,
        key: type[K] | Serde[K],
        value: type[V] | Serde[V],
        kind: Literal["timestamped_key_value"] = ...,
        **options: Unpack[RemoteOptions],
    ) -> RemoteStore[K, K, ValueAndTimestamp[V], ValueAndTimestamp[V] | None]: ...
    @overload
    def remote_store(
        self,
        name: str,
        *,
        key: type[K] | Serde[K],
        value: type[V] | Serde[V],
        kind: Literal["key_value"],
        **options: Unpack[RemoteOptions],
    ) -> RemoteStore[K, K, V, V | None]: ...
    @overload
    def remote_store(
        self,
        name: str,
        *,
        key: type[K] | Serde[K],
        value: type[V] | Serde[V],
        kind: Literal["timestamped_window"],
        **options: Unpack[RemoteOptions],
    ) -> RemoteStore[K, Windowed[K], ValueAndTimestamp[V], ValueAndTimestamp[V] | None]: ...
    @overload
    def remote_store(
        self,
        name: str,
        *,
        key: type[K] | Serde[K],
        value: type[V] | Serde[V],
        kind: Literal["window", "session"],
        **options: Unpack[RemoteOptions],
    ) -> RemoteStore[K, Windowed[K], V, V | None]: ...
    @overload
    def remote_store(
        self,
        name: str,
        *,
        key: type[K] | Serde[K],
        value: type[V] | Serde[V],
        kind: Literal["versioned"],
        **options: Unpack[RemoteOptions],
    ) -> RemoteStore[K, K, VersionedRecord[V], VersionedRecord[V] | None]: ...
    @overload
    def remote_store(
        self,
        name: str,
        *,
        key: Any = ...,
        value: Any = ...,
        kind: QueryKind | None = ...,
        **options: Unpack[RemoteOptions],
    ) -> RemoteStore[Any, Any, Any, Any]: ...
    def remote_store(
        self,
        name: str | StoreDeclaration[Any],
        *,
        key: Any = None,
        value: Any = None,
        kind: QueryKind | None = None,
        timeout: timedelta = _ANSWER_WITHIN,
        at_least: Mapping[Any, int] | None = None,
        max_age: timedelta | None = None,
        standbys: bool = False,
    ) -> RemoteStore[Any, Any, Any, Any]:
        """Return a store over all instances: each read goes to the owner of the partition.

        ``name``, ``key``, ``value`` and ``kind`` determine the types of the result, and are checked
        against the topology, as in :meth:`store`.

        Reads are retried during a rebalance, until ``timeout``; then StoreUnavailableError has the
        reason. ``at_least`` are positions, ``{"topic-partition": offset}``, that an answer must
        have reached: the first offsets that it may lack. With ``standbys`` a standby answers if the
        task's owner does not; ``answer(...).lag`` shows its lag, and ``max_age`` limits its age.
        Raises ConfigError for ``standbys`` with ``at_least``, because standbys do not know their
        input positions.
        """
        present = self._running_presence("remote_store()")
        check(
            durations("remote_store()", timeout=timeout),
            durations("remote_store()", max_age=max_age, optional=True),
            positions("at_least of remote_store()", at_least or {}),
        )
        if standbys and at_least:
            raise ConfigError(
                "standbys=True and at_least= exclude each other: a standby does not know which"
                " input records it includes. Leave one of them out"
            )
        spec = present.lookup.place(name_of(name)).spec
        _check_types("app.remote_store", spec, name, key, value, kind)
        return present.remote_store(spec.name, timeout, at_least or {}, max_age, standbys=standbys)

    @overload
    def async_remote_store(
        self, name: StoreDeclaration[KeyValueStore[K, V]], **options: Unpack[RemoteOptions]
    ) -> AsyncRemoteStore[K, K, V, V | None]: ...
    @overload
    def async_remote_store(
        self, name: StoreDeclaration[ElementStore[K, G, V]], **options: Unpack[RemoteOptions]
    ) -> AsyncRemoteStore[K, G, V, V | None]: ...
    @overload
    def async_remote_store(
        self,
        name: StoreDeclaration[WindowStore[K, V]] | StoreDeclaration[SessionStore[K, V]],
        **options: Unpack[RemoteOptions],
    ) -> AsyncRemoteStore[K, Windowed[K], V, V | None]: ...
    @overload
    def async_remote_store(
        self, name: StoreDeclaration[VersionedStore[K, V]], **options: Unpack[RemoteOptions]
    ) -> AsyncRemoteStore[K, K, VersionedRecord[V], VersionedRecord[V] | None]: ...
    @overload
    def async_remote_store(
        self,
        name: str,
        *,
        key: type[K] | Serde[K],
        value: type[V] | Serde[V],
        kind: Literal["timestamped_key_value"] = ...,
        **options: Unpack[RemoteOptions],
    ) -> AsyncRemoteStore[K, K, ValueAndTimestamp[V], ValueAndTimestamp[V] | None]: ...
    @overload
    def async_remote_store(
        self,
        name: str,
        *,
        key: type[K] | Serde[K],
        value: type[V] | Serde[V],
        kind: Literal["key_value"],
        **options: Unpack[RemoteOptions],
    ) -> AsyncRemoteStore[K, K, V, V | None]: ...
    @overload
    def async_remote_store(
        self,
        name: str,
        *,
        key: type[K] | Serde[K],
        value: type[V] | Serde[V],
        kind: Literal["timestamped_window"],
        **options: Unpack[RemoteOptions],
    ) -> AsyncRemoteStore[K, Windowed[K], ValueAndTimestamp[V], ValueAndTimestamp[V] | None]: ...
    @overload
    def async_remote_store(
        self,
        name: str,
        *,
        key: type[K] | Serde[K],
        value: type[V] | Serde[V],
        kind: Literal["window", "session"],
        **options: Unpack[RemoteOptions],
    ) -> AsyncRemoteStore[K, Windowed[K], V, V | None]: ...
    @overload
    def async_remote_store(
        self,
        name: str,
        *,
        key: type[K] | Serde[K],
        value: type[V] | Serde[V],
        kind: Literal["versioned"],
        **options: Unpack[RemoteOptions],
    ) -> AsyncRemoteStore[K, K, VersionedRecord[V], VersionedRecord[V] | None]: ...
    @overload
    def async_remote_store(
        self,
        name: str,
        *,
        key: Any = ...,
        value: Any = ...,
        kind: QueryKind | None = ...,
        **options: Unpack[RemoteOptions],
    ) -> AsyncRemoteStore[Any, Any, Any, Any]: ...
    def async_remote_store(
        self, name: str | StoreDeclaration[Any], **options: Any
    ) -> AsyncRemoteStore[Any, Any, Any, Any]:
        """Return the same store for asyncio; takes the arguments of ``remote_store``."""
        store = self.remote_store(name, **options)
        return AsyncRemoteStore(store, self._running_presence("async_remote_store()").asking)

    def _running_presence(self, what: str) -> Presence:
        if self._presence is None:
            raise not_asked_for(what)
        return self._presence


def _check_types(
    what: str, spec: StoreSpec, name: str | StoreSpec, key: object, value: object, kind: str | None
) -> None:
    call = f"{what}({spec.name!r})"
    if not isinstance(name, str):
        if (key, value, kind) != (None, None, None):
            raise ConfigError(
                f"{call}: the declaration has the types of the store. Leave key=, value= and kind="
                " out, or give the name"
            )
        check(declaration_problems(call, spec, name))
        return
    if kind is None and key is not None and value is not None:
        kind = DEFAULT_KIND  # the overload for them says so
    check(type_problems(call, spec, key, value, kind))
