"""Metadata for interactive queries, as in Kafka Streams: who has a store, and a key of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from logstate.contracts.error_text import text_of
from logstate.contracts.errors import SerdeError, StoreUnavailableError
from logstate.contracts.partitioner import StorePlace, partition_of, place_of
from logstate.directory.entries import InstanceEntry, InstanceMetrics, TaskEntry
from logstate.directory.known_instances import KnownInstances, Owner


@dataclass(frozen=True)
class StreamsMetadata:
    """One instance of the application, from its last entry."""

    #: id of this run of the instance
    instance: str
    #: ``http://host:port`` for queries
    host: str
    rack: str
    version: str
    #: number of worker slots, and their transactional ids
    workers: int
    members: tuple[str, ...]
    #: its stores with their partitions here; every instance has all global stores
    state_stores: Mapping[str, tuple[int, ...]]
    #: task -> its stage, lag and positions
    tasks: Mapping[str, TaskEntry]
    #: standbys of other instances' tasks -> lag in changelog offsets; None: unknown
    standbys: Mapping[str, int | None]
    #: counters since its start
    figures: InstanceMetrics
    #: time since its last entry, by the local clock
    silent_ms: float


@dataclass(frozen=True)
class KeyQueryMetadata:
    """The owner of a key."""

    active_host: str
    instance: str
    partition: int
    #: task id in the format of Kafka Streams, ``0_3``
    task: str
    #: whether it answers now; otherwise it is restoring
    is_readable: bool
    #: instances with a standby of the task
    standby_hosts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Lookup:
    """Finds owners. ``why_not`` returns why the directory is unavailable; None while it is
    available.

    Thread-safe; makes no requests.
    """

    places: Mapping[str, StorePlace]
    known: KnownInstances
    now_ms: Callable[[], float]
    why_not: Callable[[], str | None]

    def instances(self) -> list[StreamsMetadata]:
        """Return all instances with recent heartbeats."""
        return [self._metadata(entry) for entry in self.known.live(self.now_ms())]

    def of_store(self, store: str) -> list[StreamsMetadata]:
        """Return the instances that have partitions of a store.

        Raises StoreUnavailableError for a name that the topology does not have.
        """
        self.place(store)
        return [one for one in self.instances() if store in one.state_stores]

    def of_key(self, store: str, key: Any, partition: int | None = None) -> KeyQueryMetadata:
        """Return the instance that has a key; ``partition`` if it is not the default one.

        If other programs write the input with a partitioner other than murmur2, the key is in
        another partition.

        Raises StoreUnavailableError, with the reason, if the owner is unknown; SerdeError for a key
        of another type.
        """
        place = self.place(store)
        if partition is None:
            partition = self.partition_of_key(place, key)
        return self.of_partition(place, partition)

    def partition_of_key(self, place: StorePlace, key: Any) -> int:
        """Apply the default partitioner; raises as ``of_key`` does."""
        return partition_of(self._encoded(place, key), self.task_count(place))

    def of_partition(self, place: StorePlace, partition: int) -> KeyQueryMetadata:
        """Return the instance that has a partition of a store; raises as ``of_key`` does."""
        self._check(place.name)
        task = f"{place.sub_topology}_{partition}"
        if place.is_global:  # every instance has all of it
            found = Owner(next(iter(self.known.live(self.now_ms())), None), "no live instance")
        else:
            found = self.known.owner(task, self.now_ms())
        if found.entry is None:
            raise StoreUnavailableError(f"store {place.name!r}: {found.reason}. Try again")
        if not found.entry.address:
            raise StoreUnavailableError(
                f"store {place.name!r}: task {task} is on instance {found.entry.instance}, which"
                " does not serve queries: give its Application serve= as well"
            )
        task_entry = found.entry.tasks.get(task)
        is_readable = task_entry is None or task_entry.is_readable
        entry = found.entry
        return KeyQueryMetadata(
            entry.address, entry.instance, partition, task, is_readable, self._copies(task)
        )

    def copies(self, place: StorePlace, partition: int) -> list[tuple[str, str]]:
        """Return instance and address of serving standbys of a task, the one with the least lag
        first.
        """
        task = f"{place.sub_topology}_{partition}"
        found = [
            (lag, entry.instance, entry.address)
            for entry in self.known.live(self.now_ms())
            if entry.address and (lag := entry.standbys.get(task)) is not None
        ]
        return [(instance, address) for _, instance, address in sorted(found)]

    def place(self, store: str) -> StorePlace:
        """Return the place of a store in the topology; raise StoreUnavailableError for others."""
        return place_of(self.places, store)

    def task_count(self, place: StorePlace) -> int:
        """Return the partition count of a store."""
        self._check(place.name)
        count = 1 if place.is_global else self.known.task_count(place.sub_topology, self.now_ms())
        if count is None:
            raise StoreUnavailableError(
                f"store {place.name!r}: no instance has reported its partition count yet. Try again"
            )
        return count

    def task_counts(self, sub_topologies: Iterable[int]) -> dict[int, int]:
        """Map sub-topologies to partition counts, for those that an instance has reported."""
        now = self.now_ms()
        counts = {number: self.known.task_count(number, now) for number in sub_topologies}
        return {number: count for number, count in counts.items() if count is not None}

    # ------------------------------------------------------------------ pieces

    def _check(self, store: str) -> None:
        why = self.why_not()
        if why is not None:
            raise StoreUnavailableError(f"store {store!r}: the owner is unknown: {why}")

    def _copies(self, task: str) -> tuple[str, ...]:
        live = self.known.live(self.now_ms())
        return tuple(sorted(e.address for e in live if task in e.standbys and e.address))

    def _encoded(self, place: StorePlace, key: Any) -> bytes:
        try:
            return place.encode_key(key)
        except Exception as exc:
            raise SerdeError(
                f"store {place.name!r}: the key {key!r:.100} does not fit its key serde:"
                f" {type(exc).__name__}: {text_of(exc)}"
            ) from exc

    def _metadata(self, entry: InstanceEntry) -> StreamsMetadata:
        partitions: dict[int, list[int]] = {}
        for task in sorted(entry.tasks):
            sub_topology, _, partition = task.partition("_")
            partitions.setdefault(int(sub_topology), []).append(int(partition))
        stores = {
            place.name: (0,) if place.is_global else tuple(sorted(partitions[place.sub_topology]))
            for place in self.places.values()
            if place.is_global or place.sub_topology in partitions
        }
        return StreamsMetadata(
            entry.instance,
            entry.address,
            entry.rack,
            entry.version,
            entry.workers,
            entry.members,
            stores,
            entry.tasks,
            entry.standbys,
            entry.figures,
            self.known.silent_ms(entry.instance, self.now_ms()),
        )
