"""Track which instances are alive and which one owns a task, from the records of the directory.

Reader and writers have no common clock. An entry counts as long as its heartbeats arrive, by the
reader's monotonic clock; for entries from before its start, the log shows how much time has passed
between them. The owner of a task is decided by claim numbers (:mod:`claims`), never by times.

Every change replaces the whole map of entries: any thread may query while one thread reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import chain
from math import inf
from typing import NamedTuple

from logstate.directory.entries import ADDRESS, InstanceEntry, MemberEntry, decode_entry

#: an entry expires after this many missed heartbeats
MISSED_MAX = 5
#: after this many the instance is not expected back: any instance may delete the entry
ABANDONED_MISSED = 600
#: maximum number of instances, because any client with write access could invent some
INSTANCES_MAX = 1_000


@dataclass(frozen=True)
class ReceivedEntry:
    """An entry, and when it was read."""

    entry: InstanceEntry
    at_ms: float
    offset: int
    #: claim -> offset of the first record with this number
    since: Mapping[str, int]
    is_trusted: bool = True

    def missed(self, now_ms: float) -> float:
        """Return the number of missed heartbeats."""
        return (now_ms - self.at_ms) / self.entry.heartbeat_timeout_ms


class Expected(NamedTuple):
    """A static member of a stopped instance, until its membership expires."""

    entry: InstanceEntry
    member: MemberEntry
    until_ms: float


@dataclass(frozen=True)
class Owner:
    """The owner of a task; if ``entry`` is None, ``reason`` says why it is unknown."""

    entry: InstanceEntry | None
    reason: str = ""


class _Live(NamedTuple):
    """Live instances, valid until a record is read or the time leaves this range."""

    heard: Mapping[str, ReceivedEntry]
    from_ms: float
    until_ms: float
    entries: tuple[InstanceEntry, ...]


class KnownInstances:
    """The contents of the directory so far."""

    def __init__(self) -> None:
        self._heard: Mapping[str, ReceivedEntry] = {}
        #: static members that are expected back: ``group.instance.id`` -> their instance
        self._expected: Mapping[str, Expected] = {}
        self._live = _Live(self._heard, inf, -inf, ())

    # ------------------------------------------------------------------ reading

    def heard(
        self,
        instance: str,
        value: bytes | None,
        offset: int,
        now_ms: float,
        *,
        is_trusted: bool = True,
    ) -> InstanceEntry | None:
        """Process a record of the topic and return its entry; None if it is not one.

        A record that was read before, by a reader that starts again, has no effect. The claims of
        an untrusted entry do not count. If there are too many instances, a new one is ignored,
        unless it replaces a silent one.
        """
        before = self._heard.get(instance)
        if before is not None and offset <= before.offset:
            return None
        is_kept = before is not None and before.is_trusted and before.missed(now_ms) <= MISSED_MAX
        if is_kept and not is_trusted:
            return None  # only entries written by that instance itself count
        others = {key: one for key, one in self._heard.items() if key != instance}
        entry = None if value is None else decode_entry(value)
        if entry is None or entry.instance != instance:
            self._heard = others
            return None
        if not is_trusted:
            entry = entry.without_claims()
        if len(others) >= INSTANCES_MAX:
            others = _recent_entries(others, now_ms)
            if len(others) >= INSTANCES_MAX:
                return None
        claimed = {} if before is None else before.entry.claims()
        since = {
            name: before.since[name] if before and claimed.get(name) == number else offset
            for name, number in entry.claims().items()
        }
        self._heard = {**others, instance: ReceivedEntry(entry, now_ms, offset, since, is_trusted)}
        return entry

    def has_valid_entry(self, instance: str) -> bool:
        """Return True if its last record was an entry that this version understands."""
        return instance in self._heard

    def is_heard_lately(self, instance: str, now_ms: float) -> bool:
        """Return True if the instance is known and its heartbeats have arrived since."""
        heard = self._heard.get(instance)
        return heard is not None and heard.missed(now_ms) <= MISSED_MAX

    def expect(self, entry: InstanceEntry, now_ms: float) -> None:
        """Expect the static members of an instance back after its final message."""
        until_ms = now_ms + entry.returns_within_ms
        members = {one.instance_id: one for one in entry.group_members if one.instance_id}
        more = {name: Expected(entry, one, until_ms) for name, one in members.items()}
        self._expected = {**self._expected, **more}

    def have_been_silent(self, silences: Mapping[str, float], now_ms: float) -> None:
        """Apply the silences, in ms, that the log showed a reader that came later
        (:mod:`log_time`).
        """
        self._heard = {
            name: replace(one, at_ms=min(one.at_ms, now_ms - silences.get(name, 0.0)))
            for name, one in self._heard.items()
        }

    def forget(self) -> None:
        """Forget all entries, because the topic was recreated and its offsets begin again."""
        self._heard = {}

    # ------------------------------------------------------------------ queries

    def live(self, now_ms: float) -> tuple[InstanceEntry, ...]:
        """Return live instances by id: with recent heartbeats, and owners of their addresses.

        Includes instances without an address: they have tasks. A read of a key calls this several
        times, so the result is cached as long as it is valid.
        """
        live = self._live
        if live.heard is not self._heard or not live.from_ms <= now_ms <= live.until_ms:
            live = self._live = _live_of(self._heard, now_ms)
        return live.entries

    def present(self, now_ms: float) -> list[InstanceEntry]:
        """Return all instances with recent heartbeats by id, regardless of addresses."""
        return [one.entry for _, one in sorted(_recent_entries(self._heard, now_ms).items())]

    def members(self, now_ms: float) -> list[tuple[InstanceEntry, MemberEntry]]:
        """Return the members of the group with their instances.

        These are members of instances with recent heartbeats, and static members that the group
        keeps.
        """
        found = [(entry, one) for entry in self.present(now_ms) for one in entry.group_members]
        there = {one.instance_id for _, one in found}
        away = [
            (one.entry, one.member)
            for name, one in self._expected.items()
            if name not in there and now_ms < one.until_ms
        ]
        return [*found, *away]

    def present_members(self, now_ms: float) -> frozenset[str]:
        """Return the transactional ids of instances with recent heartbeats."""
        return frozenset(chain(*(one.members for one in self.present(now_ms))))

    def silent_members(self, now_ms: float) -> frozenset[str]:
        """Return the transactional ids of silent instances that no present instance uses."""
        lately = _recent_entries(self._heard, now_ms)
        silent = [one.entry.members for key, one in self._heard.items() if key not in lately]
        return frozenset(chain(*silent)) - self.present_members(now_ms)

    def silent_ms(self, instance: str, now_ms: float) -> float:
        """Return the time since the last entry of an instance; infinite if it is unknown."""
        heard = self._heard.get(instance)
        return float("inf") if heard is None else max(0.0, now_ms - heard.at_ms)

    def owner(self, task: str, now_ms: float) -> Owner:
        """Return the owner of a task: the live instance with the highest claim number."""
        live = self.live(now_ms)
        claimed = [entry for entry in live if task in entry.tasks]
        if not claimed:
            return Owner(None, self._why_unowned(task, now_ms))
        highest = max(entry.tasks[task].claim for entry in claimed)
        first, *others = (entry for entry in claimed if entry.tasks[task].claim == highest)
        if others:
            both = ", ".join(sorted(entry.address for entry in (first, *others)))
            return Owner(None, f"task {task} is claimed by {both}; it is moving to one of them")
        if first.address and sum(entry.address == first.address for entry in live) > 1:
            return Owner(
                None,
                f"two instances claim the address {first.address}, and task {task} belongs to one"
                " of them. Give each a unique address with advertised=",
            )
        return Owner(first)

    def task_count(self, sub_topology: int, now_ms: float) -> int | None:
        """Return the reported partition count of a sub-topology; None before a report."""
        counts = (entry.task_counts.get(sub_topology) for entry in self.live(now_ms))
        return max((count for count in counts if count is not None), default=None)

    def highest_claim(self, name: str) -> int:
        """Return the highest claim number for a task or an address, live or not; 0 without
        claims.
        """
        return max((one.entry.claims().get(name, 0) for one in self._heard.values()), default=0)

    def is_second(self, instance: str, name: str, number: int, now_ms: float) -> bool:
        """Return True if another live instance made the same claim with this number earlier.

        The order in the log decides, which is the same for all readers.
        """
        own = self._heard.get(instance)
        if own is None or own.entry.claims().get(name) != number:
            return False
        return any(
            one.entry.claims().get(name) == number and one.since[name] < own.since[name]
            for key, one in _recent_entries(self._heard, now_ms).items()
            if key != instance
        )

    def abandoned(self, now_ms: float) -> list[str]:
        """Return instances that have been silent for long."""
        return [k for k, one in self._heard.items() if one.missed(now_ms) > ABANDONED_MISSED]

    # ------------------------------------------------------------------ pieces

    def _why_unowned(self, task: str, now_ms: float) -> str:
        gone = [one for one in self._heard.values() if task in one.entry.tasks]
        if gone:
            last = max(gone, key=lambda one: one.at_ms)
            silent_s = (now_ms - last.at_ms) / 1000
            return (
                f"task {task} was on {last.entry.address}, which has not been heard from for"
                f" {silent_s:.1f} s; the group will assign it to another instance"
            )
        known = ", ".join(entry.address for entry in self.live(now_ms)) or "none"
        return f"no instance claims task {task}; instances with recent heartbeats: {known}"


def address_claim(address: str) -> str:
    """Return the name of the claim of an address."""
    return ADDRESS + address


def _recent_entries(heard: Mapping[str, ReceivedEntry], now_ms: float) -> dict[str, ReceivedEntry]:
    return {key: one for key, one in heard.items() if one.missed(now_ms) <= MISSED_MAX}


def _live_of(heard: Mapping[str, ReceivedEntry], now_ms: float) -> _Live:
    found = _recent_entries(heard, now_ms)
    addresses: dict[str, int] = {}
    for one in found.values():
        entry = one.entry
        addresses[entry.address] = max(entry.claim, addresses.get(entry.address, 0))
    ends_ms = (one.at_ms + MISSED_MAX * one.entry.heartbeat_timeout_ms for one in found.values())
    entries = tuple(
        one.entry
        for _, one in sorted(found.items())
        if not one.entry.address or one.entry.claim == addresses[one.entry.address]
    )
    return _Live(heard, now_ms, min(ends_ms, default=inf), entries)
