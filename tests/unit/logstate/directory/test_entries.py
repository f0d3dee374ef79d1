"""The bytes of an entry, across versions of the library."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given

from logstate.directory.directory_link import Claims
from logstate.directory.entries import (
    CLAIM_MAX,
    HEARTBEAT_MAX_MS,
    NAMES_MAX,
    InstanceEntry,
    InstanceMetrics,
    MemberEntry,
    TaskEntry,
    decode_entry,
    encode_entry,
    is_signed,
    signed,
)
from logstate.directory.instance_info import InstanceInfo, tasks_of
from logstate.directory.known_instances import INSTANCES_MAX, KnownInstances
from tests.damaged import damaged_bytes, damaged_json

ENTRY = InstanceEntry("one", "http://a:1", 3, 1_000, figures=InstanceMetrics(5, 4, 3, 2, 1.5))


def test_figures_travel_with_an_entry() -> None:
    assert decode_entry(encode_entry(ENTRY)) == ENTRY


def test_an_entry_of_a_version_without_figures_counts_as_nothing() -> None:
    told = json.loads(encode_entry(ENTRY))
    del told["figures"]
    found = decode_entry(json.dumps(told).encode())
    assert found is not None
    assert (found.address, found.figures) == ("http://a:1", InstanceMetrics())


@pytest.mark.parametrize(
    "wrong",
    [
        {"heartbeat_ms": 0},
        {"tasks": {"x": {"claim": 1, "stage": "running"}}},
        {"standbys": {"": 3}},
    ],
)
def test_an_entry_with_numbers_or_tasks_that_there_cannot_be_is_none(wrong: dict[str, Any]) -> None:
    assert decode_entry(json.dumps({**json.loads(encode_entry(ENTRY)), **wrong}).encode()) is None


@pytest.mark.parametrize(
    "wrong", [b"", b"{", b"\xff", b'{"address": "\xff"}', b'{"positions": ' + b"[" * 50_000]
)
def test_bytes_that_are_no_entry_are_none(wrong: bytes) -> None:
    assert decode_entry(wrong) is None


def test_figures_alone_are_no_news() -> None:
    more = InstanceEntry("one", "http://a:1", 3, 1_000, figures=InstanceMetrics(6, 4, 3, 2, 1.5))
    assert more.without_figures() == ENTRY.without_figures()


WHOLE = InstanceEntry(
    "one",
    "http://a:1",
    3,
    1_000,
    tasks={"0_1": TaskEntry(3, "running", True, 4, 5, {"in-1": 6}, 7, 8, 9, ("in-2",))},
    task_counts={0: 2},
    group_members=(MemberEntry("m", "s"),),
    standbys={"0_0": 7},
    figures=InstanceMetrics(5, 4, 3, 2, 1.5, {"in": 6}, {"out": 7}),
    rack="r",
    members=("t",),
)


@given(damaged_json(json.loads(encode_entry(WHOLE))))
def test_a_damaged_entry_is_none_or_can_be_used(value: bytes) -> None:
    known = KnownInstances()
    known.heard("one", value, 0, 0)
    known.heard("two", encode_entry(ENTRY), 1, 0)
    entry = decode_entry(value)
    if entry is None:
        assert not known.has_valid_entry("one")
        return
    claims = Claims("three", known).of(("@http://a:1", "0_1"), 0)
    mine = InstanceEntry("three", "http://c:1", claims["@http://a:1"], 1_000)
    assert decode_entry(encode_entry(mine)) == mine, "what is made of it is an entry as well"
    tasks = tasks_of([InstanceInfo(entry, True), InstanceInfo(mine, True)])
    assert len(tasks) <= NAMES_MAX
    known.live(0), known.members(0), known.owner("0_1", 0), known.task_count(0, 0)
    assert "\x1b" not in entry.address


@pytest.mark.parametrize(
    "wrong",
    [
        {"claim": 2**63},
        {"claim": -1},
        {"task_counts": {"0": 10**9}},
        {"task_counts": {str(n): 100_000 for n in range(9)}},
        {"tasks": {"0_0": {"claim": 10**30, "stage": "running"}}},
        {"tasks": {"0_0": {"claim": 1, "stage": "running", "lag": -1}}},
        {"figures": {"processed": 2**70}},
        {"figures": {"commit_seconds": 1e300}},
        {"heartbeat_ms": 10**15},
        {"address": "http://a:1\x1b[2J"},
        {"address": "http://a:1/\n"},
        {"address": "file:///etc/passwd"},
        {"address": "http://" + "a" * 3_000},
        {"rack": "r" * 2_000},
    ],
)
def test_an_entry_with_a_number_or_text_out_of_bounds_is_none(wrong: dict[str, Any]) -> None:
    assert decode_entry(json.dumps({**json.loads(encode_entry(ENTRY)), **wrong}).encode()) is None


def test_a_heartbeat_is_not_waited_for_longer_than_a_minute() -> None:
    slow = InstanceEntry("one", "http://a:1", 3, 10**12)
    known = KnownInstances()
    known.heard("one", encode_entry(slow), 0, 0)
    assert known.live(5 * HEARTBEAT_MAX_MS)
    assert not known.live(5 * HEARTBEAT_MAX_MS + 1)


def test_claims_stay_within_their_bound() -> None:
    known = KnownInstances()
    known.heard("one", encode_entry(InstanceEntry("one", "http://a:1", CLAIM_MAX, 1_000)), 0, 0)
    assert Claims("two", known).of(("@http://a:1",), 0) == {"@http://a:1": CLAIM_MAX}


def test_made_up_instances_do_not_fill_the_memory() -> None:
    known = KnownInstances()
    for number in range(INSTANCES_MAX + 10):
        name = f"i{number}"
        known.heard(name, encode_entry(InstanceEntry(name, "", 0, 1_000)), number, 0)
    assert len(known.present(0)) == INSTANCES_MAX
    known.heard("later", encode_entry(InstanceEntry("later", "", 0, 1_000)), 10**6, 10_000)
    assert [one.instance for one in known.present(10_000)] == ["later"]


@given(damaged_bytes(signed(encode_entry(WHOLE), "hush", "app")))
def test_a_signature_covers_every_byte(value: bytes) -> None:
    whole = signed(encode_entry(WHOLE), "hush", "app")
    assert is_signed(whole, "hush", "app")
    assert decode_entry(whole) is not None
    assert is_signed(value, "hush", "app") == (value == whole)


def test_an_entry_that_says_it_is_signed_is_not() -> None:
    assert not is_signed(encode_entry(WHOLE), "hush", "app")
    assert not is_signed(b"", "hush", "app")
    assert not is_signed(b'"signature":"' + b"0" * 64 + b'"}', "hush", "app")
