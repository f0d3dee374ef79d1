"""Results that cannot be encoded are answered by the production handler, about their record."""

from __future__ import annotations

import contextlib
from datetime import timedelta
from typing import Any

import pytest

from logstate.contracts.errors import ProcessingError, ProductionError, RegistryError
from logstate.contracts.records import Record
from logstate.serdes import Serde
from logstate.task.error_handlers import (
    Decision,
    ErrorHandlers,
    FailedRecord,
    dead_letter,
    fail,
    retry,
    skip,
)
from logstate.testing import TopologyTestDriver
from logstate.topology import Processor, StreamsBuilder, key_value_store
from logstate.topology.plan.plan import Topology


class CountsAndSends(Processor[str, str, str, Any]):
    """Counts, sends the count, and then the value: as text, which "out" cannot hold, if "bad"."""

    def process(self, record: Record[str, str]) -> None:
        store = self.context.store("counts")
        count: int = (store.get(record.key) or 0) + 1
        store.put(record.key, count)
        self.context.forward(Record(record.key, count, record.timestamp))
        if record.value == "bad":
            self.context.forward(record._replace(value="text"))


class Careless(CountsAndSends):
    """Thinks that it can go on after anything."""

    def process(self, record: Record[str, str]) -> None:
        with contextlib.suppress(Exception):
            super().process(record)


def counting(processor: type[Processor[str, str, str, Any]] = CountsAndSends) -> Topology:
    builder = StreamsBuilder()
    builder.add_store(key_value_store("counts", str, int))
    stream = builder.stream("in", key=str, value=str)
    stream.process(processor, stores=("counts",), key=str, value=int).to("out", name="sink")
    return builder.build()


def run(handlers: ErrorHandlers, values: list[str], topology: Topology | None = None) -> Any:
    with TopologyTestDriver(topology or counting(), error_handlers=handlers) as driver:
        for i, value in enumerate(values):
            driver.pipe("in", "k", value, timestamp=i)
        counts = dict(driver.store("counts").all())
        dead = driver.read("dead", value=str) if handlers.dead_letter_topic else []
        return driver.read("out", value=int), counts, dead, driver.task


def test_by_default_a_result_that_does_not_encode_stops_the_application() -> None:
    with pytest.raises(ProductionError, match="the value of a result cannot be encoded") as caught:
        run(ErrorHandlers(), ["a", "bad", "c"])
    error = caught.value
    assert (error.topic, error.partition, error.offset) == ("in", 0, 1)
    assert (error.task, error.node) == ("0_0", "sink")
    assert "'out'" in str(error)


def test_a_processing_handler_is_not_asked_about_results() -> None:
    with pytest.raises(ProductionError):
        run(ErrorHandlers(processing=skip), ["bad"])


def test_a_record_whose_result_does_not_encode_is_rolled_back_whole() -> None:
    out, counts, _, task = run(ErrorHandlers(production=skip), ["a", "bad", "c"])
    assert out == [("k", 1), ("k", 2)]
    assert counts == {"k": 2}
    assert task.skipped_total == 1


def test_code_that_catches_everything_keeps_no_half_record() -> None:
    out, counts, _, _ = run(ErrorHandlers(production=skip), ["a", "bad", "c"], counting(Careless))
    assert out == [("k", 1), ("k", 2)]
    assert counts == {"k": 2}


def test_only_the_result_is_left_out_where_the_rest_is_to_be_kept() -> None:
    handlers = ErrorHandlers(production=skip, on_skip="keep")
    out, counts, _, task = run(handlers, ["a", "bad", "c"])
    assert out == [("k", 1), ("k", 2), ("k", 3)]
    assert counts == {"k": 3}
    assert task.skipped_total == 1


def test_the_dead_letter_is_the_record_that_the_result_came_of() -> None:
    handlers = ErrorHandlers(production=dead_letter, dead_letter_topic="dead")
    with TopologyTestDriver(counting(), error_handlers=handlers) as driver:
        driver.pipe("in", "k", "bad", timestamp=2, headers=[("trace", b"x")])
        (letter,) = driver.outputs
        assert driver.task.dead_letters_total == 1
    assert (letter.topic, letter.key, letter.value, letter.timestamp) == ("dead", b"k", b"bad", 2)
    headers = dict(letter.headers or ())
    assert headers["trace"] == b"x"
    assert headers["__streams.errors.topic"] == b"in"
    assert headers["__streams.errors.offset"] == b"0"


def test_the_handler_hears_of_the_record_the_sink_and_the_topic() -> None:
    heard: list[FailedRecord] = []

    def remember(record: FailedRecord) -> Decision:
        heard.append(record)
        return fail(record)

    with pytest.raises(ProductionError):
        run(ErrorHandlers(production=remember), ["bad"])
    (record,) = heard
    assert (record.stage, record.node, record.sent_to) == ("production", "sink", "out")
    assert record.source is not None
    assert (record.source.topic, record.source.offset, record.value) == ("in", 0, b"bad")


def test_retrying_a_value_that_does_not_encode_is_failing() -> None:
    with pytest.raises(ProductionError):
        run(ErrorHandlers(production=retry(3, backoff=timedelta(0))), ["bad"])


def test_a_key_that_does_not_encode_is_said_to_be_the_key() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=str)
    stream.map(lambda key, value: (7, value), key=str, value=str).to("out")
    with pytest.raises(ProductionError, match="the key of a result"):
        run_any(builder)


def test_results_placed_by_a_partitioner_are_no_exception() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=str)
    sevens = stream.map_values(lambda value: 7, value=str)
    sevens.to("out", partitioner=lambda topic, key, value, count: 0)
    with pytest.raises(ProductionError, match="the value of a result"):
        run_any(builder)


def run_any(builder: StreamsBuilder, **options: Any) -> None:
    with TopologyTestDriver(builder.build(), **options) as driver:
        driver.pipe("in", "k", "v", timestamp=1)


class UnreachableRegistry(Serde[str]):
    """Encodes nothing, through no fault of the value."""

    def describe(self) -> Any:
        return {"type": "unreachable"}

    def deserializer(self, topic: str, is_key: bool) -> Any:
        raise NotImplementedError

    def serializer(self, topic: str, is_key: bool) -> Any:
        def encode(value: str) -> bytes:
            raise RegistryError("nobody answers")

        return encode


def test_an_unreachable_registry_is_no_fault_of_the_result() -> None:
    builder = StreamsBuilder()
    builder.stream("in", key=str, value=str).to("out", value=UnreachableRegistry())
    with pytest.raises(RegistryError):
        run_any(builder, error_handlers=ErrorHandlers(production=skip))


def test_a_chooser_of_topics_that_raises_is_a_matter_of_processing() -> None:
    def choose(key: Any, value: Any, place: Any) -> str:
        raise KeyError(value)

    builder = StreamsBuilder()
    builder.stream("in", key=str, value=str).to(choose)
    with pytest.raises(ProcessingError):
        run_any(builder, error_handlers=ErrorHandlers(production=skip))
