"""Who owns what, by the entries of the directory: no broker, no threads, times are given."""

from __future__ import annotations

import random

import msgspec

from logstate.directory.directory_link import Claims
from logstate.directory.entries import InstanceEntry, MemberEntry, TaskEntry, encode_entry
from logstate.directory.known_instances import MISSED_MAX, KnownInstances, address_claim

BEAT_MS = 1_000


def entry(name: str, *, address: str = "", claim: int = 1, **tasks: int) -> InstanceEntry:
    """``t0_1=3`` claims task ``0_1`` with the number 3."""
    return InstanceEntry(
        name,
        address or f"http://{name}:1",
        claim,
        BEAT_MS,
        tasks={task[1:]: TaskEntry(number, "running") for task, number in tasks.items()},
        task_counts={0: 4},
    )


class Log:
    """What was written, and a reader of it."""

    def __init__(self) -> None:
        self.known = KnownInstances()
        self.records: list[tuple[str, bytes | None]] = []

    def write(self, name: str, value: InstanceEntry | None, now_ms: float = 0) -> None:
        self.records.append((name, None if value is None else encode_entry(value)))
        self.known.heard(name, self.records[-1][1], len(self.records) - 1, now_ms)

    def owner(self, task: str, now_ms: float = 0) -> str:
        found = self.known.owner(task, now_ms)
        return found.reason if found.entry is None else found.entry.instance


def test_the_owner_of_a_task_is_who_claims_it() -> None:
    log = Log()
    log.write("a", entry("a", t0_0=1))
    log.write("b", entry("b", t0_1=1))
    assert (log.owner("0_0"), log.owner("0_1")) == ("a", "b")
    assert (
        "no instance claims task 0_2; instances with recent heartbeats: http://a:1, http://b:1"
        in log.owner("0_2")
    )
    assert log.known.task_count(0, 0) == 4


def test_an_entry_counts_no_more_after_missed_heartbeats_of_the_readers_clock() -> None:
    log = Log()
    log.write("a", entry("a", t0_0=1), now_ms=100)
    assert log.owner("0_0", 100 + MISSED_MAX * BEAT_MS) == "a"
    gone = log.owner("0_0", 101 + MISSED_MAX * BEAT_MS)
    assert "task 0_0 was on http://a:1, which has not been heard from for 5.0 s" in gone
    log.write("a", entry("a", t0_0=1), now_ms=9_000)
    assert log.owner("0_0", 9_000) == "a"


def test_a_clean_end_takes_the_entry_away_at_once() -> None:
    log = Log()
    log.write("a", entry("a", t0_0=1))
    log.write("a", None)
    assert log.known.live(0) == ()


def test_who_falls_silent_is_told_from_who_said_goodbye_and_from_who_is_back() -> None:
    log = Log()
    for name in ("gone", "dead", "back"):
        log.write(name, msgspec.structs.replace(entry(name), members=(f"app-{name}",)))
    log.write("gone", None)
    later = 1 + MISSED_MAX * BEAT_MS
    assert log.known.silent_members(later - 1) == frozenset()
    log.write("again", msgspec.structs.replace(entry("again"), members=("app-back",)), later)
    assert log.known.silent_members(later) == {"app-dead"}
    assert log.known.present_members(later) == {"app-back"}


def test_of_static_members_that_come_back_the_group_keeps_the_place_for_a_while() -> None:
    log = Log()
    away = msgspec.structs.replace(
        entry("first"),
        group_members=(MemberEntry("m1", "app-0"), MemberEntry("m2")),
        returns_within_ms=100,
    )
    log.write("first", away)
    log.known.expect(away, 0)
    log.write("first", None)
    assert log.known.present(0) == []
    assert log.known.members(99) == [(away, MemberEntry("m1", "app-0"))], "the other one has left"
    assert log.known.members(100) == []
    back = msgspec.structs.replace(entry("second"), group_members=(MemberEntry("m3", "app-0"),))
    log.write("second", back, 50)
    assert log.known.members(50) == [(back, MemberEntry("m3", "app-0"))]


def test_the_later_claim_owns_a_task_that_two_claim() -> None:
    log = Log()
    log.write("b", entry("b", t0_0=2))
    log.write("a", entry("a", t0_0=1))  # a zombie that goes on with its heartbeats
    assert log.owner("0_0") == "b"


def test_of_one_number_claimed_twice_nobody_is_the_owner() -> None:
    log = Log()
    log.write("a", entry("a", t0_0=2))
    log.write("b", entry("b", t0_0=2))
    assert "task 0_0 is claimed by http://a:1, http://b:1" in log.owner("0_0")


def test_the_later_of_two_at_one_address_has_it_and_the_other_counts_no_more() -> None:
    log = Log()
    log.write("old", entry("old", address="http://x:1", claim=1, t0_0=7))
    log.write("new", entry("new", address="http://x:1", claim=2, t0_1=1))
    assert [one.instance for one in log.known.live(0)] == ["new"]
    assert "no instance claims" in log.owner("0_0") or "was on" in log.owner("0_0")
    log.write("third", entry("third", address="http://x:1", claim=2, t0_0=8))
    assert "two instances claim the address http://x:1" in log.owner("0_0")


