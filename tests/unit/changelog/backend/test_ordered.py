"""A dict that can be walked in key order."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstate.changelog.backend.ordered import OrderedMap
from tests.steps import STEPS


def keys(found: OrderedMap[int], lower: bytes = b"", upper: bytes | None = None) -> list[bytes]:
    return list(found.keys_between(lower, upper))


def test_keys_come_in_the_order_of_unsigned_bytes() -> None:
    found: OrderedMap[int] = OrderedMap()
    for key in (b"\xff", b"a", b"\x00", b"aa", b"a\x00"):
        found.put(key, 0)
    assert keys(found) == [b"\x00", b"a", b"a\x00", b"aa", b"\xff"]


def test_the_lower_bound_is_included_and_the_upper_is_not() -> None:
    found: OrderedMap[int] = OrderedMap()
    for key in (b"a", b"b", b"c"):
        found.put(key, 0)
    assert keys(found, b"a", b"c") == [b"a", b"b"]
    assert list(found.keys_between(b"a", b"c", reverse=True)) == [b"b", b"a"]
    assert keys(found, b"b") == [b"b", b"c"]


def test_keys_that_come_after_a_walk_are_in_the_next_one() -> None:
    found: OrderedMap[int] = OrderedMap()
    found.put(b"b", 0)
    assert keys(found) == [b"b"]
    found.put(b"a", 0)
    assert keys(found) == [b"a", b"b"]


def test_a_key_that_goes_and_comes_back_is_walked_once() -> None:
    found: OrderedMap[int] = OrderedMap()
    found.put(b"a", 0)
    assert keys(found) == [b"a"]
    found.remove(b"a")
    assert keys(found) == []
    found.put(b"a", 1)
    found.remove(b"a")
    found.put(b"a", 2)
    assert keys(found) == [b"a"]


def test_a_walk_does_not_notice_what_is_changed_during_it() -> None:
    found: OrderedMap[int] = OrderedMap()
    for key in (b"a", b"b"):
        found.put(key, 0)
    walked = []
    for key in found.keys_between(b"", None):
        walked.append(key)
        found.remove(key)
        found.put(key + b"!", 0)
    assert walked == [b"a", b"b"]


def test_removing_what_is_not_there_does_nothing() -> None:
    found: OrderedMap[int] = OrderedMap()
    found.remove(b"a")
    assert keys(found) == []
    found.remove(b"a")


def test_clearing_forgets_the_order_too() -> None:
    found: OrderedMap[int] = OrderedMap()
    found.put(b"a", 0)
    assert keys(found) == [b"a"]
    found.clear()
    found.put(b"b", 0)
    assert keys(found) == [b"b"]


def filled(rows: int) -> OrderedMap[int]:
    found: OrderedMap[int] = OrderedMap()
    for number in range(rows):
        found.put(b"%06d" % (number * 7_919 % 1_000_003), number)
    return found


Walked = tuple[list[tuple[bytes, int]], Iterator[tuple[bytes, int]], list[tuple[bytes, int]]]


def as_of_now(found: OrderedMap[int], *, reverse: bool) -> Walked:
    """What a walk has to show, the walk, and what was taken of it."""
    expected = sorted(found.items(), reverse=reverse)
    return expected, found.pairs_between(b"", None, reverse=reverse), []


@given(
    rows=st.sampled_from([0, 10, 63, 64, 65, 200, 1_500]),
    steps=st.lists(
        st.tuples(
            st.sampled_from(["put", "many", "remove", "clear", "walk", "back", "take"]),
            st.integers(0, 1_600),
        ),
        max_size=25,
    ),
)
def test_walks_show_what_was_there_when_they_began_whatever_happens_during_them(
    rows: int, steps: list[tuple[str, int]]
) -> None:
    found = filled(rows)
    walks: list[Walked] = []
    for number, (step, chosen) in enumerate(steps):
        key = b"%06d" % (chosen * 7_919 % 1_000_003)
        if step == "put":
            found.put(key, -number)
        elif step == "many":
            found.put_all({key: -number, key + b"!": -number})
        elif step == "remove":
            found.remove(key)
        elif step == "clear":
            found.clear()
        elif step != "take":
            walks.append(as_of_now(found, reverse=step == "back"))
        elif walks:
            _, walk, taken = walks[chosen % len(walks)]
            taken += islice(walk, chosen)
    for expected, walk, taken in walks:
        assert [*taken, *walk] == expected


@pytest.mark.parametrize("reverse", [False, True])
def test_a_walk_costs_what_is_taken_from_it(reverse: bool) -> None:
    steps = {}
    for rows in (200, 20_000):
        found = filled(rows)
        next(found.pairs_between(b"", None))  # which puts the keys in order
        with STEPS.counted():
            next(found.pairs_between(b"", None, reverse=reverse))
        steps[rows] = STEPS.total
    assert steps[20_000] <= 1.1 * steps[200]


def test_walks_that_nobody_goes_on_with_are_forgotten() -> None:
    found = filled(200)
    kept = [found.pairs_between(b"", None) for _ in range(10)]
    for _ in range(1_000):
        found.pairs_between(b"", None)
    assert len(found._walks) < 200
    found.put(b"new", 1)
    assert found._walks == []
    assert all(len(list(walk)) == 200 for walk in kept)


small = st.binary(max_size=2)


@given(st.lists(st.tuples(st.sampled_from(["put", "remove", "walk", "clear"]), small), max_size=30))
def test_any_changes_leave_what_a_sorted_dict_would_hold(
    changes: list[tuple[str, bytes]],
) -> None:
    found: OrderedMap[int] = OrderedMap()
    model: dict[bytes, int] = {}
    for number, (change, key) in enumerate(changes):
        if change == "put":
            found.put(key, number)
            model[key] = number
        elif change == "remove":
            found.remove(key)
            model.pop(key, None)
        elif change == "clear":
            found.clear()
            model.clear()
        else:
            assert keys(found, key) == sorted(k for k in model if k >= key)
    assert dict(found) == model
    assert keys(found) == sorted(model)
