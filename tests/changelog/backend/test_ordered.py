"""A dict that can be walked in key order."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from logstate.changelog.backend.ordered import OrderedMap


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


small = st.binary(max_size=2)


@settings(max_examples=100, deadline=None)
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
