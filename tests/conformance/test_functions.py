"""The named functions, against the table that defines them."""

from __future__ import annotations

import pytest

from logstate.contracts.records import Windowed

from .aggregators import aggregator, reducer
from .functions import (
    extracted_time,
    flat_map,
    flat_map_values,
    joiner,
    mapper,
    mapper_type,
    predicate,
)
from .wire import BIGINT, SESSION, STRING, WireType


@pytest.mark.parametrize(
    ("spec", "key", "value", "expected"),
    [
        ({"value_gt": 3}, "a", 4, True),
        ({"value_gt": 3}, "a", None, False),
        ({"value_lt": 3}, "a", 3, False),
        ({"value_mod_eq": [3, 2]}, "a", -1, True),
        ("value_not_null", None, 0, True),
        ("value_is_null", None, 0, False),
        ("key_not_null", None, 0, False),
        ({"key_eq": "a"}, "a", 0, True),
        ({"value_len_gt": 2}, "a", "abc", True),
    ],
)
def test_predicates_decide_as_the_readme_says(spec, key, value, expected):
    assert predicate(spec)(key, value) is expected


@pytest.mark.parametrize(
    ("spec", "key", "value", "expected"),
    [
        ("identity", "a", 4, 4),
        ("key", "a", 4, "a"),
        ({"add": 1}, "a", 2**63 - 1, -(2**63)),
        ({"mul": 3}, "a", None, None),
        ({"null_if_gt": 3}, "a", 4, None),
        ("to_string", "a", 4, "4"),
        ("tag", None, None, "null:null"),
        ({"value_suffix": "-x"}, "a", "b", "b-x"),
        ({"key_suffix": "-x"}, None, "b", None),
        ("length", "a", "€é", 2),
        ({"value_mod": 3}, "a", -1, "g2"),
        ({"key_null_if_value_gt": 3}, "a", 4, None),
        ({"key_null_if_value_gt": 3}, "a", None, "a"),
        ({"field": 1}, "a", "x|y", "y"),
        ({"field": 0}, "a", "|y", None),
        ({"field": 2}, "a", "x|y", None),
        ({"field_int": 1}, "a", "x|-7", -7),
        ({"key_field": 0}, "p|q", None, "p"),
        ("window_key", Windowed("a", 10, 20), 1, "a@10"),
        ("window_inner_key", Windowed("a", 10, 20), 1, "a"),
    ],
)
def test_mappers_give_what_the_readme_says(spec, key, value, expected):
    assert mapper(spec)(key, value) == expected


def test_the_type_of_a_mapping_follows_from_the_function():
    windowed = WireType("windowed", 10)
    assert mapper_type("key", windowed, BIGINT) == windowed
    assert mapper_type("identity", STRING, BIGINT) == BIGINT
    assert mapper_type({"field_int": 1}, STRING, STRING) == BIGINT
    assert mapper_type("tag", STRING, BIGINT) == STRING


def test_flat_functions_give_what_the_readme_says():
    assert list(flat_map({"fan": 3})("a", 5)) == [("a-0", 5), ("a-1", 6)]
    assert list(flat_map({"fan": 3})("a", None)) == [("a", None)]
    assert list(flat_map_values({"ladder": 4})(7)) == [7, 8, 9]
    assert list(flat_map_values({"chars": None})("ab")) == ["a", "b"]
    assert list(flat_map_values({"chars": None})(None)) == []


def test_joiners_give_what_the_readme_says():
    assert joiner("concat")("l", None) == "(l,null)"
    assert joiner("concat_key")("k", 1, "r") == "k:(1,r)"


def test_aggregators_add_subtract_and_merge_as_written():
    concat = aggregator("concat")
    assert concat.add("k", 1, concat.initial) == "+1"
    assert concat.subtract("k", 1, "+1") == "+1-1"
    assert concat.merge("k", "", "+1") == "(|+1)"
    assert aggregator("sum").add("k", None, 4) == 4
    assert aggregator("sum_drop_zero").subtract("k", 4, 4) is None
    assert aggregator({"sum_null_gt": 5}).add("k", 3, 3) is None
    assert aggregator("min").add("k", None, 3) == 3
    assert aggregator("max").merge("k", None, 3) == 3
    assert aggregator("first").add("k", 2, 1) == 1
    assert aggregator("last").add("k", None, 1) is None
    assert aggregator("min").result_type(STRING) == STRING
    assert aggregator("count").result_type(STRING) == BIGINT


def test_reducers_give_what_the_readme_says():
    assert reducer("sum")(1, 2) == 3
    assert reducer("minus")(1, 2) == -1
    assert reducer("last")(1, None) is None
    assert reducer("concat")("a", "b") == "a+b"
    assert reducer("concat_minus")("a", "b") == "a-b"
    assert reducer({"sum_null_gt": 2})(1, 2) is None


def test_timestamp_extractors_give_what_the_readme_says():
    assert extracted_time({"payload_field": 0}, "12|x", 5, 9) == 12
    assert extracted_time({"payload_field": 0}, "|x", 5, 9) == -1
    assert extracted_time({"payload_field_or_partition_time": 0}, None, 5, 9) == 9
    assert extracted_time({"payload_field_or_record_time": 0}, "|x", 5, 9) == 5


def test_an_unknown_function_is_an_error():
    for make in (predicate, mapper, joiner, aggregator, reducer, flat_map, flat_map_values):
        with pytest.raises(ValueError, match="no_such"):
            make("no_such")


@pytest.mark.parametrize(
    ("wire", "value", "raw"),
    [
        (STRING, "é", "c3a9"),
        (STRING, "", ""),
        (BIGINT, -1, "ffffffffffffffff"),
        (WireType("windowed", 10), {"key": "a", "start": 20, "end": 30}, "610000000000000014"),
        (SESSION, {"key": "a", "start": 1, "end": 2}, "61" + "00" * 7 + "02" + "00" * 7 + "01"),
    ],
)
def test_wire_types_go_both_ways(wire, value, raw):
    assert wire.encode(value) == bytes.fromhex(raw)
    assert wire.decode(bytes.fromhex(raw)) == value
    assert wire.encode(None) is None
    assert wire.decode(None) is None
