"""Instances of the simulation: their workers, their address, what they have heard of each other.

An instance is what has one address and one entry in the directory: here one or two slots. It lives
as long as one of its workers does, and is another one, with another id, when it comes back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import msgspec

from logstate.contracts.errors import StoreUnavailableError
from logstate.contracts.records import TaskId
from logstate.contracts.serving import Serving
from logstate.directory.directory_link import Claims
from logstate.directory.entries import InstanceEntry, MemberEntry, TaskEntry, encode_entry
from logstate.directory.known_instances import KnownInstances, address_claim
from logstate.directory.log_time import LogTime
from logstate.directory.metadata import Lookup
from logstate.http.query_handler import QueryHandler
from logstate.http.remote_store import RemoteAnswer, RemoteStore
from logstate.queries.reader import Freshness, LocalStores
from logstate.queries.requests import ReadReply, ReadRequest
from logstate.task.owned_task import OwnedTask
from logstate.testing.simulation.slot import Slot
from logstate.topics.placement import places_of
from logstate.topology import Topology
from logstate.topology.graph.sub_topology import SubTopology

#: no two instances agree about what time it is
_CLOCKS_APART_MS = 3_600_000


@dataclass
class DirectoryLog:
    """The topic of the instances, which everybody reads in one order."""

    #: instance, entry, and when by its own clock
    records: list[tuple[str, bytes | None, int]] = field(default_factory=list)


@dataclass(frozen=True)
class World:
    """What all instances have in common."""

    topology: Topology
    application_id: str
    partitions: int
    log: DirectoryLog
    now_ms: Callable[[], float]
    heartbeat_ms: int
    max_age_ms: int
    #: who answers at an address now; chosen where two do
    at: Callable[[str], SimulatedInstance | None]

    def sub_topology(self) -> SubTopology:
        """The one that has the store."""
        return self.topology.sub_topologies[0]


class SimulatedInstance:
    """See the module. ``number`` stays over its lives."""

    def __init__(self, number: int, slots: Sequence[Slot], address: str, world: World) -> None:
        self.number = number
        self.slots = slots
        self.address = address
        self._world = world
        self._lives = 0
        self._begin()

    def _begin(self) -> None:
        world = self._world
        self._lives += 1
        self.id = f"instance-{self.number}.{self._lives}"
        self.known = KnownInstances()
        self._claims = Claims(self.id, self.known)
        self._read = 0
        #: of what was there before it, until it has read that
        self._past: LogTime | None = LogTime()
        self._past_end = len(world.log.records)
        self._told: InstanceEntry | None = None
        self._told_ms = float("-inf")
        #: its own entry has come back to it
        self.is_in_touch = False
        self._is_new = False
        places = places_of(world.topology, world.application_id)
        stores = LocalStores(
            places,
            world.application_id,
            self.owned,
            lambda _: world.partitions,
            Freshness(world.now_ms, lambda: None),
        )
        lookup = Lookup(places, self.known, world.now_ms, self._why_not)
        self.answers = QueryHandler(
            self.id,
            world.application_id,
            Serving(advertised=self.address, max_age=timedelta(milliseconds=world.max_age_ms)),
            stores.read,
            lookup,
        )

    @property
    def is_alive(self) -> bool:
        """One of its workers is there."""
        return any(slot.is_running for slot in self.slots)

    def check(self) -> None:
        """Whether it has died, or is another one now."""
        if not self.is_alive:
            self._is_new = True
        elif self._is_new:
            self._begin()

    def _why_not(self) -> str | None:
        return None if self.is_in_touch else "the directory has not been read yet"

    # ------------------------------------------------------------------ the directory

    def listen(self, count: int) -> None:
        """Read some of what was told."""
        records = self._world.log.records
        now_ms = self._world.now_ms()
        for offset in range(self._read, min(self._read + count, len(records))):
            instance, value, written_ms = records[offset]
            entry = self.known.heard(instance, value, offset, now_ms)
            self.is_in_touch |= instance == self.id
            self._read = offset + 1
            if entry is not None and self._past is not None:
                self._past.heard(entry, written_ms)
        if self._past is not None and self._read >= self._past_end:
            self.known.have_been_silent(self._past.silences(), now_ms)
            self._past = None

    def tell(self) -> None:
        """Say what is true here, where that is news or a heartbeat is due."""
        now = self._world.now_ms()
        if self._read < len(self._world.log.records) and self._told is None:
            return  # who comes reads everything first
        entry, told = self._entry(now), self._told
        is_news = told is None or entry.without_figures() != told.without_figures()
        if is_news or now - self._told_ms >= entry.heartbeat_ms:
            written_ms = int(now) + _CLOCKS_APART_MS * self.number
            self._world.log.records.append((self.id, encode_entry(entry), written_ms))
            self._told, self._told_ms = entry, now

    def _entry(self, now: float) -> InstanceEntry:
        owned = self.owned()
        address = address_claim(self.address)
        numbers = self._claims.of((address, *map(str, owned)), now)
        tasks = {
            str(task_id): TaskEntry(numbers[str(task_id)], one.stage.value, one.is_readable)
            for task_id, one in owned.items()
        }
        entry = InstanceEntry(
            self.id, self.address, numbers[address], self._world.heartbeat_ms, tasks=tasks
        )
        members = tuple(
            MemberEntry(slot.consumer.member_id())
            for slot in self.slots
            if slot.consumer is not None
        )
        sub = self._world.sub_topology()
        return msgspec.structs.replace(
            entry, group_members=members, task_counts={sub.id: self._world.partitions}
        )

    # ------------------------------------------------------------------ its tasks

    def owned(self) -> Mapping[TaskId, OwnedTask]:
        """Of all its workers."""
        found: dict[TaskId, OwnedTask] = {}
        for slot in self.slots:
            if slot.is_running:
                found |= slot.owned_tasks
        return found

    def slot_of(self, partition: int) -> Slot | None:
        """Whose task of a partition counts here."""
        found = None
        for slot in self.slots:
            if slot.is_running and any(t.partition == partition for t in slot.owned_tasks):
                found = slot
        return found

    # ------------------------------------------------------------------ questions

    def ask(self, store: str, key: str) -> RemoteAnswer:
        """A question that is put to this instance; raises as ``app.remote_store`` does."""
        remote = RemoteStore(store, self.answers, self._asks, timedelta(0), {}, wait=lambda _: None)
        return remote.answer("get", key)

    def _asks(self, host: str, request: ReadRequest, timeout_s: float) -> ReadReply:
        del timeout_s
        found = self._world.at(host)
        if found is None:
            raise StoreUnavailableError(f"nobody answers at {host}")
        return found.answers.reply(request)


def value_of(answer: RemoteAnswer) -> Any:
    """What a count says; 0 where there is none."""
    return 0 if answer.value is None else answer.value.value
