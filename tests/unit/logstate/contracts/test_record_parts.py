"""Parts of records that functions give are of the right type, or are refused by name."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import IntEnum, StrEnum
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstate.contracts.record_parts import (
    TIMESTAMP_MAX,
    event_time_of,
    headers_of,
    partitions_of,
    shown,
    timestamp_of,
    topic_of,
)


class Number(IntEnum):
    SEVEN = 7


class Topic(StrEnum):
    GOLD = "gold"


class Unspeakable:
    def __repr__(self) -> str:
        raise ValueError("no")


NO_INTS = [1.5, float("nan"), np.float64(5), True, np.bool_(True), "5", b"5", None, [5], {},
           datetime.now(UTC), Unspeakable()]  # fmt: skip


@pytest.mark.parametrize("whole", [np.int64(7), np.int32(7), np.uint64(7), Number.SEVEN, 7])
def test_whole_numbers_of_other_libraries_become_ints(whole: Any) -> None:
    assert type(timestamp_of(whole, "it gave")) is int
    assert timestamp_of(whole, "it gave") == 7
    assert partitions_of(whole, "it gave") == (7,)
    assert type(partitions_of(whole, "it gave")[0]) is int


@pytest.mark.parametrize("wrong", NO_INTS, ids=lambda wrong: type(wrong).__name__)
def test_nothing_is_rounded_or_parsed(wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"it gave the timestamp .*event time is an int, in ms"):
        timestamp_of(wrong, "it gave")


@pytest.mark.parametrize("time", [-(2**70), -1, 0, 5, TIMESTAMP_MAX])
def test_times_of_64_bits_stay_what_they_are(time: int) -> None:
    assert timestamp_of(time, "it gave") == time


@given(st.integers())
def test_an_event_time_is_what_64_bits_hold_from_the_epoch_on(time: int) -> None:
    if 0 <= time <= TIMESTAMP_MAX:
        assert event_time_of(time, "it gave") == time
        return
    with pytest.raises(ValueError, match="event time is"):
        event_time_of(time, "it gave")


@pytest.mark.parametrize(
    ("wrong", "remedy"),
    [
        (1_711_852_200.5, "look like seconds"),
        (1_711_852_200_123.5, "Round it"),
        (datetime.now(UTC), "moment.timestamp"),
        (None, "Return -1"),
    ],
)
def test_the_error_says_what_was_probably_meant(wrong: Any, remedy: str) -> None:
    with pytest.raises(TypeError, match=remedy):
        timestamp_of(wrong, "it gave")


@pytest.mark.parametrize(
    ("given", "headers"),
    [
        (None, None),
        ([], []),
        ([("a", b"x"), ("a", None)], [("a", b"x"), ("a", None)]),
        ((("a", b"x"),), [("a", b"x")]),
        ([("ü", b"")], [("ü", b"")]),
    ],
)
def test_headers_are_a_list_of_pairs(given: Any, headers: Any) -> None:
    assert headers_of(given, "it gave") == headers


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"a": b"x"}, r"list\(headers.items\(\)\)"),
        ("ab", "a list of"),
        ([("a", "text")], "Encode it"),
        ([("a", 5)], "values are bytes"),
        ([("a", bytearray(b"x"))], "values are bytes"),
        ([(b"a", b"x")], "names are str"),
        ([(None, b"x")], "names are str"),
        (["ab"], "a header is a tuple"),
        ([("a",)], "a header is a tuple"),
        ([["a", b"x"]], "a header is a tuple"),
        ([None], "a header is a tuple"),
    ],
)
def test_other_headers_are_refused_by_name(wrong: Any, told: str) -> None:
    with pytest.raises(TypeError, match=told):
        headers_of(wrong, "it gave")


def test_a_header_name_that_is_no_text_is_refused() -> None:
    with pytest.raises(ValueError, match="not valid text"):
        headers_of([("\ud800", b"x")], "it gave")


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "x" * 249, Topic.GOLD])
def test_topics_that_kafka_can_have_are_plain_strs(name: str) -> None:
    assert type(topic_of(name, "it gave")) is str
    assert topic_of(name, "it gave") == name


@pytest.mark.parametrize("wrong", ["", ".", "..", "a b", "münchen", "a/b", "a\n", "x" * 250])
def test_topics_that_kafka_cannot_have_are_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match="no topic of that name"):
        topic_of(wrong, "it gave")


@pytest.mark.parametrize("wrong", [None, 5, b"gold", ["gold"], True])
def test_a_topic_is_a_str(wrong: Any) -> None:
    with pytest.raises(TypeError, match="topics are named by str"):
        topic_of(wrong, "it gave")


@pytest.mark.parametrize(
    ("given", "partitions"),
    [
        (None, (None,)),
        (0, (0,)),
        ([2, 1, 2], (1, 2)),
        ({0}, (0,)),
        ((), ()),
        (np.array([3, 1]), (1, 3)),
        (range(2), (0, 1)),
    ],
)
def test_a_partitioner_may_choose_one_many_none_or_the_default(given: Any, partitions: Any) -> None:
    assert partitions_of(given, "it gave") == partitions


@pytest.mark.parametrize("wrong", ["0", b"0", 0.0, True, {0: 1}, [None], ["1"], [1.0], object()])
def test_a_partition_is_an_int(wrong: Any) -> None:
    with pytest.raises(TypeError, match="a partition is an int"):
        partitions_of(wrong, "it gave")


@pytest.mark.parametrize("wrong", [-1, 2**31, [0, -1]])
def test_a_partition_that_no_topic_can_have_is_refused(wrong: Any) -> None:
    with pytest.raises(ValueError, match="the partition"):
        partitions_of(wrong, "it gave")


def test_what_is_quoted_is_short_and_never_fails() -> None:
    assert len(shown("x" * 10_000)) < 200
    assert shown(Unspeakable()) == "<repr() raised ValueError>"
