"""Errors about results name the operator and the user's function that made them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from logstate.contracts.errors import ProcessingError, ProductionError
from logstate.contracts.records import Record
from logstate.testing import TopologyTestDriver
from logstate.topology import (
    JoinWindows,
    KStream,
    KTable,
    Materialized,
    Processor,
    StreamsBuilder,
    TumblingWindows,
    until_time_limit,
)

DAY = timedelta(days=1)
HERE = "tests/unit/topology/graph/test_origin.py"


def shorter(value: str) -> Any:
    return len(value)


class Measures(Processor[str, str, str, Any]):
    def process(self, record: Record[str, str]) -> None:
        if record.value:
            self.context.forward(record._replace(value=len(record.value)))


def raised(declare: Any, value: str = "v") -> Any:
    builder = StreamsBuilder()
    declare(builder)
    with (
        TopologyTestDriver(builder.build()) as driver,
        pytest.raises((ProcessingError, ProductionError)) as caught,
    ):
        driver.pipe("in", "k", value)
    return caught.value


def stream(builder: StreamsBuilder) -> KStream[str, str]:
    return builder.stream("in", key=str, value=str)


def test_a_result_that_does_not_encode_names_the_function_in_front_of_the_sink() -> None:
    error = raised(lambda b: stream(b).map_values(shorter, value=str, name="m").to("out"))
    assert f"made by node 'm' (shorter at {HERE}:" in str(error)
    assert (error.topic, error.offset, error.node) == ("in", 0, "KSTREAM-SINK-0000000002")
    assert error.function.startswith(f"shorter at {HERE}:")


def test_what_only_passes_records_on_is_not_to_blame() -> None:
    def declare(builder: StreamsBuilder) -> None:
        made = stream(builder).map_values(shorter, value=str, name="m")
        made.merge(stream(builder).filter(lambda value: False)).to("out")

    error = raised(declare)
    assert "made by node 'm' (shorter at" in str(error)


def test_of_a_processor_the_line_that_forwards_is_named() -> None:
    error = raised(lambda b: stream(b).process(Measures, name="p", key=str, value=str).to("out"))
    assert f"made by node 'p' ({HERE}:" in str(error)
    assert error.function.endswith("in process")


def test_what_is_passed_from_a_source_to_a_sink_names_the_source() -> None:
    error = raised(lambda b: b.stream("in", key=str, value=str).to("out", value=int))
    assert "made by node 'KSTREAM-SOURCE-0000000000' (source of 'in')." in str(error)


def half(value: str) -> Any:
    return len(value) / 2


def lengths(builder: StreamsBuilder) -> KStream[str, int]:
    return stream(builder).map_values(half, value=int, name="halved")


def in_table(builder: StreamsBuilder) -> KTable[str, int]:
    rows = builder.table("in", key=str, value=str, store="rows")
    return rows.map_values(half, value=int, name="halved")


def others(builder: StreamsBuilder) -> KTable[str, int]:
    return builder.table("others", key=str, value=int, store="others")


def left_of(left: Any, right: Any) -> Any:
    return left


NEAR = JoinWindows.symmetric(timedelta(seconds=1))
#: operators that keep what others made
KEEPERS: dict[str, Callable[[StreamsBuilder], object]] = {
    "to_table": lambda b: lengths(b).to_table(store="t"),
    "versioned": lambda b: lengths(b).to_table(store=Materialized("t", history=DAY)),
    "lru": lambda b: lengths(b).to_table(store=Materialized("t", capacity=2)),
    "through a filter": lambda b: lengths(b).filter(bool).peek(repr).to_table(store="t"),
    "through a branch": lambda b: (
        lengths(b).split().branch(bool, chain=lambda s: s.to_table(store="t")).no_default_branch()
    ),
    "through a merge": lambda b: (
        lengths(b).merge(b.stream("others", key=str, value=int)).to_table(store="t")
    ),
    "reduce": lambda b: lengths(b).group_by_key().reduce(left_of, store="t"),
    "windows": lambda b: (
        lengths(b).group_by_key().windowed_by(TumblingWindows(size=DAY)).reduce(left_of, store="t")
    ),
    "stream join": lambda b: lengths(b).join(
        b.stream("others", key=str, value=int), left_of, windows=NEAR, name="j", value=int
    ),
    "outer join": lambda b: b.stream("others", key=str, value=int).outer_join(
        lengths(b), left_of, windows=NEAR, name="j", value=int
    ),
    "grace": lambda b: lengths(b).join(
        b.table("others", key=str, value=int, store=Materialized("others", history=DAY)),
        left_of,
        grace=timedelta(seconds=1),
        name="j",
    ),
    "filtered table": lambda b: in_table(b).filter(bool, store="t"),
    "suppress": lambda b: in_table(b).suppress(until_time_limit(DAY), name="s"),
    "foreign key": lambda b: in_table(b).join(
        others(b), left_of, foreign_key=str, name="j", value=int
    ),
}


@pytest.mark.parametrize("declare", KEEPERS.values(), ids=KEEPERS)
def test_a_value_that_a_store_refuses_names_who_made_it(
    declare: Callable[[StreamsBuilder], object],
) -> None:
    error = raised(declare)
    assert "SerdeError: " in str(error)
    assert "The int64 serde takes int, found float" in str(error)
    assert f"half at {HERE}:" in error.function
    assert "(node 'halved')" in error.function
    assert "bool" not in error.function


def test_a_joined_row_that_a_store_refuses_names_the_joiner() -> None:
    def joined(left: str, right: Any) -> Any:
        return 1.5

    error = raised(
        lambda b: b.table("in", key=str, value=str, store="rows").left_join(
            others(b), joined, store="t", value=int
        )
    )
    assert "joined at" in error.function
    assert "(node 'KTABLE-JOINTHIS-0000000005' (left side of the join of " in error.function


def test_of_a_processor_above_a_store_the_line_that_forwards_is_named() -> None:
    error = raised(
        lambda b: stream(b).process_values(Measures, name="p", value=str).to_table(store="t")
    )
    assert error.function.startswith(f"{HERE}:")
    assert error.function.endswith("in process (node 'p')")


def test_a_number_that_is_too_large_is_told_with_what_to_do() -> None:
    def large(value: str) -> int:
        return 2**63

    error = raised(lambda b: stream(b).map_values(large, value=int).to_table(store="t"))
    assert "takes numbers of 64 bits, and the value needs more. Declare str or json" in str(error)
    assert "large at" in error.function
    error = raised(lambda b: stream(b).map_values(large, value="int32").to_table(store="t"))
    assert "Declare int (64 bits), str or json" in str(error)


def longer(old: str, new: str) -> str:
    return max(old, new, key=len)


def test_a_held_back_result_leads_to_its_own_record() -> None:
    builder = StreamsBuilder()
    most = stream(builder).group_by_key().reduce(longer, store="most", emit="commit")
    most.to_stream().to("out", value=int)
    with TopologyTestDriver(builder.build(), commit_every=2) as driver:
        driver.pipe("in", "a", "v")
        with pytest.raises(ProductionError) as caught:
            driver.pipe("in", "b", "v")
    assert caught.value.offset == 0
    assert "partition 0, offset 0, task 0_0, made by" in str(caught.value)
    assert f"longer at {HERE}:" in str(caught.value)


def test_a_function_without_a_frame_of_its_own_is_named() -> None:
    error = raised(lambda b: stream(b).map_values(int, value=int, name="number"))
    assert "node 'number', in int: ValueError" in str(error)
    assert (error.node, error.function) == ("number", "int")


def test_an_extractor_that_raises_names_its_source() -> None:
    def extractor(key: Any, value: Any, timestamp: int, partition_time: int) -> int:
        raise ValueError("no time")

    error = raised(
        lambda b: b.stream("in", key=str, value=str, timestamp_extractor=extractor).to("out")
    )
    assert error.node == "KSTREAM-SOURCE-0000000000"
    assert "node None" not in str(error)
    assert error.function.endswith("in extractor")


def test_the_functions_of_the_library_are_nobodys_fault() -> None:
    def declare(builder: StreamsBuilder) -> None:
        counts = stream(builder).group_by_key().count(store="n", name="counted")
        counts.to_stream().to("out", value=str)

    error = raised(declare)
    assert "made by node 'KSTREAM-SOURCE-0000000000' (source of 'in')." in str(error)
