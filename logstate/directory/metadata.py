"""Who has a store, and who has a key of it: Kafka Streams' metadata of interactive queries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from logstate.contracts.error_text import text_of
from logstate.contracts.errors import SerdeError, StoreUnavailableError
from logstate.contracts.partitioner import partition_of
from logstate.directory.entries import InstanceEntry, InstanceMetrics, TaskEntry
from logstate.directory.known_instances import KnownInstances, Owner


@dataclass(frozen=True)
class StreamsMetadata:
    """One instance of the application, as it told of itself last."""

    #: of this run of it
    instance: str
    #: where it answers, as ``http://host:port``
    host: str
    rack: str
    version: str
    #: slots of workers, and their transactional ids
    workers: int
    members: tuple[str, ...]
    #: stores of which it has partitions, with these; of global ones every instance has all
    state_stores: Mapping[str, tuple[int, ...]]
    #: task -> its stage, lag and positions
    tasks: Mapping[str, TaskEntry]
    #: tasks of others whose state it copies -> offsets of changelogs that it lacks; None: not known
    standbys: Mapping[str, int | None]
    #: what it has counted since its start
    figures: InstanceMetrics
    #: since it was heard of, by the clock of whoever asks
    silent_ms: float


@dataclass(frozen=True)
class KeyQueryMetadata:
    """Who has a key."""

    active_host: str
    instance: str
    partition: int
    #: as Kafka Streams shows it, ``0_3``
    task: str
    #: whether it answers now; else it restores
    is_readable: bool
    #: instances that copy the task's state
    standby_hosts: tuple[str, ...] = ()


@dataclass(frozen=True)
class StorePlace:
    """Which sub-topology has a store, and how its keys become bytes."""

    name: str
    sub_topology: int
    is_global: bool
    encode_key: Callable[[Any], bytes]
    #: the application itself put each key where its hash says
    is_placed: bool = True
    #: its tasks read whatever topics match, so there may be more of them later
    reads_patterns: bool = False


@dataclass(frozen=True)
class Lookup:
    """Finds owners. ``why_not`` says why the directory cannot be asked; None while it can.

    From any thread; asks nobody.
    """

    places: Mapping[str, StorePlace]
    known: KnownInstances
    now_ms: Callable[[], float]
    why_not: Callable[[], str | None]

    def instances(self) -> list[StreamsMetadata]:
        """Every instance that was heard of lately."""
        return [self._metadata(entry) for entry in self.known.live(self.now_ms())]

    def of_store(self, store: str) -> list[StreamsMetadata]:
        """The instances that have partitions of a store.

        Raises StoreUnavailableError for a name that the topology does not have.
        """
        self.place(store)
        return [one for one in self.instances() if store in one.state_stores]

    def of_key(self, store: str, key: Any, partition: int | None = None) -> KeyQueryMetadata:
        """The instance that has a key; ``partition`` where it is not the default one.

        Where others write the input and place keys otherwise than by murmur2, it has another one.

        Raises StoreUnavailableError, with the reason, where that is not known; SerdeError for a
        key of another type.
        """
        place = self.place(store)
        if partition is None:
            partition = self.partition_of_key(place, key)
        return self.of_partition(place, partition)

    def partition_of_key(self, place: StorePlace, key: Any) -> int:
        """By the default partitioner; raises as ``of_key`` does."""
        return partition_of(self._encoded(place, key), self.task_count(place))

    def of_partition(self, place: StorePlace, partition: int) -> KeyQueryMetadata:
        """The instance that has a partition of a store; raises as ``of_key`` does."""
        self._check(place.name)
        task = f"{place.sub_topology}_{partition}"
        if place.is_global:  # whoever is asked has all of it
            found = Owner(next(iter(self.known.live(self.now_ms())), None), "nobody is there")
        else:
            found = self.known.owner(task, self.now_ms())
        if found.entry is None:
            raise StoreUnavailableError(f"store {place.name!r}: {found.reason}. Try again")
        if not found.entry.address:
            raise StoreUnavailableError(
                f"store {place.name!r}: task {task} is with instance {found.entry.instance}, which"
                " answers nobody: give its Application serve= as well"
            )
        told = found.entry.tasks.get(task)
        is_readable = told is None or told.is_readable
        entry = found.entry
        return KeyQueryMetadata(
            entry.address, entry.instance, partition, task, is_readable, self._copies(task)
        )

    def copies(self, place: StorePlace, partition: int) -> list[tuple[str, str]]:
        """Instance and address of those that copy a task and answer; who lacks least is first."""
        task = f"{place.sub_topology}_{partition}"
        found = [
            (lag, entry.instance, entry.address)
            for entry in self.known.live(self.now_ms())
            if entry.address and (lag := entry.standbys.get(task)) is not None
        ]
        return [(instance, address) for _, instance, address in sorted(found)]

    def place(self, store: str) -> StorePlace:
        """Where a store is in the topology; raises StoreUnavailableError where it is not."""
        found = self.places.get(store)
        if found is None:
            raise StoreUnavailableError(
                f"there is no store {store!r}; the topology has {sorted(self.places)}"
            )
        return found

    def task_count(self, place: StorePlace) -> int:
        """How many partitions a store has."""
        self._check(place.name)
        count = 1 if place.is_global else self.known.task_count(place.sub_topology, self.now_ms())
        if count is None:
            raise StoreUnavailableError(
                f"store {place.name!r}: no instance has started yet that knows how many partitions"
                " it has. Try again"
            )
        return count

    # ------------------------------------------------------------------ pieces

    def _check(self, store: str) -> None:
        why = self.why_not()
        if why is not None:
            raise StoreUnavailableError(f"store {store!r}: who has it is not known: {why}")

    def _copies(self, task: str) -> tuple[str, ...]:
        live = self.known.live(self.now_ms())
        return tuple(sorted(e.address for e in live if task in e.standbys and e.address))

    def _encoded(self, place: StorePlace, key: Any) -> bytes:
        try:
            return place.encode_key(key)
        except Exception as exc:
            raise SerdeError(
                f"store {place.name!r}: the key {key!r:.100} is not one of its keys:"
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
