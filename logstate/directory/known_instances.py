"""Who is there, and who owns a task, by what was read of the directory. Pure.

Reader and writers have no clock in common. An entry counts for as long as its heartbeats come, by
the reader's monotonic clock, and of those that were there before it by what the log tells of the
time between them; who owns a task is decided by numbers (:mod:`claims`), never by times.

Every change replaces the map of entries as a whole: any thread may ask while one thread reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import chain
from math import inf
from typing import NamedTuple

from logstate.directory.entries import ADDRESS, InstanceEntry, MemberEntry, decode_entry

#: an entry counts no more after so many heartbeats that did not come
MISSED_MAX = 5
#: after so many nobody expects that instance back: whoever sees it may delete the entry
ABANDONED_MISSED = 600
#: so many are known at a time: anybody who can write to the topic can make some up
INSTANCES_MAX = 1_000


@dataclass(frozen=True)
class Heard:
    """An entry, and when it was heard."""

    entry: InstanceEntry
    at_ms: float
    offset: int
    #: claim -> offset of the record that made it first, in this number
    since: Mapping[str, int]
    is_trusted: bool = True

    def missed(self, now_ms: float) -> float:
        """Heartbeats that did not come."""
        return (now_ms - self.at_ms) / self.entry.beat_ms


class Expected(NamedTuple):
    """A static member of an instance that has ended, until it counts no more."""

    entry: InstanceEntry
    member: MemberEntry
    until_ms: float


@dataclass(frozen=True)
class Owner:
    """Who owns a task; ``entry`` None, and ``reason`` why that is not known."""

    entry: InstanceEntry | None
    reason: str = ""


class _Live(NamedTuple):
    """Instances that count, as long as nothing is heard and the time is within these two."""

    heard: Mapping[str, Heard]
    from_ms: float
    until_ms: float
    entries: tuple[InstanceEntry, ...]


class KnownInstances:
    """The directory as it was read so far."""

    def __init__(self) -> None:
        self._heard: Mapping[str, Heard] = {}
        #: static members that are expected back: ``group.instance.id`` -> whose they were
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
        """A record of the topic, and the entry that it is; one that was read before, by a reader
        that begins again, counts for nothing.

        Of an entry that is not trusted no claim counts. Where there are too many instances, one
        that is new is ignored, unless it takes the place of one that is silent.
        """
        before = self._heard.get(instance)
        if before is not None and offset <= before.offset:
            return None
        is_kept = before is not None and before.is_trusted and before.missed(now_ms) <= MISSED_MAX
        if is_kept and not is_trusted:
            return None  # what that instance wrote itself counts
        others = {key: one for key, one in self._heard.items() if key != instance}
        entry = None if value is None else decode_entry(value)
        if entry is None or entry.instance != instance:
            self._heard = others
            return None
        if not is_trusted:
            entry = entry.without_claims()
        if len(others) >= INSTANCES_MAX:
            others = _lately(others, now_ms)
            if len(others) >= INSTANCES_MAX:
                return None
        claimed = {} if before is None else before.entry.claims()
        since = {
            name: before.since[name] if before and claimed.get(name) == number else offset
            for name, number in entry.claims().items()
        }
        self._heard = {**others, instance: Heard(entry, now_ms, offset, since, is_trusted)}
        return entry

    def has_heard(self, instance: str) -> bool:
        """Whether an entry of it was read last, and no end, nor what this version ignores."""
        return instance in self._heard

    def is_heard_lately(self, instance: str, now_ms: float) -> bool:
        """Whether an instance was heard of, and its heartbeats have come since."""
        heard = self._heard.get(instance)
        return heard is not None and heard.missed(now_ms) <= MISSED_MAX

    def expect(self, entry: InstanceEntry, now_ms: float) -> None:
        """These were the last words of an instance whose static members come back."""
        until_ms = now_ms + entry.returns_within_ms
        members = {one.instance_id: one for one in entry.group_members if one.instance_id}
        more = {name: Expected(entry, one, until_ms) for name, one in members.items()}
        self._expected = {**self._expected, **more}

    def have_been_silent(self, silences: Mapping[str, float], now_ms: float) -> None:
        """For how many milliseconds, as the log told a reader that came later (:mod:`log_time`)."""
        self._heard = {
            name: replace(one, at_ms=min(one.at_ms, now_ms - silences.get(name, 0.0)))
            for name, one in self._heard.items()
        }

    def forget(self) -> None:
        """The topic was made anew, and its offsets begin again."""
        self._heard = {}

    # ------------------------------------------------------------------ asking

    def live(self, now_ms: float) -> tuple[InstanceEntry, ...]:
        """Instances that count, by their ids: heard of lately, at an address that is theirs.

        Those that answer nowhere count as well: they have tasks. A read of a key asks several
        times, so what was found is kept for as long as it stays true.
        """
        live = self._live
        if live.heard is not self._heard or not live.from_ms <= now_ms <= live.until_ms:
            live = self._live = _live_of(self._heard, now_ms)
        return live.entries

    def present(self, now_ms: float) -> list[InstanceEntry]:
        """Everybody who was heard of lately, by their ids, whoever has the address."""
        return [one.entry for _, one in sorted(_lately(self._heard, now_ms).items())]

    def members(self, now_ms: float) -> list[tuple[InstanceEntry, MemberEntry]]:
        """Of the group, with their instances: those that were heard of lately, and static ones of
        which the group keeps the place.
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
        """Transactional ids of instances that were heard of lately."""
        return frozenset(chain(*(one.members for one in self.present(now_ms))))

    def silent_members(self, now_ms: float) -> frozenset[str]:
        """Transactional ids of instances that ended without a word, and are nobody else's now."""
        lately = _lately(self._heard, now_ms)
        silent = [one.entry.members for key, one in self._heard.items() if key not in lately]
        return frozenset(chain(*silent)) - self.present_members(now_ms)

    def silent_ms(self, instance: str, now_ms: float) -> float:
        """How long ago an instance was heard of; endless where it never was."""
        heard = self._heard.get(instance)
        return float("inf") if heard is None else max(0.0, now_ms - heard.at_ms)

    def owner(self, task: str, now_ms: float) -> Owner:
        """Who owns a task: of those that count, who claimed it with the highest number."""
        live = self.live(now_ms)
        claimed = [entry for entry in live if task in entry.tasks]
        if not claimed:
            return Owner(None, self._nobody(task, now_ms))
        highest = max(entry.tasks[task].claim for entry in claimed)
        first, *others = (entry for entry in claimed if entry.tasks[task].claim == highest)
        if others:
            both = ", ".join(sorted(entry.address for entry in (first, *others)))
            return Owner(None, f"task {task} is claimed by {both}; it is on its way to one of them")
        if first.address and sum(entry.address == first.address for entry in live) > 1:
            return Owner(
                None,
                f"two instances claim the address {first.address}, and task {task} belongs to one"
                " of them. Give each an address of its own with advertised=",
            )
        return Owner(first)

    def task_count(self, sub_topology: int, now_ms: float) -> int | None:
        """Partitions of a sub-topology, as somebody told them; None before."""
        counts = (entry.task_counts.get(sub_topology) for entry in self.live(now_ms))
        return max((count for count in counts if count is not None), default=None)

    def highest_claim(self, name: str) -> int:
        """The highest number anybody gave for a task or an address, alive or not; 0: nobody."""
        return max((one.entry.claims().get(name, 0) for one in self._heard.values()), default=0)

    def is_second(self, instance: str, name: str, number: int, now_ms: float) -> bool:
        """Whether another one that lives made the same claim, with this number, earlier.

        The order is that of the log, which all agree about.
        """
        own = self._heard.get(instance)
        if own is None or own.entry.claims().get(name) != number:
            return False
        return any(
            one.entry.claims().get(name) == number and one.since[name] < own.since[name]
            for key, one in _lately(self._heard, now_ms).items()
            if key != instance
        )

    def abandoned(self, now_ms: float) -> list[str]:
        """Instances that ended without a word, long ago."""
        return [k for k, one in self._heard.items() if one.missed(now_ms) > ABANDONED_MISSED]

    # ------------------------------------------------------------------ pieces

    def _nobody(self, task: str, now_ms: float) -> str:
        gone = [one for one in self._heard.values() if task in one.entry.tasks]
        if gone:
            last = max(gone, key=lambda one: one.at_ms)
            silent_s = (now_ms - last.at_ms) / 1000
            return (
                f"task {task} was with {last.entry.address}, which has not been heard of for"
                f" {silent_s:.1f} s; the group gives it to another instance"
            )
        known = ", ".join(entry.address for entry in self.live(now_ms)) or "nobody"
        return f"no instance claims task {task}; heard of lately: {known}"


def address_claim(address: str) -> str:
    """The name of the claim of an address."""
    return ADDRESS + address


def _lately(heard: Mapping[str, Heard], now_ms: float) -> dict[str, Heard]:
    return {key: one for key, one in heard.items() if one.missed(now_ms) <= MISSED_MAX}


def _live_of(heard: Mapping[str, Heard], now_ms: float) -> _Live:
    found = _lately(heard, now_ms)
    addresses: dict[str, int] = {}
    for one in found.values():
        entry = one.entry
        addresses[entry.address] = max(entry.claim, addresses.get(entry.address, 0))
    ends_ms = (one.at_ms + MISSED_MAX * one.entry.beat_ms for one in found.values())
    entries = tuple(
        one.entry
        for _, one in sorted(found.items())
        if not one.entry.address or one.entry.claim == addresses[one.entry.address]
    )
    return _Live(heard, now_ms, min(ends_ms, default=inf), entries)
