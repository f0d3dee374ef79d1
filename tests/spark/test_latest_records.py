"""Which holes of a log may be compaction's, and which repeats show that nothing behind matters."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import pytest

from logstate.changelog.reading import latest_records
from logstate.changelog.reading.latest_records import FirstHole, LatestRecords
from logstate.changelog.reading.tables import StoreTable
from logstate.contracts.records import TopicPartition


@dataclass
class Record:
    """A record of a log."""

    at: int
    name: str

    def offset(self) -> int:
        return self.at

    def key(self) -> bytes:
        return self.name.encode()

    def value(self) -> bytes:
        return b""

    def timestamp(self) -> tuple[int, int]:
        return 1, self.at

    def headers(self) -> None:
        return None


def latest_of(kind: str, log: dict[int, str], end: int) -> LatestRecords:
    table = StoreTable({"kind": kind, "key": {"format": "string"}, "value": None})
    latest = LatestRecords(table, None, 0, log=TopicPartition("changelog", 0))
    records: list[Any] = [Record(at, name) for at, name in log.items()]
    latest.add(records)
    latest.reach(end)
    return latest


@pytest.mark.parametrize(
    ("present", "end", "first"),
    [
        ([0, 1, 2], 3, None),
        ([0, 1, 3], 5, 2),
        ([0, 1], 3, 2),
        ([0, 3], 4, 1),
        ([2], 3, 0),
        ([], 2, 0),
        ([], 0, None),
    ],
)
def test_every_missing_offset_is_a_hole(present: list[int], end: int, first: int | None) -> None:
    at_once, one_by_one = FirstHole(0), FirstHole(0)
    records: list[Any] = [Record(at, "a") for at in present]
    at_once.add(records)
    for record in records:
        one_by_one.add([record])
    for hole in (at_once, one_by_one):
        hole.reach(end)
        assert hole.offset == first


@pytest.mark.parametrize("kind", ["key_value", "versioned"])
def test_a_repeat_in_the_tail_clears_no_hole_before_it(kind: str) -> None:
    """A pass under way has cleaned the beginning, and the tail has all its repeats yet."""
    latest = latest_of(kind, {5: "b", 6: "c", 7: "c"}, 8)

    assert latest.first_hole == 0
    assert not latest.clears(0)
    assert latest.clears(8)


@pytest.mark.parametrize("kind", ["key_value", "versioned"])
def test_a_repeat_from_before_a_hole_clears_it_and_all_behind(kind: str) -> None:
    latest = latest_of(kind, {0: "a", 5: "b", 9: "a"}, 10)

    assert latest.first_hole == 1
    assert latest.clears(1)


@pytest.mark.parametrize("kind", ["key_value", "versioned"])
@pytest.mark.parametrize("in_memory", [0, 1 << 30])
def test_the_newest_of_each_row_is_kept_wherever_it_lies(
    kind: str, in_memory: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(latest_records, "_WAITING", 50)
    monkeypatch.setattr(latest_records, "_BLOCK_ROWS", 30)
    monkeypatch.setattr(latest_records, "_IN_MEMORY", in_memory)
    rng = random.Random(5)
    names = [f"key-{rng.randrange(120)}" for _ in range(1_000)]
    latest = LatestRecords(
        StoreTable({"kind": kind, "key": {"format": "string"}, "value": None}),
        None,
        0,
        log=TopicPartition("changelog", 0),
        with_headers=True,
    )
    for start in range(0, 1_000, 7):
        records: list[Any] = [Record(at, names[at]) for at in range(1_000)[start : start + 7]]
        latest.add(records)

    found = [
        row
        for block in latest.blocks()
        for row in zip(block.offsets.to_pylist(), block.keys.to_pylist(), strict=True)
    ]

    newest = {name: at for at, name in enumerate(names)}
    expected = newest.items() if kind == "key_value" else zip(names, range(1_000), strict=True)
    assert found == sorted((at, name.encode()) for name, at in expected)


def test_a_key_behind_the_cut_names_its_newest_record_before_it() -> None:
    latest = latest_of("key_value", {0: "a", 5: "b", 6: "a"}, 7)
    ahead: list[Any] = [Record(7, "a"), Record(8, "new"), Record(9, "b")]

    assert list(latest.offsets_before(ahead)) == [6, None, 5]


def test_a_version_from_time_0_is_within_a_history_that_reaches_there() -> None:
    """Time 0 travels as -1, which is "no timestamp"."""
    entry = {"kind": "versioned", "key": {"format": "string"}, "value": None, "history_ms": 100}
    latest = LatestRecords(StoreTable(entry), None, 0, log=TopicPartition("changelog", 0))
    records: list[Any] = [Record(100, "a"), Record(-1, "b")]

    latest.add(records)

    assert [key for block in latest.blocks() for key in block.keys.to_pylist()] == [b"a", b"b"]


@dataclass
class Version(Record):
    """One that is valid from a time of its own."""

    time_ms: int

    def timestamp(self) -> tuple[int, int]:
        return 1, self.time_ms


def test_a_version_that_the_store_refused_is_none_where_only_its_key_is_asked_for() -> None:
    """The clock of a store is moved by every key: what came too late, came too late for it."""
    table = StoreTable({"kind": "versioned", "key": {"format": "string"}, "history_ms": 10})
    times = [("b", 5), ("a", 100), ("b", 12), ("b", 95)]
    records: list[Any] = [Version(at, key, time) for at, (key, time) in enumerate(times)]

    def kept(keys: frozenset[bytes] | None) -> list[int]:
        latest = LatestRecords(table, keys, 0, log=TopicPartition("changelog", 0))
        for record in records:
            latest.add([record])
        return [time for block in latest.blocks() for time in block.times.to_pylist()]

    assert kept(None) == [5, 100, 95]
    assert kept(frozenset([b"b"])) == [5, 95]
