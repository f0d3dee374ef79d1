"""Hash and tree order of Java collections, on which `describe()` depends."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from logstate.topology.graph.java_order import SortedSet, hash_order, string_hash


def test_a_string_hashes_as_in_java() -> None:
    # "Aa" and "BB" are Java's classic collision; "polygenelubricants" is its minimum int.
    assert string_hash("Aa") == string_hash("BB") == 2112
    assert string_hash("") == 0
    assert string_hash("polygenelubricants") == 0x80000000 ^ 0x8000


def test_characters_beyond_the_basic_plane_count_as_two() -> None:
    high, low = 0xD83D, 0xDE00
    assert string_hash("\U0001f600") == (high * 31 + low) ^ ((high * 31 + low) >> 16)


def test_short_names_come_in_the_order_of_their_buckets() -> None:
    assert hash_order(["c", "b", "a"]) == ["a", "b", "c"]
    assert hash_order(["q", "a"]) == ["q", "a"], "q is 113 = 1 mod 16, a is 97 = 1: insertion order"
    assert hash_order(["p", "a"]) == ["p", "a"], "p is 112 = 0 mod 16"


def test_the_table_doubles_at_three_quarters() -> None:
    names = [chr(ord("a") + i) for i in range(13)]
    # 13 names are over 12, so 32 buckets: a is 97 = 1 mod 32, as b follows with 2.
    assert hash_order([*names[1:], "a"])[0] == "a"


@given(st.lists(st.text(max_size=3), max_size=40))
def test_hash_order_is_a_permutation(names: list[str]) -> None:
    assert sorted(hash_order(names)) == sorted(set(names))


@given(st.lists(st.tuples(st.integers(0, 5), st.text(max_size=2)), max_size=60))
def test_a_sorted_set_with_fixed_keys_is_sorted(elements: list[tuple[int, str]]) -> None:
    collected: SortedSet[tuple[int, str]] = SortedSet(lambda element: element)
    for element in elements:
        collected.add(element)
    assert collected.in_order() == sorted(set(elements))


def test_a_key_that_grows_later_does_not_move_its_element() -> None:
    sizes = {"first": 1, "second": 1}
    collected: SortedSet[str] = SortedSet(lambda name: (-sizes[name], name))
    collected.add("second")
    sizes["second"] = 5
    collected.add("first")
    assert collected.in_order() == ["second", "first"]