def test_an_entry_of_a_later_format_or_of_nobody_is_no_guess() -> None:
    log = Log()
    log.known.heard("a", b"not json", 0, 0)
    log.known.heard("b", encode_entry(InstanceEntry("b", "http://b:1", 1, 1, format=99)), 1, 0)
    log.known.heard("c", encode_entry(entry("d")), 2, 0)
    assert log.known.live(0) == ()


def test_a_reader_that_begins_again_takes_nothing_back() -> None:
    log = Log()
    log.write("a", entry("a", t0_0=1))
    log.write("a", entry("a", t0_0=2), now_ms=5)
    log.known.heard("a", log.records[0][1], 0, 9_000)
    assert log.known.highest_claim("0_0") == 2
    assert log.known.live(9_000) == ()


def test_who_ended_without_a_word_long_ago_may_be_deleted() -> None:
    log = Log()
    log.write("a", entry("a"))
    assert log.known.abandoned(600_000) == []
    assert log.known.abandoned(600_001) == ["a"]


def test_a_new_claim_is_higher_than_all_that_were_heard_of_and_stays_while_it_is_held() -> None:
    log = Log()
    log.write("a", entry("a", t0_0=6))
    claims = Claims("b", log.known)
    assert claims.of(("0_0", "0_1"), 0) == {"0_0": 7, "0_1": 1}
    log.write("b", entry("b", t0_0=7, t0_1=1))
    assert claims.of(("0_0",), 0) == {"0_0": 7}
    assert claims.of(("0_0", "0_1"), 0) == {"0_0": 7, "0_1": 2}  # was given up meanwhile
    assert claims.of((address_claim("http://a:1"),), 0) == {"@http://a:1": 2}


class Group:
    """Instances that take one task after each other, and read and write when they come to it."""

    def __init__(self) -> None:
        self.names = ["a", "b", "c"]
        self.records: list[tuple[str, bytes]] = []
        self.known = {name: KnownInstances() for name in self.names}
        self.claims = {name: Claims(name, self.known[name]) for name in self.names}
        self.read = dict.fromkeys(self.names, 0)
        #: who thinks that it has the task; one of them is right
        self.believes: set[str] = set()
        self.owner = ""

    def reads(self, name: str, until: int) -> None:
        for offset in range(self.read[name], until):
            self.known[name].heard(*self.records[offset], offset, 0)
        self.read[name] = until

    def writes(self, name: str) -> None:
        mine = ("0_0",) if name in self.believes else ()
        address = f"http://{name}:1"
        numbers = self.claims[name].of((*mine, address_claim(address)), 0)
        tasks = {f"t{task}": numbers[task] for task in mine}
        told = entry(name, claim=numbers[address_claim(address)], **tasks)
        self.records.append((name, encode_entry(told)))

    def takes(self, name: str) -> None:
        """Who had it may not have noticed."""
        self.owner = name
        self.reads(name, len(self.records))
        self.believes.add(name)
        self.claims[name].of((), 0)
        self.writes(name)

    def step(self, rng: random.Random) -> None:
        name = rng.choice(self.names)
        match rng.choice(["read", "read", "write", "lose", "take"]):
            case "read":
                self.reads(name, rng.randint(self.read[name], len(self.records)))
            case "write":
                self.writes(name)
            case "lose" if name != self.owner:
                self.believes.discard(name)
            case "take":
                self.takes(name)

    def settle(self) -> None:
        for name in self.names * 3:
            self.reads(name, len(self.records))
            self.writes(name)
        for name in self.names:
            self.reads(name, len(self.records))


def test_whatever_the_order_everybody_knows_the_last_owner_in_the_end() -> None:
    for seed in range(300):
        group, rng = Group(), random.Random(seed)
        group.takes("a")
        for _ in range(12):
            group.step(rng)
        group.settle()
        for name in group.names:
            found = group.known[name].owner("0_0", 0)
            assert found.entry is not None, (seed, found.reason)
            assert found.entry.instance == group.owner, seed


def test_who_counts_is_what_a_reader_that_was_never_asked_before_says() -> None:
    for seed in range(200):
        rng, log, now_ms = random.Random(seed), Log(), 0
        for _ in range(30):
            now_ms = max(0, now_ms + rng.choice([-1, 0, 1, BEAT_MS, MISSED_MAX * BEAT_MS]))
            if rng.random() < 0.5:
                name, address = rng.choice("abc"), f"http://{rng.choice('xy')}:1"
                told = entry(name, address=address, claim=rng.randint(1, 3))
                log.write(name, rng.choice([told, told, None]), now_ms)
            new = KnownInstances()
            new._heard = log.known._heard
            assert log.known.live(now_ms) == new.live(now_ms), seed
