"""Errors about results name the operator and the user's function that made them."""

from __future__ import annotations

from typing import Any

import pytest

from logstate.contracts.errors import ProcessingError, ProductionError
from logstate.contracts.records import Record
from logstate.testing import TopologyTestDriver
from logstate.topology import KStream, Processor, StreamsBuilder

HERE = "tests/topology/graph/test_origin.py"


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
    assert "made by node 'KSTREAM-SOURCE-0000000000'." in str(error)


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
    assert "made by node 'KSTREAM-SOURCE-0000000000'." in str(error)
