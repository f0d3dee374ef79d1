"""Which filters are taken from Spark, and that they pass what SQL says they pass."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    GreaterThan,
    In,
    IsNotNull,
    IsNull,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from logstate.changelog.reading.blocks import Block
from logstate.changelog.reading.changelog_source import ChangelogSource
from logstate.changelog.reading.cut import Ends
from logstate.changelog.reading.options import parse_options
from logstate.changelog.reading.tables import StoreTable
from logstate.changelog.spark.pushed_filters import (
    Pushed,
    accepted,
    wanted_keys,
    wanted_partitions,
)
from logstate.changelog.spark.table_reader import FilteringTableReader, TableReader, table_reader
from logstate.contracts.records import TopicPartition

ENTRY: dict[str, Any] = {
    "kind": "versioned",
    "key": {"format": "string"},
    "value": {"format": "json", "schema": {"type": "object", "properties": {"n": {}}}},
}
SECOND = [datetime.fromtimestamp(n, UTC) for n in range(4)]
#: key, valid_from in seconds, valid_to in seconds
ROWS = [("a", 0, 2), ("a", 2, None), ("b", 1, None)]


def taken(*filters: Any, entry: dict[str, Any] = ENTRY) -> list[Pushed]:
    table = StoreTable(entry)
    return accepted(filters, table, table.batch_columns(with_tombstones=True, with_meta=True))


def passing(one: Any) -> list[int]:
    """Which of ROWS pass a filter."""
    keys = pa.array([key.encode() for key, _, _ in ROWS], pa.binary())
    times = pa.array([start * 1_000 for _, start, _ in ROWS])
    ends = pa.array([None if end is None else end * 1_000 for _, _, end in ROWS], pa.int64())
    numbers = pa.array(range(len(ROWS)))
    block = Block(TopicPartition("log", 1), keys, keys, numbers, times, valid_to=ends)
    (pushed,) = taken(one)
    return list(block.filter(pushed.mask(block)).offsets.to_pylist())


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (EqualTo(("key",), "a"), [0, 1]),
        (Not(EqualTo(("key",), "a")), [2]),
        (In(("key",), ("b", "c")), [2]),
        (GreaterThan(("valid_from",), SECOND[1]), [1]),
        (LessThanOrEqual(("valid_from",), SECOND[1].replace(tzinfo=None)), [0, 2]),
        (EqualTo(("valid_to",), SECOND[2]), [0]),
        (Not(EqualTo(("valid_to",), SECOND[2])), []),  # null is not known to be another
        (IsNull(("valid_to",)), [1, 2]),
        (IsNotNull(("valid_to",)), [0]),
        (EqualNullSafe(("valid_to",), None), [1, 2]),
        (EqualNullSafe(("valid_to",), SECOND[2]), [0]),
        (EqualTo(("key",), None), []),
        (In(("key",), ("a", None)), [0, 1]),
        (Not(In(("key",), ("a", None))), []),
        (GreaterThan(("_offset",), 1), [2]),
        (EqualTo(("_partition",), 1), [0, 1, 2]),
        (EqualTo(("_is_tombstone",), True), []),
    ],
)
def test_a_filter_passes_what_sql_says(one: Any, expected: list[int]) -> None:
    assert passing(one) == expected


@pytest.mark.parametrize(
    "one",
    [
        EqualTo(("value",), "a"),
        GreaterThan(("value", "n"), 1),
        StringStartsWith(("key",), "a"),
        EqualTo(("_headers",), []),
        EqualTo(("key",), 7),  # no string: let Spark say what it means
    ],
)
def test_what_is_not_understood_is_left_to_spark(one: Any) -> None:
    assert taken(one) == []


def test_keys_of_formats_with_several_encodings_are_left_to_spark() -> None:
    entry = {**ENTRY, "kind": "key_value", "key": {"format": "json", "schema": None}}

    assert taken(EqualTo(("key",), "a"), entry=entry) == []


PLACE_ENTRY: dict[str, Any] = {
    **ENTRY,
    "key": {
        "format": "json",
        "schema": {
            "type": "object",
            "properties": {
                "city": {"type": "string"},
                "zone": {"type": "integer", "default": 1},
                "far": {"type": "number"},
                "at": {"type": "object", "properties": {"floor": {"type": "integer"}}},
            },
        },
    },
}
#: one key in several encodings, as others may write them, and one that is none
PLACES = [
    b'{"city":"ada","zone":1}',
    b'{"zone": 1, "city": "ada"}',
    b'{"city":"ad\\u0061","at":{"floor":3}}',
    b'{"city":"bo","zone":2}',
    b"{}",
    b"null",
]


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([EqualTo(("key", "city"), "ada")], [0, 1, 2]),
        ([EqualTo(("key", "city"), "ada"), EqualTo(("key", "zone"), 1)], [0, 1, 2]),
        ([EqualTo(("key", "city"), "ada"), EqualTo(("key", "zone"), 2)], []),
        ([GreaterThan(("key", "zone"), 1)], [3]),
        ([In(("key", "city"), ("bo", None))], [3]),
        ([Not(EqualTo(("key", "city"), "ada"))], [3]),
        ([IsNull(("key", "city"))], [4, 5]),
        ([IsNull(("key",))], [5]),
        ([IsNotNull(("key",)), EqualTo(("key", "at", "floor"), 3)], [2]),
    ],
)
def test_fields_of_keys_are_compared_however_a_key_is_written(
    filters: list[Any], expected: list[int]
) -> None:
    keys = pa.array(PLACES, pa.binary())
    numbers = pa.array(range(len(PLACES)))
    block = Block(TopicPartition("log", 1), keys, keys, numbers, numbers)
    pushed = taken(*filters, entry=PLACE_ENTRY)
    assert [each.filter for each in pushed] == filters
    assert wanted_keys(pushed, "json") is None

    for each in pushed:
        block = block.filter(each.mask(block))

    assert block.offsets.to_pylist() == expected


@pytest.mark.parametrize(
    "one",
    [
        EqualTo(("key",), {"city": "ada"}),
        EqualTo(("key", "far"), 1.5),
        EqualTo(("key", "nobody"), 1),
        EqualTo(("key", "city", "x"), 1),
        EqualTo(("key", "at"), None),
    ],
)
def test_other_comparisons_of_struct_keys_are_left_to_spark(one: Any) -> None:
    assert taken(one, entry=PLACE_ENTRY) == []


def test_equality_narrows_to_keys_and_all_of_it_has_to_hold() -> None:
    one, both = EqualTo(("key",), "b"), In(("key",), ("a", "b"))

    assert wanted_keys(taken(one, both), "string") == {b"b"}
    assert wanted_keys(taken(GreaterThan(("key",), "a")), "string") is None
    assert wanted_keys(taken(Not(one)), "string") is None


def test_partitions_are_chosen_by_their_number() -> None:
    several = taken(GreaterThan(("_partition",), 0), Not(EqualTo(("_partition",), 2)))

    assert wanted_partitions(several, [0, 1, 2, 3]) == [1, 3]
    assert wanted_partitions([], [0, 1]) == [0, 1]


def reader(cls: type[TableReader], **options: str) -> Any:
    parsed = parse_options({"bootstrap": "b:1", "topic": "log", **options})
    return cls(parsed, ChangelogSource("log", "id", 2, ENTRY), Ends({0: 1, 1: 1}))


def test_a_reader_travels_with_its_filters() -> None:
    made = reader(FilteringTableReader)
    left = made.pushFilters([EqualTo(("key",), "a"), EqualTo(("value",), "x")])

    assert left == [EqualTo(("value",), "x")]
    assert cloudpickle.loads(cloudpickle.dumps(made))._filters == [EqualTo(("key",), "a")]


@pytest.mark.parametrize(
    ("process", "option", "expected"),
    [
        ("pyspark.sql.worker.data_source_pushdown_filters", {}, FilteringTableReader),
        ("pyspark.sql.worker.plan_data_source_read", {}, TableReader),
        (
            "pyspark.sql.worker.data_source_pushdown_filters",
            {"pushKeyFilter": "false"},
            TableReader,
        ),
        ("pyspark.daemon", {"pushKeyFilter": "true"}, FilteringTableReader),
    ],
)
def test_filters_are_taken_where_spark_hands_them_down_or_the_option_says(
    process: str, option: dict[str, str], expected: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    import __main__

    class Spec:
        name = process

    monkeypatch.setattr(__main__, "__spec__", Spec, raising=False)
    parsed = parse_options({"bootstrap": "b:1", "topic": "log", **option})
    source = ChangelogSource("log", "id", 2, ENTRY)

    assert type(table_reader(parsed, source, Ends({}))) is expected
    # As in a process that a daemon has forked.
    monkeypatch.setattr(Spec, "name", "pyspark.daemon")
    monkeypatch.setitem(sys.modules, process, __main__)
    assert type(table_reader(parsed, source, Ends({}))) is expected
