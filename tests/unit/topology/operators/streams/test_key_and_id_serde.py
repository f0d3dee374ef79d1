"""Pairs of a key and an id as the keys of a store."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from logstate import serdes
from logstate.topology.operators.streams.key_and_id_serde import KeyAndIdSerde

TEXTS = KeyAndIdSerde(serdes.string, serdes.string)


@given(key=st.text(), id_=st.integers(-(2**63), 2**63 - 1))
def test_a_pair_comes_back_as_it_was(key: str, id_: int):
    serde = KeyAndIdSerde(serdes.string, serdes.int64)

    assert serde.deserializer("t", True)(serde.serializer("t", True)((key, id_))) == (key, id_)


@given(
    one=st.tuples(st.text(max_size=3), st.text(max_size=3)),
    other=st.tuples(st.text(max_size=3), st.text(max_size=3)),
)
def test_two_pairs_have_the_same_bytes_only_if_they_are_the_same(
    one: tuple[str, str], other: tuple[str, str]
):
    write = TEXTS.serializer("t", True)

    assert (write(one) == write(other)) == (one == other)


def test_it_says_what_it_is_made_of():
    found = KeyAndIdSerde(serdes.string, serdes.int64).describe()

    assert (found["key"]["format"], found["id"]["format"]) == ("string", "int64")
