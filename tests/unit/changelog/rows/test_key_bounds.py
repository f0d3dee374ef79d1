"""Ranges of keys are in the order of bytes, as in Kafka Streams, and say where that surprises."""

from __future__ import annotations

from typing import Any

import pytest

from logstate.serdes import json_of
from logstate.testing import TopologyTestDriver
from logstate.topology import StreamsBuilder


def ranges(key: Any, keys: list[Any], *asked: tuple[Any, Any]) -> list[list[Any]]:
    builder = StreamsBuilder()
    builder.table("in", key=key, value=str, store="t")
    with TopologyTestDriver(builder.build()) as driver:
        for one in keys:
            driver.pipe("in", one, "x", timestamp=1)
        store = driver.store("t")
        return [[found for found, _ in store.range(*bounds)] for bounds in asked]


INTS = [-5, -1, 0, 1, 5]


@pytest.mark.parametrize(
    ("key", "keys", "asked", "found", "said"),
    [
        (int, INTS, (-5, 5), [], "no keys are between them"),
        (int, INTS, (-1, 1), [], "range(lower, -1) and range(0, upper)"),
        (int, INTS, (5, 1), [], "the first key comes after the last one"),
        (int, INTS, (None, 1), [0, 1], "negative keys are not among them"),
        (int, INTS, (-1, None), [-1], "keys from 0 on are not among them"),
        (int, INTS, (-5, -1), [-5, -1], None),
        (int, INTS, (0, 5), [0, 1, 5], None),
        (int, INTS, (0, None), [0, 1, 5, -5, -1], None),
        (int, INTS, (None, None), [0, 1, 5, -5, -1], None),
        (float, [-2.5, -1.0, 0.5], (-2.5, 0.5), [], "no keys are between them"),
        (float, [-2.5, -1.0, 0.5], (-2.5, -1.0), [], "falling order"),
        (float, [0.5, 1.5, 20.0], (0.5, 20.0), [0.5, 1.5, 20.0], None),
        (json_of(int), [2, 10, 30], (2, 30), [2, 30], "10 comes before 2"),
        (json_of(int), [2, 10, 30], (2, 10), [], "10 before 2"),
        (json_of(str), ["a", "b"], ("a", "b"), ["a", "b"], None),
        (str, ["a", "b", "ü"], ("a", "ü"), ["a", "b", "ü"], None),
        (str, ["a", "b"], ("b", "a"), [], "Is the first key meant to be the last one?"),
        (bytes, [b"\x00", b"\xff"], (b"\x00", None), [b"\x00", b"\xff"], None),
    ],
)
def test_a_range_says_what_it_leaves_out(
    key: Any,
    keys: list[Any],
    asked: tuple[Any, Any],
    found: list[Any],
    said: str | None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert ranges(key, keys, asked, asked) == [found, found]
    if said is None:
        assert caplog.messages == []
    else:
        (line,) = caplog.messages  # once, however often it is asked
        assert line.startswith(f"store 't', keys from {asked[0]!r} to {asked[1]!r}: ")
        assert said in line
