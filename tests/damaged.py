"""Strategies that damage a record: of a JSON document, and of any bytes."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

#: values that take the place of another one: other types, numbers out of every range, odd texts
ODD = [
    None, True, False, 0, -1, 1, 2**31, 2**63, 2**64, -(2**63) - 1, 10**30, 1.5, 1e308, "", "x",
    "x" * 300, "\x1b[31m", "a/b", "payments", "__consumer_offsets", [], [None], [1], [["x"]], {},
    {"x": 1}, {"": None},
]  # fmt: skip
_TEXTS = (b"NaN", b"1e999", b"-", b'"\xff"', b'"\\ud800"', b"9" * 5_000)
_MARK = "put here"


def deep(levels: int, kind: str = "[") -> bytes:
    """A JSON value of so many levels.

    >>> deep(2), deep(1, "{")
    (b'[[0]]', b'{"k":0}')
    """
    opening, closing = (b"[", b"]") if kind == "[" else (b'{"k":', b"}")
    return opening * levels + b"0" + closing * levels


def damaged_bytes(data: bytes) -> st.SearchStrategy[bytes]:
    """The data cut off, with a byte changed, or other data."""
    cut = st.integers(0, max(0, len(data) - 1)).map(lambda at: data[:at])

    def changed(at_and_byte: tuple[int, int]) -> bytes:
        at, byte = at_and_byte
        return data[:at] + bytes([byte]) + data[at + 1 :]

    flipped = st.tuples(st.integers(0, len(data) - 1), st.integers(0, 255)).map(changed)
    return cut | flipped | st.binary(max_size=40) | st.sampled_from([deep(100_000), deep(300, "{")])


def damaged_json(document: Any) -> st.SearchStrategy[bytes]:
    """A document with one place in it gone, renamed, or replaced; or damaged as bytes."""
    places = list(_places(document))
    texts = st.sampled_from([*_TEXTS, deep(150), deep(2_000), deep(100_000)])
    replaced = st.tuples(st.sampled_from(places), st.sampled_from(ODD)).map(
        lambda told: json.dumps(_with(document, *told)).encode()
    )
    written = st.tuples(st.sampled_from(places), texts).map(
        lambda told: (
            json.dumps(_with(document, told[0], _MARK))
            .encode()
            .replace(json.dumps(_MARK).encode(), told[1])
        )
    )
    gone = st.sampled_from([place for place in places if place]).map(
        lambda place: json.dumps(_without(document, place)).encode()
    )
    return replaced | written | gone | damaged_bytes(json.dumps(document).encode())


def _places(value: Any, at: tuple[Any, ...] = ()) -> Any:
    yield at
    inside = value.items() if isinstance(value, dict) else ()
    inside = enumerate(value) if isinstance(value, list) else inside
    for key, one in inside:
        yield from _places(one, (*at, key))


def _with(value: Any, place: tuple[Any, ...], other: Any) -> Any:
    if not place:
        return other
    first, *rest = place
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[first] = _with(value[first], tuple(rest), other)
    return copy


def _without(value: Any, place: tuple[Any, ...]) -> Any:
    first, *rest = place
    copy = dict(value) if isinstance(value, dict) else list(value)
    if rest:
        copy[first] = _without(value[first], tuple(rest))
    else:
        del copy[first]
    return copy
